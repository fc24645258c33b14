package balance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kring/balance"
	"kring/internal/testlog"
)

// Redis may evict one key of a pool and keep the others. The counts are exact
// again after the next sync, and stay exact.
func TestOneKeyIsLost(t *testing.T) {
	for _, tt := range []struct{ policy, keys string }{
		{"least_assigned", "assigned assigned:steps assigned:kept assigned:more seen endpoints"},
		{"least_in_flight", "flying flying:state leases leases:endpoints seen endpoints"},
	} {
		for _, key := range strings.Fields(tt.keys) {
			t.Run(tt.policy+"/"+key, func(t *testing.T) {
				cfg, rc := shared(t, tt.policy, 1, 1, 1)
				c := commonRedis(t).client(t)
				p := openPool(t, cfg, dialRedis(t, rc))
				var held []balance.Pick
				for range 5 {
					held = append(held, pick(t, p))
				}
				do(t, c, "DEL", rc.KeyPrefix+"{test}:"+key)
				names(t, p, 4, true)
				awaitSync(t, p)
				for _, one := range held {
					one.Done(balance.Success)
				}
				for name := range strings.FieldsSeq("a b c") {
					if n := inspected(t, p, name).InFlight; n != 0 {
						t.Errorf("%s has %d in flight, want 0", name, n)
					}
				}
				names(t, p, 3, true)
				even := map[string]int{}
				for _, name := range names(t, p, 9, false) {
					even[string(name)]++
				}
				if len(even) != 3 || even["a"] != 3 || even["b"] != 3 || p.Status().LocalPicks != 0 {
					t.Errorf("picks %v, %d of them local; want 3 each, none local", even, p.Status().LocalPicks)
				}
				set := map[string]string{"least_assigned": "assigned", "least_in_flight": "flying"}[tt.policy]
				if n := do(t, c, "ZCARD", rc.KeyPrefix+"{test}:"+set); n != int64(3) {
					t.Errorf("the set has %v members, want 3", n)
				}
			})
		}
	}
}

// The step of a count depends on all weights. The number of assignments must
// not.
func TestAssignedOutlivesAWeightChange(t *testing.T) {
	everyBackend(t, func(t *testing.T, b backend) {
		cfg := config("least_assigned", 1, 1)
		p := b.open(t, cfg)
		names(t, p, 10, true)
		check := func(when string, want ...int64) {
			t.Helper()
			for i, n := range want {
				if got := inspected(t, p, string(rune('a'+i))).Assigned; got != n {
					t.Errorf("%s: %c has %d assigned, want %d", when, 'a'+i, got, n)
				}
			}
		}
		weight := func(name string, w int) {
			t.Helper()
			change(t, p, name, balance.EndpointChange{Weight: &w})
			awaitSync(t, p)
		}
		check("at first", 5, 5)
		weight("a", 2)
		check("a weighs 2", 5, 5)
		names(t, p, 6, true)
		check("after six more", 9, 7)
		weight("b", 1000)
		weight("a", 1)
		weight("b", 2)
		check("after three changes", 9, 7)
		names(t, p, 3, true)
		check("after three more", 10, 9)
		remove(t, p, "b")
		awaitSync(t, p)
		put(t, p, "b", cfg.Endpoints[1].URL)
		awaitSync(t, p)
		check("b removed and added again", 10, 9)
	})
}

// Many endpoints join many others, and no pick is held up: the sync finds their
// start value once, not once for each.
func TestManyEndpointsJoinAtOnce(t *testing.T) {
	const many = 500
	cfg, rc := shared(t, "least_assigned")
	rc.Timeout = 2 * time.Second
	set := []any{"ZADD", rc.KeyPrefix + "{test}:assigned"}
	for i := range many {
		name := fmt.Sprint("joins-", i)
		cfg.Endpoints = append(cfg.Endpoints, balance.EndpointConfig{Name: name, URL: "http://" + name + ".test", Weight: 1})
		set = append(set, 7, fmt.Sprint("there-", i))
	}
	do(t, commonRedis(t).client(t), set...)
	p := openPool(t, cfg, dialRedis(t, rc))
	names(t, p, 1, true)
	if st := p.Status(); st.Outages != 0 || st.LocalPicks != 0 {
		t.Errorf("%d outages, %d local picks", st.Outages, st.LocalPicks)
	}
	if n := inspected(t, p, "joins-9").Assigned; n != 7 && n != 8 {
		t.Errorf("%d assigned, want the 7 of the others", n)
	}
}

