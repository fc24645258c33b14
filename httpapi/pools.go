package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
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

// assignment is the answer to POST and, but for the endpoint, to PUT.
type assignment struct {
	ID        string              `json:"assignment,omitempty"`
	Endpoint  *assignmentEndpoint `json:"endpoint,omitempty"`
	ExpiresIn string              `json:"expires_in"`
}

type assignmentEndpoint struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

// assign answers POST of an assignment. It has no body: whatever is sent is
// not looked at.
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
	body, err := a.readBody(c.Request, maxEndpointBody)
	if err != nil {
		return err
	}
	defer body.release()
	change, err := decodeEndpoint(body.bytes)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Request.Context(), a.limits.RequestTimeout)
	defer cancel()
	created, err := p.PutEndpoint(ctx, strings.Clone(c.Param("name")), change) // the pool keeps it
	switch {
	case err != nil:
		return poolError(err)
	case created:
		return a.done(c, http.StatusCreated)
	}
	return a.done(c, http.StatusNoContent)
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
func decodeEndpoint(body []byte) (balance.EndpointChange, error) {
	var change balance.EndpointChange
	if err := exactJSON(body); err != nil {
		return change, err
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	const wrong = `the body is not {"url":"…","weight":1,"eligible":true}`
	if err := dec.Decode(&change); err != nil {
		return change, errBadRequest.With(wrong).Because(err)
	}
	if !bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")) {
		return change, errBadRequest.With(wrong) // null, which fits everything
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return change, errBadRequest.With("something follows the JSON object")
	}
	return change, nil
}

// poolError is what a pool's error means to a client.
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
	case errors.Is(err, balance.ErrUnshared):
		return errPoolDegraded.Because(err)
	}
	return fmt.Errorf("use a pool: %w", err)
}
