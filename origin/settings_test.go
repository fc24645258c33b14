package origin_test

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"maps"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kring/balance"
	"kring/cache"
	"kring/origin"
)

// The request has exactly the configured headers.
func TestRequestHeaders(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("Bearer s3cret\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	seen := make(chan *http.Request, 1)
	srv := serve(t, func(_ http.ResponseWriter, r *http.Request) { seen <- r })

	start(t, "/{key}", []string{srv.URL}).load(t, "k", nil).mustBe(t, "")
	r := <-seen
	if got := slices.Sorted(maps.Keys(r.Header)); !slices.Equal(got, []string{"Accept", "Accept-Encoding", "User-Agent"}) {
		t.Errorf("headers %v", r.Header)
	}
	if r.Header.Get("User-Agent") != "kring/1.2 (kring-1)" || r.Header.Get("Accept-Encoding") != "identity" || "http://"+r.Host != srv.URL || r.Method != "GET" {
		t.Errorf("%s, host %s, headers %v", r.Method, r.Host, r.Header)
	}

	start(t, "/{key}", []string{srv.URL}, func(_ *balance.Config, o *origin.Options) {
		o.Config.Headers = []origin.HeaderConfig{
			{Name: "host", Value: "docs.example.org"},
			{Name: "authorization", ValueFile: secret},
			{Name: "X-Empty"},
			{Name: "User-Agent", Value: "other"},
			{Name: "Accept", Value: " text/plain "},
		}
	}).load(t, "k", nil).mustBe(t, "")
	r = <-seen
	if r.Host != "docs.example.org" || r.Header.Get("Authorization") != "Bearer s3cret" || r.Header.Get("User-Agent") != "other" ||
		r.Header.Get("Accept") != "text/plain" || len(r.Header) != 5 {
		t.Errorf("host %s, headers %v", r.Host, r.Header)
	}
}

func TestHTTPS(t *testing.T) {
	var requests, connections atomic.Int64
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if r.URL.Path == "/long" {
			// The handler adds bytes behind the answer, in the same TLS record.
			// They must not become the answer to the next key.
			c, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 70000\r\n\r\n"+strings.Repeat("x", 70000)+"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
			return
		}
		fmt.Fprint(w, r.URL.Path)
	}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // it would log the handshake that fails below
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	srv.StartTLS()
	t.Cleanup(srv.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, "/{key}", []string{srv.URL}, func(_ *balance.Config, o *origin.Options) { o.Config.CAFile = ca })
	for range 5 {
		r := s.load(t, "k", nil)
		r.mustBe(t, "/k")
		if r.sent != 1 {
			t.Errorf("sent %d, want 1", r.sent)
		}
	}
	if connections.Load() != 1 {
		t.Errorf("%d connections for 5 loads, want 1", connections.Load())
	}
	s.load(t, "long", nil).mustFail(t, cache.ErrOriginBadAnswer)
	s.load(t, "k", nil).mustBe(t, "/k")

	before := requests.Load()
	stranger := start(t, "/{key}", []string{srv.URL}, ejectAtOnce)
	r := stranger.load(t, "k", nil)
	r.mustFail(t, cache.ErrOriginFailed)
	if r.sent != 0 || requests.Load() != before || stranger.healthy("a") {
		t.Errorf("a certificate of an unknown authority: sent %d, %d requests, healthy %v", r.sent, requests.Load()-before, stranger.healthy("a"))
	}
	if _, ok := r.err.(*cache.Error); !ok || strings.Contains(r.err.(*cache.Error).Detail, srv.URL) {
		t.Errorf("error %v shows an internal address", r.err)
	}
}

// Versions of TLS before 1.2 are refused.
func TestOldTLS(t *testing.T) {
	cfg, caFile := serverTLS(t)
	cfg.MinVersion, cfg.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	l := lieOver(t, "https", func(c net.Conn) net.Conn { return tls.Server(c, cfg) }, say("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na"))
	var open atomic.Int64
	r := start(t, "/{key}", []string{l.url}, func(_ *balance.Config, o *origin.Options) {
		o.Config.CAFile = caFile
		o.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, addr)
			open.Add(1)
			return closeHook{c, sync.OnceFunc(func() { open.Add(-1) })}, err
		}
	}).load(t, "k", nil)
	r.mustFail(t, cache.ErrOriginFailed)
	if r.sent != 0 || open.Load() != 0 {
		t.Errorf("sent %d, %d connections left open; want 0, 0", r.sent, open.Load())
	}
}

