package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"kring/balance"
	"kring/cache"
)

// maxEndpointBody bounds the description of an endpoint.
const maxEndpointBody = 8 << 10

func (a *API) listPools(c *gin.Context, _ cache.Key) error {
	list := struct {
		Pools []balance.PoolStatus `json:"pools"`
	}{Pools: make([]balance.PoolStatus, 0, len(a.order))}
	for _, name := range a.order {
		list.Pools = append(list.Pools, a.pools[name].Inspect(c.Request.Context()))
	}
	return a.respondJSON(c, list)
}

func (a *API) showPool(c *gin.Context, _ cache.Key) error {
	p, err := a.pool(c)
	if err != nil {
		return err
	}
	return a.respondJSON(c, p.Inspect(c.Request.Context()))
}

func (a *API) pool(c *gin.Context) (*balance.Pool, error) {
	if p := a.pools[c.Param("pool")]; p != nil {
		return p, nil
	}
	return nil, errUnknownPool
}

// assignment is the answer to POST and, without the endpoint, to PUT.
type assignment struct {
	ID        string              `json:"assignment,omitempty"`
	Endpoint  *assignmentEndpoint `json:"endpoint,omitempty"`
	ExpiresIn string              `json:"expires_in"`
}

type assignmentEndpoint struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

// assign answers POST of an assignment. It ignores the body.
func (a *API) assign(c *gin.Context, _ cache.Key) error {
	p, err := a.pool(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Request.Context(), a.limits.RequestTimeout)
	defer cancel()
	got, err := p.Assign(ctx)
	if err != nil {
		return poolError(err)
	}
	c.Writer.Header()["Kring-Node"] = a.nodeValue
	c.Writer.WriteHeader(http.StatusCreated)
	return a.respondJSON(c, assignment{
		ID: got.ID, Endpoint: &assignmentEndpoint{got.Endpoint.Name, got.Endpoint.URL}, ExpiresIn: got.ExpiresIn.String(),
	})
}

func (a *API) renewAssignment(c *gin.Context, _ cache.Key) error {
	p, err := a.pool(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Request.Context(), a.limits.RequestTimeout)
	defer cancel()
	lasts, err := p.Renew(ctx, c.Param("id"))
	if err != nil {
		return poolError(err)
	}
	return a.respondJSON(c, assignment{ExpiresIn: lasts.String()})
}

func (a *API) completeAssignment(c *gin.Context, _ cache.Key) error {
	p, err := a.pool(c)
	if err != nil {
		return err
	}
	outcome := balance.Success
	switch said := c.Request.URL.Query().Get("outcome"); said {
	case "", "ok":
	case "failed":
		outcome = balance.Failure
	default:
		return errBadRequest.With("outcome is ok or failed")
	}
	ctx, cancel := context.WithTimeout(c.Request.Context(), a.limits.RequestTimeout)
	defer cancel()
	if err := p.Complete(ctx, c.Param("id"), outcome); err != nil {
		return poolError(err)
	}
	return a.done(c, http.StatusNoContent)
}

func (a *API) putEndpoint(c *gin.Context, _ cache.Key) error {
	p, err := a.pool(c)
	if err != nil {
		return err
	}
	room := a.values.Share(c.Request)
	defer room.Release()
	body, err := room.ReadBody(c.Request, maxEndpointBody)
	if err != nil {
		return err
	}
	change, err := decodeEndpoint(body)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Request.Context(), a.limits.RequestTimeout)
	defer cancel()
	name := strings.Clone(c.Param("name")) // the pool keeps it
	created, err := p.PutEndpoint(ctx, name, change)
	if err != nil {
		return poolError(err)
	}
	put, ok := p.Endpoint(name)
	if put.Reason != "" {
		// A 204 has no body that could have the reason.
		c.Writer.Header()["Kring-Reason"] = []string{headerText(put.Reason)}
	}
	if !created || !ok { // not ok: the endpoint was removed meanwhile
		return a.done(c, status(created))
	}
	c.Writer.Header()["Kring-Node"] = a.nodeValue
	c.Writer.WriteHeader(http.StatusCreated)
	return a.respondJSON(c, put)
}

func status(created bool) int {
	if created {
		return http.StatusCreated
	}
	return http.StatusNoContent
}

// headerText is s in ASCII, so that it can be a header's value.
func headerText(s string) string {
	quoted := strconv.QuoteToASCII(s)
	return quoted[1 : len(quoted)-1]
}

func (a *API) removeEndpoint(c *gin.Context, _ cache.Key) error {
	p, err := a.pool(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Request.Context(), a.limits.RequestTimeout)
	defer cancel()
	if err := p.RemoveEndpoint(ctx, c.Param("name")); err != nil {
		return poolError(err)
	}
	return a.done(c, http.StatusNoContent)
}

// decodeEndpoint reads {"url","weight","eligible"}, each of which may be left out.
func decodeEndpoint(body []byte) (change balance.EndpointChange, err error) {
	err = readObject(body, `{"url":"…","weight":1,"eligible":true}`, map[string]reader{
		"url": readValue(&change.URL), "weight": readValue(&change.Weight), "eligible": readValue(&change.Eligible),
	})
	return change, err
}

// poolError is the client's error for an error of a pool.
func poolError(err error) error {
	var change *balance.ChangeError
	switch {
	case errors.As(err, &change):
		return errBadRequest.With(change.Problem)
	case errors.Is(err, balance.ErrNoEligible):
		return cache.ErrNoEligibleEndpoint
	case errors.Is(err, balance.ErrUnknownAssignment):
		return errUnknownAssignment
	case errors.Is(err, balance.ErrTooManyAssignments):
		return cache.ErrOverloaded.With("too many assignments are unfinished")
	case errors.Is(err, balance.ErrTooManyEndpoints):
		return errTooManyEndpoints.With(err.Error())
	case errors.Is(err, balance.ErrUnshared):
		return errPoolDegraded.Because(err)
	}
	return fmt.Errorf("use a pool: %w", err)
}
