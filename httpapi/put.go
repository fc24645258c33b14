package httpapi

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"

	"kring/cache"
)

const (
	// firstRead is how much of a body must arrive before memory for all of it
	// is set aside: a length is easily claimed.
	firstRead = 64 << 10
	// minBodyBudget is the least of what all bodies being read may take.
	minBodyBudget = 32 << 20
	// maxContentType bounds the Content-Type that is kept with a value.
	maxContentType = 256
)

// put answers PUT of a key.
func (a *API) put(c *gin.Context, key cache.Key) error {
	r := c.Request
	if err := a.cache.CheckKey(key); err != nil {
		return err
	}
	req := &cache.Request{
		Op: cache.OpPut, Key: key, ID: rand.Uint64() | 1,
		ContentType:     r.Header.Get("Content-Type"),
		ContentEncoding: r.Header.Get("Content-Encoding"),
	}
	if len(req.ContentType) > maxContentType || len(req.ContentEncoding) > maxContentType {
		return errBadRequest.With("Content-Type or Content-Encoding is too long")
	}
	if req.ContentType == "" {
		req.ContentType = "application/octet-stream"
	}
	if r.Header.Get("Content-Range") != "" {
		return errBadRequest.With("a PUT replaces the whole value")
	}
	var err error
	if req.TTL, err = queryTTL(r.URL.RawQuery); err != nil {
		return err
	}
	if req.IfMatch, err = entityTags(r.Header, "If-Match"); err != nil {
		return err
	}
	if req.IfNoneMatch, err = entityTags(r.Header, "If-None-Match"); err != nil {
		return err
	}
	for i, tag := range req.IfNoneMatch { // compared weakly (RFC 9110 §13.1.2)
		req.IfNoneMatch[i] = strongTag(tag)
	}
	value, release, err := a.readBody(r, a.maxValue)
	if err != nil {
		return err
	}
	defer release()
	req.Value = value

	ctx, cancel := context.WithTimeout(r.Context(), a.limits.RequestTimeout)
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

// delete answers DELETE of a key.
func (a *API) delete(c *gin.Context, key cache.Key) error {
	ctx, cancel := context.WithTimeout(c.Request.Context(), a.limits.RequestTimeout)
	defer cancel()
	if err := a.cache.Delete(ctx, key); err != nil {
		return err
	}
	return a.done(c, http.StatusNoContent)
}

// purge answers DELETE of a group.
func (a *API) purge(c *gin.Context, key cache.Key) error {
	ctx, cancel := context.WithTimeout(c.Request.Context(), a.limits.RequestTimeout)
	defer cancel()
	if err := a.cache.Purge(ctx, key.Group); err != nil {
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
	values, err := url.ParseQuery(query)
	if err != nil {
		return 0, errBadRequest.With("the query cannot be parsed")
	}
	ttl, ok := values["ttl"]
	if !ok {
		return 0, nil
	}
	if len(ttl) > 1 {
		return 0, cache.ErrBadTTL.With("ttl is given twice")
	}
	d, err := time.ParseDuration(ttl[0])
	if err != nil || d <= 0 {
		return 0, cache.ErrBadTTL.With("ttl is a duration above zero, such as 30s or 1h30m")
	}
	return d, nil
}

// readBody reads a whole body into a slice of exactly its size. Until release
// is called its memory counts against the budget of all bodies.
func (a *API) readBody(r *http.Request, limit int64) (body []byte, release func(), err error) {
	if r.ContentLength > limit {
		return nil, nil, tooLarge
	}
	held := int64(0)
	release = func() { a.bodies.put(held) }
	take := func(n int64) error {
		if !a.bodies.take(n) {
			return cache.ErrOverloaded.With("too many bodies are being read")
		}
		held += n
		return nil
	}
	defer func() {
		if err != nil {
			release()
		}
	}()

	// With a length: a piece of it first, then all. Without: doubled as needed.
	size := r.ContentLength
	if size < 0 || size > firstRead {
		size = firstRead
	}
	if err := take(size); err != nil {
		return nil, nil, err
	}
	buf := make([]byte, size)
	n := 0
	for {
		m, err := io.ReadFull(r.Body, buf[n:])
		n += m
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			if r.ContentLength >= 0 && int64(n) < r.ContentLength {
				return nil, nil, errBadRequest.With("the body is shorter than its length")
			}
			break
		}
		if err != nil {
			return nil, nil, bodyError(err)
		}
		if r.ContentLength >= 0 && int64(n) == r.ContentLength {
			break
		}
		grown := r.ContentLength
		if grown < 0 {
			grown = min(2*int64(len(buf)), limit+1) // one more, to see that it is too long
		}
		if err := take(grown); err != nil {
			return nil, nil, err
		}
		buf = append(make([]byte, 0, grown), buf[:n]...)[:grown]
	}
	if int64(n) > limit {
		return nil, nil, tooLarge
	}
	if n < len(buf) {
		if err := take(int64(n)); err != nil {
			return nil, nil, err
		}
		buf = append(make([]byte, 0, n), buf[:n]...)
	}
	return buf, release, nil
}

var tooLarge = cache.ErrValueTooLarge.With("the body is larger than this node accepts")

// bodyError says what a failed read of a body means.
func bodyError(err error) error {
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return tooLarge
	case errors.Is(err, context.Canceled):
		return err
	}
	return errBadRequest.With("the body did not arrive whole and in time").Because(err)
}

// budget bounds the bytes that something may take at once.
type budget struct {
	max  int64
	used atomic.Int64
}

func newBudget(n int64) *budget { return &budget{max: n} }

func (b *budget) take(n int64) bool {
	if b.used.Add(n) > b.max {
		b.used.Add(-n)
		return false
	}
	return true
}

func (b *budget) put(n int64) { b.used.Add(-n) }