// Endpoints that come and go under ever new names leave nothing behind for
// good.
func TestDepartedEndpointsAreForgotten(t *testing.T) {
	for _, policy := range []string{"least_assigned", "least_in_flight"} {
		cfg, rc := shared(t, policy, 1)
		cfg.KeepCount = time.Millisecond
		c := commonRedis(t).client(t)
		p := openPool(t, cfg, dialRedis(t, rc))
		for i := range 5 {
			name := fmt.Sprint("late-", i)
			put(t, p, name, cfg.Endpoints[0].URL)
			awaitSync(t, p)
			names(t, p, 2, true)
			remove(t, p, name)
			awaitSync(t, p)
		}
		keys := do(t, c, "KEYS", rc.KeyPrefix+"*").([]any)
		eventually(t, "what was counted is forgotten", func() bool {
			awaitSync(t, p)
			left := ""
			for _, key := range keys {
				if kind := do(t, c, "TYPE", key); kind == "hash" && !strings.HasSuffix(key.(string), ":endpoints") {
					left += fmt.Sprint(do(t, c, "HGETALL", key))
				} else if kind == "zset" {
					left += fmt.Sprint(do(t, c, "ZRANGE", key, 0, -1))
				}
			}
			return !strings.Contains(left, "late-")
		})
		// Removals are forgotten an hour later, except those of configured
		// endpoints.
		changes := rc.KeyPrefix + "{test}:endpoints"
		remove(t, p, "a")
		remove(t, p, "no/name") // no process must hear of it
		for i := range 5 {
			name := fmt.Sprint("late-", i)
			text := do(t, c, "HGET", changes, name).(string)
			if !strings.HasPrefix(text, `{"till":`) || !strings.HasSuffix(text, `,"removed":true}`) {
				t.Errorf("the removal of %s is %s", name, text)
			}
			do(t, c, "HSET", changes, name, `{"till":1,"removed":true}`)
		}
		awaitSync(t, p)
		put(t, p, "last", cfg.Endpoints[0].URL)
		if got := fmt.Sprint(do(t, c, "HKEYS", changes)); got != "[a last]" && got != "[last a]" {
			t.Errorf("%s: %s are published, want a and last", policy, got)
		}
	}
}

// gate blocks the first choice that is written to Redis, until it is opened.
type gate struct {
	net.Conn
	once *sync.Once
	held chan struct{} // closed when a choice is blocked
	open chan struct{}
}

func (g gate) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("evalsha")) && !bytes.Contains(b, []byte(`"names"`)) {
		g.once.Do(func() {
			close(g.held)
			<-g.open
		})
	}
	return g.Conn.Write(b)
}

// An endpoint that is added during a choice may be the one chosen.
func TestEndpointComesDuringAPick(t *testing.T) {
	for _, policy := range []string{"least_assigned", "least_in_flight"} {
		cfg, rc := shared(t, policy, 1)
		rc.Timeout = 10 * time.Second
		g := gate{once: new(sync.Once), held: make(chan struct{}), open: make(chan struct{})}
		r, err := balance.DialRedis(rc, func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			return gate{conn, g.once, g.held, g.open}, err
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := r.Close(); err != nil {
				t.Errorf("close redis: %v", err)
			}
		})
		p, q := openPool(t, cfg, r), openPool(t, cfg, dialRedis(t, rc))
		awaitSync(t, p)
		picked := make(chan string)
		go func() {
			got, err := p.Pick(t.Context())
			if err != nil {
				t.Errorf("pick: %v", err)
			}
			picked <- got.Endpoint.Name
			got.Done(balance.Success)
		}()
		<-g.held
		put(t, q, "A", cfg.Endpoints[0].URL)
		eventually(t, "p has A", func() bool { return len(p.Status().Endpoints) == 2 })
		awaitSync(t, p)
		close(g.open)
		if name := <-picked; name != "A" {
			t.Errorf("%s: picked %s, want A: it came meanwhile, and is the first", policy, name)
		}
		if n := total(t, q); n != 1 {
			t.Errorf("%s: %d assigned, want 1", policy, n)
		}
	}
}

