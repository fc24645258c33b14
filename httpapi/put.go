package httpapi

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"kring/cache"
)

// maxContentType bounds the Content-Type that is kept with a value, in bytes.
const maxContentType = 256

// put answers PUT of a key.
func (a *API) put(c *gin.Context, key cache.Key) error {
	r := c.Request
	if err := a.cache.CheckKey(key); err != nil {
		return err
	}
	req := &cache.Request{Op: cache.OpPut, Key: key, ID: rand.Uint64() | 1}
	if err := readDescription(r.Header, req); err != nil {
		return err
	}
	var err error
	if req.TTL, err = queryTTL(r.URL.RawQuery); err != nil {
		return err
	}
	if err := conditions(r.Header, req); err != nil {
		return err
	}
	room := a.values.Share(r)
	defer room.Release()
	if req.Value, err = room.ReadBody(r, a.maxValue); err != nil {
		return err
	}

	ctx, cancel := a.writeContext(r)
	defer cancel()
	ans, err := a.cache.Put(ctx, req)
	if err != nil {
		return err
	}
	h := c.Writer.Header()
	if ans.Entry != nil {
		h["ETag"] = []string{ans.Entry.ETag}
	}
	a.nameOwner(h, ans.Node)
	if ans.Created {
		h["Content-Length"] = []string{"0"}
		return a.done(c, http.StatusCreated)
	}
	return a.done(c, http.StatusNoContent)
}

// readDescription reads what a PUT's header says of the value.
func readDescription(header http.Header, req *cache.Request) error {
	if len(header["Content-Type"]) > 1 {
		return errBadRequest.With("Content-Type is given twice")
	}
	req.ContentType = header.Get("Content-Type")
	// A list, which may stand in several fields (RFC 9110 §8.4, §5.3).
	req.ContentEncoding = strings.Join(header["Content-Encoding"], ", ")
	if len(req.ContentType) > maxContentType || len(req.ContentEncoding) > maxContentType {
		return errBadRequest.With("Content-Type or Content-Encoding is too long")
	}
	if req.ContentType == "" {
		req.ContentType = "application/octet-stream"
	}
	if header.Get("Content-Range") != "" {
		return errBadRequest.With("a PUT replaces the whole value")
	}
	return nil
}

// writeContext is that of a write that has been read: it ends at its time, and
// not with the client's sending side. Package http takes the two for one, but
// who has said all it had to may well wait for the answer; and what becomes of
// a write must not hang on who still listens.
func (a *API) writeContext(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(r.Context()), a.limits.RequestTimeout)
}

// delete answers DELETE of a key.
func (a *API) delete(c *gin.Context, key cache.Key) error {
	r := c.Request
	if err := a.cache.CheckKey(key); err != nil {
		return err
	}
	if err := checkQuery(r.URL.RawQuery); err != nil {
		return err
	}
	req := &cache.Request{Op: cache.OpDelete, Key: key}
	if err := conditions(r.Header, req); err != nil {
		return err
	}
	ctx, cancel := a.writeContext(c.Request)
	defer cancel()
	if err := a.cache.DeleteIf(ctx, req); err != nil {
		return err
	}
	return a.done(c, http.StatusNoContent)
}

// done answers with a status and no body.
func (a *API) done(c *gin.Context, status int) error {
	h := c.Writer.Header()
	h["Kring-Node"] = a.nodeValue
	c.Writer.WriteHeader(status)
	c.Writer.WriteHeaderNow()
	return nil
}

// queryTTL reads ?ttl=30s. 0 is the group's own.
func queryTTL(query string) (time.Duration, error) {
	if query == "" {
		return 0, nil
	}
	if err := checkQuery(query, "ttl"); err != nil {
		return 0, err
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return 0, errBadRequest.With("the query cannot be parsed")
	}
	ttl := values["ttl"]
	if len(ttl) > 1 {
		return 0, cache.ErrBadTTL.With("ttl is given twice")
	}
	d, err := time.ParseDuration(ttl[0])
	if err != nil || d <= 0 {
		return 0, cache.ErrBadTTL.With("ttl is a duration above zero, such as 30s or 1h30m")
	}
	return d, nil
}

// checkQuery refuses a write with a parameter that nobody knows. It is a slip,
// ?tll=30s, or belongs to the key, whose ? was to be escaped: to go on would
// write what was not meant, or where it was not.
func checkQuery(query string, known ...string) error {
	for query != "" {
		var one string
		one, query, _ = strings.Cut(query, "&")
		name, _, _ := strings.Cut(one, "=")
		if !slices.Contains(known, name) {
			return errBadRequest.With(fmt.Sprintf("unknown query parameter %+.40q (a ? in a key is %%3F)", name))
		}
	}
	return nil
}
