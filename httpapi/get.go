package httpapi

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"kring/cache"
	"kring/httpserver"
)

// selfCounted is how many bytes a body may have for package http to set its
// Content-Length.
const selfCounted = 2048

// get answers GET and HEAD of a key.
func (a *API) get(c *gin.Context, key cache.Key) error {
	r := c.Request
	now := time.Now()
	ctx := &requestContext{
		LazyDeadline: httpserver.LazyDeadline{Context: r.Context(), At: now.Add(a.limits.RequestTimeout)},
		id:           a.requestID(c),
	}
	defer ctx.Stop()
	ans, err := a.cluster.Get(ctx, key, onlyIfCached(r.Header))
	h := c.Writer.Header()
	if err != nil {
		if ans.Kind != cache.KindNone { // else no node has acted for the key
			a.nameOwner(h, ans.Node)
		}
		h["Cache-Status"] = a.statuses.failed(&ans, err)
		return err
	}
	if ans.Kind != cache.KindHit { // a hit takes next to no time
		now = time.Now()
	}
	a.attribute(h, &ans, now)
	e := ans.Entry
	if e.Negative {
		return errNotFound
	}
	status, err := evaluate(r.Header, e, now)
	if err != nil {
		return err
	}
	if status == http.StatusOK && r.Method != http.MethodHead && len(e.Value) > uncounted {
		room := a.responses.Answer(r)
		defer room.Release()
		if e, err = chargeValue(ctx, room, &ans); err != nil {
			h["Cache-Status"] = a.statuses.failed(&ans, err)
			return err
		}
	}
	a.describe(h, e, now)
	strs := [2]string{e.ContentType, e.ETag}
	h["ETag"] = strs[1:2:2]
	if e.LastModified != "" {
		h["Last-Modified"] = []string{e.LastModified}
	}
	if e.ContentEncoding != "" {
		h["Content-Encoding"] = []string{e.ContentEncoding}
	}
	if status == http.StatusNotModified {
		c.Writer.WriteHeader(status)
		c.Writer.WriteHeaderNow()
		return nil
	}
	h["Content-Type"] = strs[0:1:1]
	if len(e.Value) > selfCounted || r.Method == http.MethodHead {
		h["Content-Length"] = []string{strconv.Itoa(len(e.Value))}
	}
	c.Writer.WriteHeader(status)
	if r.Method == http.MethodHead {
		c.Writer.WriteHeaderNow()
		return nil
	}
	a.write(c, e.Value)
	return nil
}

// chargeValue charges the value of an answer to the budget of answers, and
// returns it.
func chargeValue(ctx context.Context, room *answerRoom, ans *cache.Answer) (*cache.Entry, error) {
	value := [1]*cache.Entry{ans.Entry}
	ans.Entry = nil // Hold needs the only reference
	if err := room.Hold(ctx, value[:]); err != nil {
		return nil, err
	}
	if value[0] == nil {
		return nil, cache.ErrOverloaded.With("the value was evicted before there was room to answer with it")
	}
	ans.Entry = value[0]
	return value[0], nil
}

// attribute sets the headers that say where an answer comes from. Kring-Owner is
// the node that acts for the key: its owner on the ring, or the owner's stand-in.
func (a *API) attribute(h http.Header, ans *cache.Answer, now time.Time) {
	h["Kring-Node"] = a.nodeValue
	a.nameOwner(h, ans.Node)
	h["Cache-Status"] = a.statuses.values(ans, now)
}

// describe sets the headers that say how long a value is fresh. A hit has eight
// headers in all, as many as a map holds before it grows. A ninth would cost a
// fifth of a hit's time.
func (a *API) describe(h http.Header, e *cache.Entry, now time.Time) {
	h["Age"] = a.ages.values(seconds(e.Age(now)))
	switch {
	case e.NoStore:
		// A value that no node may keep may not be kept on the way either. Only the
		// requests that waited for it share it.
		h["Cache-Control"] = noStore
	case e.Forever():
		// The value is good until the next write, which may come at any time.
		h["Cache-Control"] = mustRevalidate
	default:
		// The whole lifetime: the client subtracts Age itself.
		h["Cache-Control"] = a.maxAges.values(seconds(e.TTL()))
	}
}
