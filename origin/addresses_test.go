package origin_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"kring/balance"
	"kring/cache"
	"kring/origin"
)

// names is a resolver and the network behind it. An address answers with
// itself, refuses or hangs.
type names struct {
	mu      sync.Mutex // guards the fields below
	of      map[string][]string
	refuses map[string]bool
	hangs   map[string]bool
	slow    map[string]bool // connects, but later than nextAddress
	lookups int
	dialled []string // address:port, in order
	open    int
}

func (n *names) set(host string, addresses ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.of[host] = addresses
}

func (n *names) count(address string) (c int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, d := range n.dialled {
		if strings.HasPrefix(d, address+":") {
			c++
		}
	}
	return c
}

// resolve makes an origin use names.
func (n *names) resolve(t *testing.T, answer string) change {
	return func(_ *balance.Config, o *origin.Options) {
		o.Lookup = func(_ context.Context, host string) ([]string, error) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.lookups++
			if len(n.of[host]) == 0 {
				return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
			}
			return slices.Clone(n.of[host]), nil
		}
		o.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			host, _, _ := net.SplitHostPort(addr)
			n.mu.Lock()
			n.dialled = append(n.dialled, addr)
			hangs, refuses, slow := n.hangs[host], n.refuses[host], n.slow[host]
			n.mu.Unlock()
			if hangs {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			if slow {
				time.Sleep(350 * time.Millisecond)
			}
			if refuses {
				return nil, &net.OpError{Op: "dial", Net: network, Err: fmt.Errorf("%s: %w", addr, syscall.ECONNREFUSED)}
			}
			var opts origin.Options
			piped(t, new(atomic.Int64), func(c net.Conn, _ *http.Request) bool {
				_, err := fmt.Fprintf(c, answer, len(host), host)
				return err == nil
			})(nil, &opts)
			c, err := opts.Dial(ctx, network, addr)
			n.mu.Lock()
			n.open++
			n.mu.Unlock()
			return closeHook{c, sync.OnceFunc(func() {
				n.mu.Lock()
				n.open--
				n.mu.Unlock()
			})}, err
		}
	}
}

const addressAnswer = "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s"

// A connection older than max_connection_age is closed, however busy it is.
// With 0 it is kept.
func TestAConnectionHasAGreatestAge(t *testing.T) {
	for _, tt := range []struct {
		age   time.Duration
		dials int // for one load a second in ten minutes
	}{
		{5 * time.Minute, 2},
		{time.Minute, 10},
		{10 * time.Second, 60},
		{0, 1},
	} {
		t.Run(tt.age.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &names{of: map[string][]string{"a.test": {"10.0.0.1"}}}
				s := start(t, "/{key}", []string{"http://a.test"}, n.resolve(t, addressAnswer), func(_ *balance.Config, o *origin.Options) {
					o.Config.MaxConnectionAge = tt.age
				})
				for range 600 {
					s.load(t, "k", nil).mustBe(t, "10.0.0.1")
					time.Sleep(time.Second)
				}
				// A load may start at the very moment at which the connection
				// gets too old.
				if got := n.count("10.0.0.1"); got < tt.dials*9/10 || got > tt.dials*11/10 || n.lookups != got {
					t.Errorf("%d connections, %d lookups; want %d", got, n.lookups, tt.dials)
				}
				if tt.age == 10*time.Second {
					s.load(t, "k", nil)
					time.Sleep(tt.age)
					synctest.Wait()
					if n.open != 0 {
						t.Errorf("%d connections are open that are too old and idle", n.open)
					}
				}
			})
		})
	}
}

// With the default age, steady load finds a new address within five minutes.
func TestAnAddressThatChangesIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &names{of: map[string][]string{"a.test": {"10.0.0.1"}}}
		s := start(t, "/{key}", []string{"http://a.test:8100"}, n.resolve(t, addressAnswer), ejectAtOnce)
		s.load(t, "k", nil).mustBe(t, "10.0.0.1")
		n.set("a.test", "10.0.0.2")
		var moved time.Duration
		for begin := time.Now(); moved == 0 && time.Since(begin) < time.Hour; time.Sleep(100 * time.Millisecond) {
			r := s.load(t, "k", nil)
			if r.err != nil {
				t.Fatalf("after %v: %v", time.Since(begin), r.err)
			}
			if string(r.Entry.Value) == "10.0.0.2" {
				moved = time.Since(begin)
			}
		}
		if moved == 0 || moved > 5*time.Minute+time.Second {
			t.Errorf("the new address was found after %v, want 5m at most", moved)
		}
		if !slices.Contains(n.dialled, "10.0.0.2:8100") {
			t.Errorf("dialled %v, without the endpoint's port", n.dialled)
		}
	})
}

// New connections are spread over all addresses of a name.
func TestAllAddressesOfANameAreUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "2001:db8::1"}
		n := &names{of: map[string][]string{"a.test": all}}
		s := start(t, "/{key}", []string{"http://a.test"}, n.resolve(t, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"))
		const loads = 400
		for range loads {
			if r := s.load(t, "k", nil); r.err != nil {
				t.Fatal(r.err)
			}
		}
		for _, a := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "[2001:db8::1]"} {
			if c := n.count(a); c < loads/8 || c > loads/2 {
				t.Errorf("%d of %d connections went to %s, want about a quarter", c, loads, a)
			}
		}
	})
}