// Names from Redis cannot fill a process, and published names cannot fill
// Redis. Both have a limit, and beyond it the oldest removals are forgotten
// first.
func TestPublishedEndpointsAreLimited(t *testing.T) {
	for _, policy := range []string{"least_assigned", "least_in_flight"} {
		cfg, rc := shared(t, policy, 1)
		rc.Timeout = 10 * time.Second // a command has ten thousand words here
		c := commonRedis(t).client(t)
		changes := rc.KeyPrefix + "{test}:endpoints"
		hset := []any{"HSET", changes}
		for i := range balance.MaxEndpoints + 50 {
			hset = append(hset, fmt.Sprint("e", i), `{"url":"http://a.test:80"}`)
		}
		bad := []string{`{"url":"http://a.test:0"}`, `{"url":"http://u:p@a.test"}`, `{"url":"http://a.test","weight":-1}`, `{"weight":1}`, `{`, `null`}
		for i, text := range bad {
			hset = append(hset, fmt.Sprint("bad-", i), text)
		}
		hset = append(hset, "no/name", `{"url":"http://a.test:80"}`)
		for i := range 2*balance.MaxEndpoints - (balance.MaxEndpoints + 50) - len(bad) - 1 {
			hset = append(hset, fmt.Sprint("gone-", i), fmt.Sprintf(`{"till":%d,"removed":true}`, 9_000_000_000_000+i))
		}
		do(t, c, hset...)
		log := &testlog.Buffer{}
		p := openPool(t, cfg, dialRedis(t, rc), logged(log))
		awaitSync(t, p)
		awaitSync(t, p)
		st := p.Status()
		if n := len(st.Endpoints); n != balance.MaxEndpoints {
			t.Errorf("%s: the pool has %d endpoints, want %d", policy, n, balance.MaxEndpoints)
		}
		for _, e := range st.Endpoints {
			if e.Name == "no/name" || strings.HasPrefix(e.Name, "bad-") {
				t.Errorf("%s: the pool has taken %s, %s", policy, e.Name, e.URL)
			}
		}
		// a is one of the thousand. null changes nothing of an unknown
		// endpoint.
		if n := log.Count("published endpoint cannot be used"); n != 51+len(bad)+1 {
			t.Errorf("%s: %d changes are said to be of no use, want each once: %d", policy, n, 51+len(bad)+1)
		}
		if err := p.RemoveEndpoint(t.Context(), "late"); err != nil {
			t.Errorf("%s: a removal: %v", policy, err)
		}
		if n := do(t, c, "HLEN", changes); n != int64(2*balance.MaxEndpoints) {
			t.Errorf("%s: %v changes are kept, want %d", policy, n, 2*balance.MaxEndpoints)
		}
		if n := do(t, c, "HEXISTS", changes, "gone-0"); n != int64(0) || do(t, c, "HEXISTS", changes, "gone-1") != int64(1) {
			t.Errorf("%s: another removal than the oldest was forgotten", policy)
		}
		do(t, c, "DEL", changes)
	}
}

// Endpoints that come and go under ever new names leave a bounded number of
// counts in a process, too, however long keep_count is.
func TestDepartedEndpointsAreLimited(t *testing.T) {
	p := newPool(t, config("least_assigned", 1))
	held := map[string]balance.Pick{}
	for i := range 3 * balance.MaxEndpoints {
		name := fmt.Sprint("e", i)
		put(t, p, name, "http://a.test:80")
		if i%500 == 0 {
			held[name] = pickNamed(t, p, name, 10)
		}
		remove(t, p, name)
	}
	if n := balance.Departed(p); n > balance.MaxEndpoints {
		t.Errorf("%d departed endpoints are kept, want at most %d", n, balance.MaxEndpoints)
	}
	for _, one := range held {
		one.Done(balance.Success) // whether or not its tally is still kept
	}
	put(t, p, "e2999", "http://a.test:80")
	if e := endpoint(t, p, "e2999"); e.InFlight != 0 || e.Assigned != 0 {
		t.Errorf("%+v", e)
	}
}

