package rival

import (
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"
)

// newNetHTTP is the least server of the store over HTTP: no router, no limits,
// no metrics, and the value's type as the only header.
func newNetHTTP(o Options) (*server, error) {
	c, err := newCache(o)
	if err != nil {
		return nil, err
	}
	return bare(func(w http.ResponseWriter, r *http.Request) {
		key, ok := strings.CutPrefix(r.URL.Path, Prefix)
		if !ok {
			http.NotFound(w, r)
			return
		}
		a, err := get(r.Context(), c, key)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		w.Header()["Content-Type"] = []string{a.Entry.ContentType}
		if _, err := w.Write(a.Entry.Value); err != nil {
			panic(http.ErrAbortHandler) // the caller has left
		}
	}, c.Close), nil
}

// newGin is the same server behind one Gin route without middleware.
func newGin(o Options) (*server, error) {
	c, err := newCache(o)
	if err != nil {
		return nil, err
	}
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	e.GET("/v1/cache/:group/*key", func(g *gin.Context) {
		a, err := get(g.Request.Context(), c, strings.TrimPrefix(g.Param("key"), "/"))
		if err != nil {
			g.String(http.StatusBadGateway, "%v", err)
			return
		}
		g.Data(http.StatusOK, a.Entry.ContentType, a.Entry.Value)
	})
	return bare(e.ServeHTTP, c.Close), nil
}
