package httpapi

import (
	"context"
	"net/http"

	"kring/cache"
	"kring/httpserver"
)

// requestContext is the context of a get. It carries the request's id.
type requestContext struct {
	httpserver.LazyDeadline
	id string
}

func (c *requestContext) Value(key any) any {
	if _, ok := key.(cache.RequestIDKey); ok {
		return c.id
	}
	return c.LazyDeadline.Value(key)
}

// writeContext is that of a write that has been read: it ends at its time, and
// not with the client's sending side. Package http takes the two for one, but
// who has said all it had to may well wait for the answer; and what becomes of
// a write must not hang on who still listens.
func (a *API) writeContext(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(r.Context()), a.limits.RequestTimeout)
}
