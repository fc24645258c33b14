package balance_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"kring/balance"
	"kring/internal/testlog"
)

func logged(l *testlog.Buffer) func(*balance.Options) {
	return func(o *balance.Options) { o.Log = slog.New(slog.NewTextHandler(l, nil)) }
}

// total is the sum of the assignments of all processes.
func total(t testing.TB, p *balance.Pool) (sum int64) {
	t.Helper()
	st := p.Inspect(t.Context())
	if st.Degraded {
		t.Fatalf("pool %s is degraded", st.Name)
	}
	for _, e := range st.Endpoints {
		sum += e.Assigned
	}
	return sum
}

func shared(t testing.TB, policy string, weights ...int) (balance.Config, balance.RedisConfig) {
	t.Helper()
	return config(policy, weights...), redisConfig(commonRedis(t).addr)
}

func TestScriptsAreForgotten(t *testing.T) {
	cfg, rc := shared(t, "least_assigned", 1, 1, 1)
	c := commonRedis(t).client(t)
	p := openPool(t, cfg, dialRedis(t, rc))
	for i := range 5 {
		if got := names(t, p, 3, true); got != "abc" {
			t.Errorf("round %d: picks %s, want abc", i, got)
		}
		do(t, c, "SCRIPT", "FLUSH", "SYNC")
	}
	if n := total(t, p); n != 15 || p.Status().LocalPicks != 0 {
		t.Errorf("%d assigned in all, %d of them locally; want 15 and 0", n, p.Status().LocalPicks)
	}
}

