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

// writeContext is the context of a write that was read: it ends at its time limit
// only. Package http would end it when the client closes its sending side, but
// such a client may still wait for the answer. Nor may the result of a write
// depend on whether its client still listens.
func (a *API) writeContext(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(r.Context()), a.limits.RequestTimeout)
}
