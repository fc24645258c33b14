package httpapi

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"kring/cache"
	"kring/peers"
)

func (a *API) routes() []route {
	return []route{
		{"GET", "/v1/cache/:group/*key", roleRead, groupAndKey, true, a.get},
		{"PUT", "/v1/cache/:group/*key", roleWrite, groupAndKey, true, a.put},
		{"DELETE", "/v1/cache/:group/*key", roleWrite, groupAndKey, true, a.delete},
		{"DELETE", "/v1/cache/:group", roleAdmin, groupOnly, true, a.purge},
		{"POST", "/v1/batch/:group", roleRead, groupOnly, true, a.batch},
		{"POST", "/v1/purge/:group", roleAdmin, groupOnly, true, a.purgeTags},

		{"GET", "/healthz", roleNone, noKey, false, a.alive},
		{"GET", "/livez", roleNone, noKey, false, a.alive},
		{"GET", "/readyz", roleNone, noKey, false, a.ready},
		{"GET", "/openapi.yaml", roleNone, noKey, false, a.openapi},
		{"GET", "/metrics", roleRead, noKey, false, a.exposeMetrics},
		{"GET", "/v1/cluster", roleRead, noKey, false, a.showCluster},
		{"GET", "/v1/explain/:group/*key", roleRead, groupAndKey, true, a.explain},
		{"GET", "/v1/stats", roleRead, noKey, false, a.stats},
		{"GET", "/v1/pools", roleRead, noKey, false, a.listPools},
		{"GET", "/v1/pools/:pool", roleRead, noKey, false, a.showPool},
		{"POST", "/v1/pools/:pool/assignments", roleWrite, noKey, true, a.assign},
		{"PUT", "/v1/pools/:pool/assignments/:id", roleWrite, noKey, true, a.renewAssignment},
		{"DELETE", "/v1/pools/:pool/assignments/:id", roleWrite, noKey, true, a.completeAssignment},
		{"PUT", "/v1/pools/:pool/endpoints/:name", roleAdmin, noKey, true, a.putEndpoint},
		{"DELETE", "/v1/pools/:pool/endpoints/:name", roleAdmin, noKey, true, a.removeEndpoint},
		{"GET", "/debug/pprof/*name", roleAdmin, noKey, false, a.profile},

		// Nodes have no token: they prove the cluster's secret to each other.
		{"GET", peers.LinkPath, roleNone, noKey, false, a.link},
	}
}

func (a *API) newEngine() *gin.Engine {
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	e.UseEscapedPath = true
	e.UnescapePathValues = false
	e.RedirectTrailingSlash = false
	e.RedirectFixedPath = false
	e.RemoveExtraSlash = false
	e.HandleMethodNotAllowed = true
	e.ForwardedByClientIP = false
	if err := e.SetTrustedProxies(nil); err != nil { // fails only for a bad list
		panic(err)
	}
	for _, rt := range a.routes() {
		e.Handle(rt.method, rt.path, a.handler(rt))
		if rt.method == http.MethodGet && rt.path != peers.LinkPath {
			head := rt
			head.method = http.MethodHead
			e.Handle(head.method, head.path, a.handler(head))
		}
	}
	e.NoRoute(a.handler(route{path: "none", handle: func(*gin.Context, cache.Key) error {
		return errNoRoute
	}}))
	e.NoMethod(a.handler(route{path: "none", handle: func(c *gin.Context, _ cache.Key) error {
		return errNoMethod.With(c.Request.Method + " is not among " + c.Writer.Header().Get("Allow"))
	}}))
	return e
}