// An assignment that lapses is released in the policy, too.
func TestALapsedAssignmentIsNoLongerInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config("least_in_flight", 1, 1)
		p := newPool(t, cfg)
		var toB []string
		for range 4 {
			a, err := p.Assign(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if a.Endpoint.Name == "b" {
				toB = append(toB, a.ID)
			}
		}
		for _, id := range toB {
			if err := p.Complete(t.Context(), id, balance.Success); err != nil {
				t.Fatal(err)
			}
		}
		if a, b := endpoint(t, p, "a").InFlight, endpoint(t, p, "b").InFlight; a != 2 || b != 0 {
			t.Fatalf("%d and %d in flight before the lapse, want 2 and 0", a, b)
		}
		time.Sleep(cfg.Lease)
		count := map[string]int{}
		for range 8 {
			count[pick(t, p).Endpoint.Name]++ // this pick stays unfinished
		}
		if count["a"] != 4 || count["b"] != 4 {
			t.Errorf("after the lapse 8 picks are %v, want 4 and 4", count)
		}
	})
}

// The removal of a configured endpoint stays published for good: a process that
// starts much later must not have the endpoint. Other removals stay published
// for an hour.
func TestOnlyTheRemovalOfAConfiguredEndpointHasNoEnd(t *testing.T) {
	cfg, rc := shared(t, "least_assigned", 1, 1)
	c := commonRedis(t).client(t)
	p := openPool(t, cfg, dialRedis(t, rc))
	put(t, p, "late", cfg.Endpoints[0].URL)
	remove(t, p, "late")
	remove(t, p, "a")
	published := func(name string) string {
		text, _ := do(t, c, "HGET", rc.KeyPrefix+"{test}:endpoints", name).(string)
		return text
	}
	if got := published("a"); got != `{"removed":true}` {
		t.Errorf("the removal of a configured endpoint is %s, want it without an end", got)
	}
	var late struct {
		Till    int64
		Removed bool
	}
	if err := json.Unmarshal([]byte(published("late")), &late); err != nil {
		t.Fatalf("the removal of an added endpoint is %q: %v", published("late"), err)
	}
	now := do(t, c, "TIME").([]any)
	seconds, err := strconv.ParseInt(now[0].(string), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if left := late.Till/1000 - seconds; !late.Removed || left < 3000 || left > 3600 {
		t.Errorf("the removal of an added endpoint is told for another %d s, want about an hour", left)
	}
}

// A process forgets the changes that Redis has forgotten.
func TestAChangeThatIsNoLongerPublishedIsForgotten(t *testing.T) {
	cfg, rc := shared(t, "least_assigned", 1)
	p := openPool(t, cfg, dialRedis(t, rc))
	for i := range 5 {
		put(t, p, fmt.Sprint("late-", i), cfg.Endpoints[0].URL)
	}
	awaitSync(t, p)
	if n := balance.Followed(p); n != 5 {
		t.Fatalf("%d changes are remembered, want 5", n)
	}
	do(t, commonRedis(t).client(t), "DEL", rc.KeyPrefix+"{test}:endpoints")
	awaitSync(t, p)
	if n := balance.Followed(p); n != 0 {
		t.Errorf("%d changes are remembered that are no longer published", n)
	}
}

// Callers that never complete their assignments do not fill the memory: beyond
// a hundred thousand the pool refuses more until some have lapsed.
func TestUnfinishedAssignmentsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, config("round_robin", 1))
		assign := func() (string, error) {
			a, err := p.Assign(t.Context())
			return a.ID, err
		}
		last := ""
		for i := range 100_000 {
			id, err := assign()
			if err != nil {
				t.Fatalf("assignment %d: %v", i, err)
			}
			last = id
		}
		if _, err := assign(); !errors.Is(err, balance.ErrTooManyAssignments) {
			t.Errorf("one too many: %v", err)
		}
		if n := endpoint(t, p, "a").InFlight; n != 100_000 {
			t.Errorf("%d in flight: the one refused was counted", n)
		}
		if err := p.Complete(t.Context(), last, balance.Success); err != nil {
			t.Fatal(err)
		}
		if _, err := assign(); err != nil {
			t.Errorf("one in place of another: %v", err)
		}
	})
}