func TestStateIsLost(t *testing.T) {
	for _, policy := range []string{"least_assigned", "least_in_flight"} {
		t.Run(policy, func(t *testing.T) {
			s := startRedis(t)
			c := s.client(t)
			rc := redisConfig(s.addr)
			p := openPool(t, config(policy, 1, 1), dialRedis(t, rc))
			names(t, p, 5, true)
			do(t, c, "FLUSHALL", "SYNC")
			if got := names(t, p, 4, true); strings.Count(got, "a") != 2 {
				t.Errorf("picks %s after the flush, want each twice", got)
			}
			if n := total(t, p); n != 4 || p.Status().LocalPicks != 0 {
				t.Errorf("%d assigned since the flush, %d locally; want 4 and 0", n, p.Status().LocalPicks)
			}
			s.stop()
			names(t, p, 3, true) // in Redis or locally
			if err := s.run(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the pool is well again", func() bool { return !p.Inspect(t.Context()).Degraded })
			before := total(t, p)
			names(t, p, 6, true)
			if n := total(t, p); n != before+6 {
				t.Errorf("%d assigned after the restart, want %d", n, before+6)
			}
		})
	}
}

func TestCountsAreRebased(t *testing.T) {
	cfg, rc := shared(t, "least_assigned", 1, 1, 1)
	c := commonRedis(t).client(t)
	p := openPool(t, cfg, dialRedis(t, rc))
	p.SetEligible("c", false)
	awaitSync(t, p)
	key := rc.KeyPrefix + "{test}:assigned"
	do(t, c, "ZADD", key, 1<<53-2, "a", 1<<53-2, "b")
	if got := names(t, p, 7, true); got != "abababa" {
		t.Errorf("picks %s, want abababa", got)
	}
	if got := fmt.Sprint(do(t, c, "ZRANGE", key, 0, -1, "WITHSCORES")); got != "[b 2 a 3]" {
		t.Errorf("the set is %s, want [b 2 a 3]", got)
	}
	p.SetEligible("c", true) // it starts with the others, whatever its count was
	awaitSync(t, p)
	if got := names(t, p, 4, true); got != "bcab" {
		t.Errorf("picks %s with c, want bcab", got)
	}
	do(t, c, "HSET", rc.KeyPrefix+"{test}:assigned:kept", "d", "9007199254740990 99999999999999")
	put(t, p, "d", cfg.Endpoints[0].URL)
	awaitSync(t, p)
	if got := names(t, p, 4, true); !strings.Contains(got, "d") {
		t.Errorf("picks %s: d waits for the others to reach a count from before the rebase", got)
	}
}

// The failures of Redis, and how each one is ended.
var failures = []struct {
	name       string
	fail, mend func(t *testing.T, s *server, key string)
}{
	{
		name: "refused",
		fail: func(_ *testing.T, s *server, _ string) { s.stop() },
		mend: func(t *testing.T, s *server, _ string) {
			if err := s.run(); err != nil {
				t.Fatal(err)
			}
		},
	},
	{
		name: "hung",
		fail: func(t *testing.T, s *server, _ string) { s.signal(t, stopSignal) },
		mend: func(t *testing.T, s *server, _ string) { s.signal(t, contSignal) },
	},
	{
		name: "READONLY",
		fail: func(t *testing.T, s *server, _ string) { do(t, s.client(t), "REPLICAOF", "127.0.0.1", "1") },
		mend: func(t *testing.T, s *server, _ string) { do(t, s.client(t), "REPLICAOF", "NO", "ONE") },
	},
	{
		name: "BUSY",
		fail: func(t *testing.T, s *server, key string) {
			c := s.client(t)
			do(t, c, "CONFIG", "SET", "busy-reply-threshold", "1")
			done := make(chan struct{})
			go func() {
				defer close(done)
				// The script never ends by itself. Do returns the error of its
				// kill.
				_ = c.Do(context.Background(), "EVAL", "while true do end", 0).Err()
			}()
			t.Cleanup(func() { <-done })
			other := s.client(t)
			eventually(t, "the server is busy", func() bool {
				err := other.Get(context.Background(), key).Err()
				return err != nil && strings.HasPrefix(err.Error(), "BUSY")
			})
		},
		mend: func(t *testing.T, s *server, _ string) { do(t, s.client(t), "SCRIPT", "KILL") },
	},
	{
		name: "WRONGTYPE",
		fail: func(t *testing.T, s *server, key string) { do(t, s.client(t), "SET", key, "text") },
		mend: func(t *testing.T, s *server, key string) { do(t, s.client(t), "DEL", key) },
	},
	{
		name: "OOM",
		fail: func(t *testing.T, s *server, _ string) { do(t, s.client(t), "CONFIG", "SET", "maxmemory", "1") },
		mend: func(t *testing.T, s *server, _ string) { do(t, s.client(t), "CONFIG", "SET", "maxmemory", "0") },
	},
	{
		name: "NOAUTH",
		fail: func(t *testing.T, s *server, _ string) {
			c := s.client(t)
			do(t, c, "ACL", "SETUSER", "ops", "on", "nopass", "+@all", "~*")
			do(t, c, "ACL", "SETUSER", "default", "off")
			do(t, c, "AUTH", "ops", "")
			do(t, c, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		},
		mend: func(t *testing.T, s *server, _ string) {
			c := s.clientAs(t, "ops")
			do(t, c, "ACL", "SETUSER", "default", "on")
		},
	},
}

func TestRedisFails(t *testing.T) {
	for _, f := range failures {
		for policy, key := range map[string]string{"least_assigned": "assigned", "least_in_flight": "flying"} {
			t.Run(f.name+"/"+policy, func(t *testing.T) {
				t.Parallel()
				s := startRedis(t)
				rc := redisConfig(s.addr)
				log := &testlog.Buffer{}
				p := openPool(t, config(policy, 5, 1, 1), dialRedis(t, rc), logged(log))
				names(t, p, 7, true)
				if st := p.Inspect(t.Context()); st.Degraded || st.LocalPicks != 0 {
					t.Fatalf("before the failure: %+v", st)
				}
				f.fail(t, s, rc.KeyPrefix+"{test}:"+key)
				var got strings.Builder
				for range 14 {
					begun := time.Now()
					got.WriteString(names(t, p, 1, true))
					if took := time.Since(begun); took > 2*rc.Timeout { // a busy machine adds some delay, but a second try would add a whole time-out
						t.Errorf("a pick took %v, redis.timeout is %v", took, rc.Timeout)
					}
				}
				if got.String() != "aabacaaaabacaa" {
					t.Errorf("picks %s while Redis fails, want smooth weighted aabacaaaabacaa", got.String())
				}
				st := p.Status()
				if !st.Degraded || st.LocalPicks != 14 || st.Outages != 1 || log.Count("choosing locally") != 1 {
					t.Errorf("%+v, %d log lines; want 14 local picks, one outage, one line", st, log.Count("choosing locally"))
				}
				f.mend(t, s, rc.KeyPrefix+"{test}:"+key)
				eventually(t, "the pool is well again", func() bool { return !p.Status().Degraded })
				before := total(t, p)
				names(t, p, 7, true)
				if n := total(t, p); n != before+7 || p.Status().LocalPicks != 14 {
					t.Errorf("%d assigned, want %d: %+v", n, before+7, p.Status())
				}
				if n := log.Count("shared state is back"); n != 1 {
					t.Errorf("%d lines say that the state is back, want 1", n)
				}
			})
		}
	}
}

// A pool that starts before Redis is usable, and shares its state when Redis is
// up.
func TestRedisComesLater(t *testing.T) {
	s := startRedis(t)
	s.stop()
	p := openPool(t, config("least_assigned", 1, 1), dialRedis(t, redisConfig(s.addr)))
	if got := names(t, p, 4, true); got != "abab" {
		t.Errorf("picks %s without Redis, want abab", got)
	}
	if err := s.run(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pool shares its state", func() bool { return !p.Status().Degraded })
	names(t, p, 2, true)
	if n := total(t, p); n != 2 {
		t.Errorf("%d assigned, want 2", n)
	}
}

// The caller's own deadline is not Redis's failure.
func TestCallerLeaves(t *testing.T) {
	cfg, rc := shared(t, "least_assigned", 1)
	p := openPool(t, cfg, dialRedis(t, rc))
	names(t, p, 1, true)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Pick(ctx); err == nil {
		t.Error("a pick without a caller was made")
	}
	if st := p.Status(); st.Degraded || st.Outages != 0 {
		t.Errorf("%+v: the pool blames Redis", st)
	}
}

func TestChangesAreShared(t *testing.T) {
	cfg, rc := shared(t, "least_assigned", 1, 1)
	r := dialRedis(t, rc)
	allow := func(o *balance.Options) { o.AllowedHosts = []string{"c.test"} }
	p, q := openPool(t, cfg, r, allow), openPool(t, cfg, r, allow)
	has := func(p *balance.Pool, name string, f func(e balance.EndpointStatus) bool) func() bool {
		return func() bool {
			for _, e := range p.Status().Endpoints {
				if e.Name == name {
					return f(e)
				}
			}
			return false
		}
	}
	put(t, p, "c", "http://c.test")
	eventually(t, "q has c", has(q, "c", func(e balance.EndpointStatus) bool { return e.Eligible }))
	awaitSync(t, q)
	if got := names(t, q, 3, true); !strings.Contains(got, "c") {
		t.Errorf("picks %s, want c among them", got)
	}
	weight, no := 2, false
	if _, err := q.PutEndpoint(t.Context(), "c", balance.EndpointChange{Weight: &weight}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "p has c's weight", has(p, "c", func(e balance.EndpointStatus) bool { return e.Weight == 2 && e.URL == "http://c.test" }))
	if _, err := q.PutEndpoint(t.Context(), "b", balance.EndpointChange{Eligible: &no}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "p knows that b is not eligible", has(p, "b", func(e balance.EndpointStatus) bool { return !e.Eligible }))
	remove(t, p, "a")
	eventually(t, "q has a no more", func() bool { return len(q.Status().Endpoints) == 2 })

	late := openPool(t, cfg, r, allow) // as a process that restarts
	awaitSync(t, late)
	for name, p := range map[string]*balance.Pool{"p": p, "q": q, "late": late} {
		if got := names(t, p, 3, true); got != "ccc" {
			t.Errorf("%s picks %s, want ccc", name, got)
		}
		if st := p.Status(); st.LocalPicks != 0 {
			t.Errorf("%s: %+v, want no local picks", name, st)
		}
	}
}

// Processes whose configurations differ share the endpoints that they have in
// common.
func TestConfigurationsDiffer(t *testing.T) {
	for _, policy := range []string{"least_assigned", "least_in_flight"} {
		r := dialRedis(t, redisConfig(commonRedis(t).addr))
		p := openPool(t, named(policy, "a", "b"), r)
		awaitSync(t, p)
		q := openPool(t, named(policy, "b", "c"), r)
		if got := names(t, q, 8, true); strings.Contains(got, "a") || !strings.Contains(got, "c") {
			t.Errorf("%s: q picks %s, want b and c", policy, got)
		}
		if got := names(t, p, 8, true); strings.Contains(got, "c") || !strings.Contains(got, "a") {
			t.Errorf("%s: p picks %s, want a and b", policy, got)
		}
		for _, p := range []*balance.Pool{p, q} {
			if st := p.Status(); st.LocalPicks != 0 || st.Outages != 0 {
				t.Errorf("%s: %+v, want no local picks", policy, st)
			}
		}
	}
}

// Any process may renew and complete an assignment.
func TestAssignmentsTravel(t *testing.T) {
	cfg, rc := shared(t, "least_in_flight", 1)
	cfg.Health.MaxFails = 1
	r := dialRedis(t, rc)
	p, q := openPool(t, cfg, r), openPool(t, cfg, r)
	a := assign(t, p)
	if n := inspected(t, q, "a").InFlight; n != 1 {
		t.Errorf("%d in flight as q sees it, want 1", n)
	}
	if _, err := q.Renew(t.Context(), a.ID); err != nil {
		t.Errorf("renew at q: %v", err)
	}
	if err := q.Complete(t.Context(), a.ID, balance.Failure); err != nil {
		t.Errorf("complete at q: %v", err)
	}
	if endpoint(t, q, "a").Healthy {
		t.Error("q has not learned that the request failed")
	}
	complete(t, p, a.ID)
	if n := inspected(t, p, "a").InFlight; n != 0 {
		t.Errorf("%d in flight, want 0", n)
	}
}

// spy records what is written to Redis.
type spy struct {
	net.Conn
	sent *testlog.Buffer
}

func (s spy) Write(b []byte) (int, error) {
	if _, err := s.sent.Write(b); err != nil {
		return 0, err
	}
	return s.Conn.Write(b)
}

// No process tells Redis the time: Redis uses its own clock.
func TestOnlyTheClockOfRedisCounts(t *testing.T) {
	sent := &testlog.Buffer{}
	for _, policy := range []string{"least_assigned", "least_in_flight"} {
		cfg, rc := shared(t, policy, 1, 1)
		cfg.KeepCount = time.Hour
		r, err := balance.DialRedis(rc, func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			return spy{conn, sent}, err
		})
		if err != nil {
			t.Fatal(err)
		}
		p := openPool(t, cfg, r)
		a := assign(t, p)
		if policy == "least_in_flight" {
			if _, err := p.Renew(t.Context(), a.ID); err != nil {
				t.Fatal(err)
			}
		}
		complete(t, p, a.ID)
		remove(t, p, "a")
		awaitSync(t, p)
		p.Close()
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if sent.Count("evalsha") < 4 {
		t.Fatal("the spy has seen too little")
	}
	if at := regexp.MustCompile(fmt.Sprintf(`\r\n%d\d*\r\n`, time.Now().Unix()/100000)).FindString(sent.String()); at != "" {
		t.Errorf("the time %q was sent", at)
	}
}

// lua is a script as it is sent to Redis, made of these files.
func lua(t *testing.T, files ...string) string {
	t.Helper()
	all := ""
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all += string(text)
	}
	return all
}

func TestScriptOnAnEmptySet(t *testing.T) {
	c := commonRedis(t).client(t)
	if v := do(t, c, "EVAL", lua(t, "leastassigned.lua"), 1, "no{ne}"); v != nil {
		t.Errorf("the script names %v, want nil", v)
	}
	keys := []any{"no{ne}", "no{ne}:state", "no{ne}:leases", "no{ne}:endpoints"}
	if v := do(t, c, append(append([]any{"EVAL", lua(t, "lease.lua", "leastinflight.lua"), 4}, keys...), "lease", 1000)...); v != nil {
		t.Errorf("the script names %v, want nil", v)
	}
	if n := do(t, c, append([]any{"EXISTS"}, keys...)...); n != int64(0) {
		t.Errorf("%v keys were made", n)
	}
}

// One acquisition sweeps at most a hundred lapsed leases, because Redis serves
// no other command meanwhile.
func TestSweepIsBounded(t *testing.T) {
	c := commonRedis(t).client(t)
	keys := []any{"sweep{}", "sweep{}:state", "sweep{}:leases", "sweep{}:endpoints"}
	do(t, c, "ZADD", keys[0], 250, "0000000000000000:a")
	do(t, c, "HSET", keys[1], "n:a", 250, "m:a", "0000000000000000:a", "s:a", 1)
	for i := range 250 {
		do(t, c, "ZADD", keys[2], 1, fmt.Sprint("lease", i))
		do(t, c, "HSET", keys[3], fmt.Sprint("lease", i), "a")
	}
	for i, want := range []string{"151", "52", "3", "4"} {
		acquire := append([]any{"EVAL", lua(t, "lease.lua", "leastinflight.lua"), 4}, keys...)
		if v := do(t, c, append(acquire, fmt.Sprint("new", i), 60_000)...); v != "a" {
			t.Fatalf("acquired %v, want a", v)
		}
		if n := do(t, c, "HGET", keys[1], "n:a"); n != want {
			t.Errorf("%v in flight after acquisition %d, want %s", n, i+1, want)
		}
	}
	if score := do(t, c, "ZRANGE", keys[0], 0, -1, "WITHSCORES"); fmt.Sprint(score) != "[0000000000000004:a 4]" {
		t.Errorf("the set is %v", score)
	}
	do(t, c, append([]any{"DEL"}, keys...)...)
}

// An endpoint that no process has had for a while leaves the set. Its count and
// its leases stay.
func TestForsakenEndpointsLeaveTheSet(t *testing.T) {
	c := commonRedis(t).client(t)
	const sync = `{"names":["b"],"steps":[1],"ineligible":[],"catch_up":[],"absent":[],"keep":60000,"idle":1000}`
	do(t, c, "ZADD", "idle{}:assigned", 5, "a", 7, "b")
	do(t, c, "ZADD", "idle{}:seen", 1, "a")
	got := do(t, c, "EVAL", lua(t, "leastassigned_sync.lua"), 5, "idle{}:assigned", "idle{}:steps", "idle{}:kept", "idle{}:seen", "idle{}:more", sync)
	if fmt.Sprint(got) != "[b 7]" {
		t.Errorf("the set is %v, want [b 7]", got)
	}
	if kept := fmt.Sprint(do(t, c, "HGET", "idle{}:kept", "a")); !strings.HasPrefix(kept, "5 ") {
		t.Errorf("kept of a: %s, want its count 5", kept)
	}
	do(t, c, "DEL", "idle{}:assigned", "idle{}:steps", "idle{}:kept", "idle{}:seen")
}
