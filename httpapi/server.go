package httpapi

import (
	"net"
	"net/http"
	"strings"

	"kring/httpserver"
)

// Handler is the whole API. What it does outside of Gin needs the server's own
// ResponseWriter, which Gin hides.
func (a *API) Handler() http.Handler {
	engine := a.newEngine()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if httpserver.MustClose(r) || a.draining() {
			w.Header().Set("Connection", "close")
		}
		limit := a.maxValue
		switch {
		case strings.HasPrefix(r.URL.Path, "/v1/batch/"):
			limit = a.maxBatch
		case strings.HasPrefix(r.URL.Path, "/v1/purge/"):
			limit = maxPurgeBody
		}
		engine.ServeHTTP(w, httpserver.LimitBody(w, r, limit))
	})
}

// Server makes an http.Server for the API, whose time limits follow
// limits.request_timeout. A body of 8 MiB, which has the default 30 s, needs
// 280 KB/s. The listeners of the server must be those of Listener.
func (a *API) Server() *http.Server { return a.server.HTTP(a.Handler()) }

// Listener holds the connections that l accepts to limits.max_connections and
// limits.connections_per_address.
func (a *API) Listener(l net.Listener) net.Listener { return a.server.Listener(l) }

// CloseIdle closes the client connection that has waited longest for its
// client, for something that needs its descriptor more. It reports whether
// there was one.
func (a *API) CloseIdle() bool { return a.server.CloseIdle() }