// Addresses that refuse or hang cost a moment, not the load. The endpoint is to
// blame when all its addresses do.
func TestADeadAddressFailsNoLoad(t *testing.T) {
	for _, tt := range []struct {
		name           string
		refuses, hangs map[string]bool
		err            *cache.Error
	}{
		{"one refuses", map[string]bool{"10.0.0.1": true}, nil, nil},
		{"two refuse", map[string]bool{"10.0.0.1": true, "10.0.0.2": true}, nil, nil},
		{"one hangs", nil, map[string]bool{"10.0.0.2": true}, nil},
		{"one is slow", nil, nil, nil},
		{"one refuses, one hangs", map[string]bool{"10.0.0.1": true}, map[string]bool{"10.0.0.2": true}, nil},
		{"all refuse", map[string]bool{"10.0.0.1": true, "10.0.0.2": true, "10.0.0.3": true}, nil, cache.ErrOriginFailed},
		{"all hang", nil, map[string]bool{"10.0.0.1": true, "10.0.0.2": true, "10.0.0.3": true}, cache.ErrOriginTimeout},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &names{of: map[string][]string{"a.test": {"10.0.0.1", "10.0.0.2", "10.0.0.3"}}, refuses: tt.refuses, hangs: tt.hangs}
				if tt.name == "one is slow" {
					n.slow = map[string]bool{"10.0.0.3": true}
				}
				s := start(t, "/{key}", []string{"http://a.test"}, n.resolve(t, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"), ejectAtOnce)
				if tt.err != nil {
					r := s.load(t, "k", nil)
					r.mustFail(t, tt.err)
					for _, a := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"} {
						if n.count(a) != 1 || tt.refuses[a] && !strings.Contains(fmt.Sprint(r.err), a) {
							t.Errorf("%s was tried %d times; error %v", a, n.count(a), r.err)
						}
					}
					if r.sent != 0 || s.healthy("a") {
						t.Errorf("sent %d, healthy %v; want 0, false", r.sent, s.healthy("a"))
					}
					return
				}
				for range 50 {
					begin := time.Now()
					r := s.load(t, "k", nil)
					if r.err != nil || r.sent != 1 {
						t.Fatalf("sent %d, %v", r.sent, r.err)
					}
					if a := string(r.Entry.Value); tt.refuses[a] || tt.hangs[a] {
						t.Fatalf("answered by %s, which is dead", a)
					}
					if took := time.Since(begin); took > 600*time.Millisecond {
						t.Fatalf("took %v", took)
					}
				}
				synctest.Wait()
				if n.open != 0 || !s.healthy("a") {
					t.Errorf("%d connections left open, healthy %v", n.open, s.healthy("a"))
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		n := &names{of: map[string][]string{}}
		s := start(t, "/{key}", []string{"http://a.test"}, n.resolve(t, addressAnswer), ejectAtOnce)
		r := s.load(t, "k", nil)
		r.mustFail(t, cache.ErrOriginFailed)
		if !strings.Contains(fmt.Sprint(r.err), "no such host") || s.healthy("a") {
			t.Errorf("a name without an address: %v, healthy %v", r.err, s.healthy("a"))
		}
	})
}

// A host with non-ASCII letters goes out as punycode: to the resolver, in the
// Host header, in TLS, and in probes.
func TestInternationalNames(t *testing.T) {
	secure, caFile := serverTLS(t)
	for _, scheme := range []string{"http", "https"} {
		var mu sync.Mutex // guards the variables below
		seen := map[string]bool{}
		see := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			seen[what] = true
		}
		l := lieOver(t, scheme, func(c net.Conn) net.Conn {
			if scheme == "http" {
				return c
			}
			cfg := secure.Clone()
			cfg.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
				see("server name " + hello.ServerName)
				return nil, nil
			}
			return tls.Server(c, cfg)
		}, func(c net.Conn, r *http.Request, n int64) bool {
			see("host " + r.Host)
			return say("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")(c, r, n)
		})
		_, port, _ := net.SplitHostPort(strings.TrimPrefix(l.url, scheme+"://"))
		s := start(t, "/{key}", []string{scheme + "://bücher.test:" + port}, func(b *balance.Config, o *origin.Options) {
			b.Health.Probe, b.Health.ProbeInterval = "/health", 100*time.Millisecond
			o.Lookup = func(_ context.Context, host string) ([]string, error) {
				see("lookup " + host)
				return []string{"127.0.0.1"}, nil
			}
			if o.Dial = new(net.Dialer).DialContext; scheme == "https" {
				o.Config.CAFile = caFile
			}
		})
		want := []string{"lookup xn--bcher-kva.test", "server name xn--bcher-kva.test"} // the certificate does not have this name
		if r := s.load(t, "k", nil); scheme == "http" {
			r.mustBe(t, "a")
			want = []string{"lookup xn--bcher-kva.test", "host xn--bcher-kva.test:" + port}
			eventually(t, "a probe", func() bool { return l.requests.Load() > 1 })
		}
		mu.Lock()
		if got := slices.Sorted(maps.Keys(seen)); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			t.Errorf("seen %q, want %q", got, want)
		}
		mu.Unlock()
	}
}

// The zone of an IPv6 address is for the dialler only. It may not be in Host
// (RFC 6874 §4).
func TestHostHasNoZone(t *testing.T) {
	hosts := make(chan string, 1)
	l := lie(t, func(c net.Conn, r *http.Request, n int64) bool {
		hosts <- r.Host
		return say("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")(c, r, n)
	})
	dialled := ""
	s := start(t, "/{key}", []string{"http://[fe80::1%25eth0]:8080"}, func(_ *balance.Config, o *origin.Options) {
		o.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			dialled = addr
			return new(net.Dialer).DialContext(ctx, network, strings.TrimPrefix(l.url, "http://"))
		}
	})
	s.load(t, "k", nil).mustBe(t, "a")
	if host := <-hosts; host != "[fe80::1]:8080" || dialled != "[fe80::1%eth0]:8080" {
		t.Errorf("host %q, dialled %q", host, dialled)
	}
}