func TestSettings(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	headers := func(h ...origin.HeaderConfig) func(*origin.Config) {
		return func(c *origin.Config) { c.Headers = h }
	}
	for _, tt := range []struct {
		change func(c *origin.Config)
		want   string
	}{
		{func(c *origin.Config) { c.MaxLoads = 0 }, "pools[test].max_loads: 0:"},
		{func(c *origin.Config) { c.MaxBodyBytes = -1 }, "pools[test].max_body_bytes: -1:"},
		{func(c *origin.Config) { c.RetryBudget = 1.5 }, "pools[test].retry_budget: 1.5:"},
		{func(c *origin.Config) { c.RetryBudget = math.NaN() }, "pools[test].retry_budget: NaN:"},
		{func(c *origin.Config) { c.MaxHeaderBytes = 1023 }, "pools[test].max_header_bytes: 1023: must be 1024 to 16777216 bytes"},
		{func(c *origin.Config) { c.MaxConnectionAge = -time.Second }, "pools[test].max_connection_age: -1s:"},
		{func(c *origin.Config) { c.CAFile = dir + "/none" }, "pools[test].ca_file: " + dir + "/none: no such file"},
		{func(c *origin.Config) { c.CAFile = file("ca", "no certificate") }, "pools[test].ca_file: " + dir + "/ca: holds no certificate"},
		{headers(origin.HeaderConfig{Name: "a b"}), `pools[test].headers[0].name: "a b":`},
		{headers(origin.HeaderConfig{Name: ""}), `pools[test].headers[0].name: "":`},
		{headers(origin.HeaderConfig{Name: "X"}, origin.HeaderConfig{Name: "x"}), "pools[test].headers[1].name: x: is there twice"},
		{headers(origin.HeaderConfig{Name: "content-length", Value: "1"}), "pools[test].headers[0].name: content-length:"},
		{headers(origin.HeaderConfig{Name: "If-None-Match", Value: "*"}), "pools[test].headers[0].name: If-None-Match:"},
		{headers(origin.HeaderConfig{Name: "X", Value: "a\r\nB: c"}), "pools[test].headers[0].value: X:"},
		{headers(origin.HeaderConfig{Name: "Host", Value: "a b"}), "pools[test].headers[0].value: Host:"},
		{headers(origin.HeaderConfig{Name: "X", Value: "hidden", ValueFile: "f"}), "pools[test].headers[0]: X: has both"},
		{headers(origin.HeaderConfig{Name: "X", ValueFile: dir + "/none"}), "pools[test].headers[0].value_file: " + dir + "/none: no such file"},
		{headers(origin.HeaderConfig{Name: "Host", ValueFile: file("host", "hidden host\n")}), "pools[test].headers[0].value_file: " + dir + "/host: has a character"},
		{headers(origin.HeaderConfig{Name: "X", ValueFile: file("two", "hidden\nhidden\n")}), "pools[test].headers[0].value_file: " + dir + "/two: has a character"},
	} {
		t.Run(tt.want, func(t *testing.T) {
			cfg := balance.DefaultConfig()
			cfg.Name = "test"
			pool, err := balance.New(cfg, nil)
			if err != nil {
				t.Fatal(err)
			}
			opts := origin.Options{Pool: pool, Config: origin.DefaultConfig()}
			tt.change(&opts.Config)
			_, err = origin.New(opts)
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Fatalf("error %v, want %q", err, tt.want)
			}
			if strings.Contains(err.Error(), "hidden") || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q shows a header's value or has several lines", err)
			}
		})
	}
	if _, err := origin.New(origin.Options{Config: origin.DefaultConfig()}); err == nil {
		t.Error("an origin without a pool was made")
	}
}
