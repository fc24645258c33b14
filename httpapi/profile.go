package httpapi

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"kring/cache"
)

// profile serves the runtime's profiles under the paths that `go tool pprof`
// knows. They are for admins and, where no tokens are configured, for connections
// that came in on loopback. Package net/http/pprof is not used: it adds its routes
// to http.DefaultServeMux, which other code may serve, and 260 KB to the program.
func (a *API) profile(c *gin.Context, _ cache.Key) error {
	if a.auth.open() && !onLoopback(c.Request) {
		return errForbidden.With("profiles need an admin token, or a listener on loopback")
	}
	name := strings.Trim(c.Param("name"), "/")
	query := c.Request.URL.Query()
	switch name {
	case "":
		a.respond(c, "text/plain; charset=utf-8", []byte(profiles()))
		return nil
	case "cmdline":
		a.respond(c, "text/plain; charset=utf-8", []byte(strings.Join(os.Args, "\x00")))
		return nil
	case "profile":
		return a.watch(c, 30, pprof.StartCPUProfile, pprof.StopCPUProfile)
	case "trace":
		return a.watch(c, 1, trace.Start, trace.Stop)
	}
	p := pprof.Lookup(name)
	if p == nil {
		return errNoRoute.With("there is no such profile")
	}
	if name == "heap" && query.Get("gc") != "" {
		runtime.GC()
	}
	debug, _ := strconv.Atoi(query.Get("debug")) // 0, the form for tools, if it is no number
	kind := "application/octet-stream"
	if debug > 0 {
		kind = "text/plain; charset=utf-8"
	}
	beginProfile(c, kind)
	return p.WriteTo(c.Writer, debug)
}

// profiles is a list of all profiles.
func profiles() string {
	var b strings.Builder
	b.WriteString("cmdline\nprofile?seconds=30\ntrace?seconds=1\n")
	for _, p := range pprof.Profiles() {
		fmt.Fprintf(&b, "%s?debug=1 (%d)\n", p.Name(), p.Count())
	}
	return b.String()
}

// watch writes what the runtime records in ?seconds, or until the client has gone.
func (a *API) watch(c *gin.Context, seconds float64, start func(io.Writer) error, stop func()) error {
	if text := c.Request.URL.Query().Get("seconds"); text != "" {
		var err error
		if seconds, err = strconv.ParseFloat(text, 64); err != nil || seconds <= 0 || seconds > 3600 {
			return errBadRequest.With("seconds must be a number from 0 to 3600")
		}
	}
	// A profile may take longer than any other request.
	control := http.NewResponseController(c.Writer)
	for _, lift := range []func(time.Time) error{control.SetReadDeadline, control.SetWriteDeadline} {
		if err := lift(time.Time{}); err != nil {
			return fmt.Errorf("lift the connection's time limit: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(c.Request.Context(), time.Duration(seconds*float64(time.Second)))
	defer cancel()
	beginProfile(c, "application/octet-stream") // before start, which writes the head of a trace
	if err := start(c.Writer); err != nil {
		return cache.ErrOverloaded.With("a profile is being recorded already").Because(err)
	}
	<-ctx.Done()
	stop()
	return nil
}

func beginProfile(c *gin.Context, kind string) {
	h := c.Writer.Header()
	h.Set("Content-Type", kind)
	h.Set("Cache-Control", "no-store")
	h["X-Content-Type-Options"] = nosniff
}

// onLoopback reports whether the connection was accepted at a loopback address.
func onLoopback(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	ap, err := netip.ParseAddrPort(local.String())
	return err == nil && ap.Addr().Unmap().IsLoopback()
}
