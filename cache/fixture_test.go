package cache_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kring/cache"
)

const second = time.Second

// origin is a Loader that counts its requests.
type origin struct {
	mu      sync.Mutex
	sent    int            // requests
	byKey   map[string]int // requests
	running map[cache.Key]int
	overlap int // loads of a key that began while another of it ran

	refuse  error // the error of loads that reach no origin
	latency time.Duration
	// answer makes the answer once the latency is over; n is 1 for a key's first request.
	answer func(n int, l *cache.Load) (cache.Loaded, error)
}

func (o *origin) Load(ctx context.Context, l *cache.Load) (cache.Loaded, error) {
	o.mu.Lock()
	if err := o.refuse; err != nil {
		o.mu.Unlock()
		if errors.Is(err, cache.ErrOriginFailed) { // an endpoint was chosen, and cannot be reached
			return cache.Loaded{Endpoint: "a"}, err
		}
		return cache.Loaded{}, err
	}
	l.Sent.Add(1)
	o.sent++
	o.byKey[l.Key.Key]++
	n := o.byKey[l.Key.Key]
	if o.running[l.Key]++; o.running[l.Key] > 1 {
		o.overlap++
	}
	latency, answer := o.latency, o.answer
	o.mu.Unlock()
	defer func() {
		o.mu.Lock()
		o.running[l.Key]--
		o.mu.Unlock()
	}()
	if latency > 0 {
		select {
		case <-time.After(latency):
		case <-ctx.Done():
			return cache.Loaded{}, ctx.Err()
		}
	}
	return answer(n, l)
}

func (o *origin) set(latency time.Duration, answer func(int, *cache.Load) (cache.Loaded, error)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.latency, o.answer = latency, answer
}

func (o *origin) refuses(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.refuse = err
}

func (o *origin) loads(key string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.byKey[key]
}

func (o *origin) total() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.sent
}

func value(v string) cache.Loaded {
	return cache.Loaded{Entry: &cache.Entry{Value: []byte(v), ContentType: "text/plain"}, Status: 200, Endpoint: "a", Freshness: cache.Unsaid}
}

// counting answers key#n: n is how many requests for the key there were.
func counting(n int, l *cache.Load) (cache.Loaded, error) {
	return value(fmt.Sprintf("%s#%d", l.Key.Key, n)), nil
}

func missing(int, *cache.Load) (cache.Loaded, error) {
	return cache.Loaded{Entry: &cache.Entry{Negative: true}, Status: 404, Freshness: cache.Unsaid}, nil
}

var errOrigin = cache.ErrOriginFailed.With("status 503")

func failing(int, *cache.Load) (cache.Loaded, error) { return cache.Loaded{Status: 503}, errOrigin }

func saying(f cache.Freshness) func(int, *cache.Load) (cache.Loaded, error) {
	return func(n int, l *cache.Load) (cache.Loaded, error) {
		loaded, _ := counting(n, l)
		loaded.Freshness = f
		return loaded, nil
	}
}

// fixture is one node's cache with its origin: the group docs is loaded, kv is
// plain. It acts for every key, in one term. When the test is over the cache is
// closed, and its books must balance.
type fixture struct {
	*cache.Cache
	t      *testing.T
	origin *origin
	term   atomic.Uint64 // in which the next steps act
}

func setup(t *testing.T, change ...func(o *cache.Options)) *fixture {
	t.Helper()
	f := &fixture{t: t, origin: &origin{byKey: map[string]int{}, running: map[cache.Key]int{}, answer: counting}}
	docs := cache.DefaultGroupConfig("docs")
	docs.Origin = cache.OriginConfig{Pool: "docs", Path: "/{key}"}
	docs.Jitter = 0
	o := cache.Options{
		Node: "n1", Config: cache.DefaultConfig(), Loader: f.origin,
		Groups: []cache.GroupConfig{docs, {Name: "kv"}},
	}
	for _, c := range change {
		c(&o)
	}
	c, err := cache.New(o)
	if err != nil {
		t.Fatal(err)
	}
	f.Cache = c
	t.Cleanup(f.finish)
	return f
}

// group changes the group docs.
func group(change func(g *cache.GroupConfig)) func(*cache.Options) {
	return func(o *cache.Options) { change(&o.Groups[0]) }
}

func (f *fixture) finish() {
	if err := f.Close(); err != nil {
		f.t.Error(err)
	}
	f.checkBooks()
	if f.origin.overlap > 0 {
		f.t.Errorf("%d loads began while another of the same key ran", f.origin.overlap)
	}
}

// checkBooks compares the books with each other and with the requests that the origin
// saw. Nothing may be in flight.
func (f *fixture) checkBooks() {
	f.t.Helper()
	s := f.Stats()
	if sum := s.Hits + s.HotHits + s.Stale + s.Joined + s.Peer + s.Loads + s.Refused; s.Gets != sum {
		f.t.Errorf("gets %d, but their answers add up to %d: %+v", s.Gets, sum, s)
	}
	if sum := s.ServedHits + s.ServedStale + s.ServedJoined + s.ServedLoads + s.ServedRefused; s.Served != sum {
		f.t.Errorf("served %d, its parts add up to %d", s.Served, sum)
	}
	if sum := s.Loads + s.ServedLoads + s.Refreshes; sum != uint64(f.origin.total()) {
		f.t.Errorf("loads %d + served loads %d + refreshes %d, but the origin saw %d requests", s.Loads, s.ServedLoads, s.Refreshes, f.origin.total())
	}
	var gets uint64
	var bytes, entries int64
	for _, g := range s.Groups {
		gets, bytes, entries = gets+g.Gets, bytes+g.Bytes, entries+g.Entries
	}
	if gets != s.Gets || bytes != s.Bytes || entries != s.Entries {
		f.t.Errorf("groups have %d gets, %d bytes, %d entries; the node %d, %d, %d", gets, bytes, entries, s.Gets, s.Bytes, s.Entries)
	}
	if s.Bytes > s.MaxBytes || (s.Entries == 0) != (s.Bytes == 0) {
		f.t.Errorf("%d bytes of %d in %d entries", s.Bytes, s.MaxBytes, s.Entries)
	}
}

// pass moves the bubble's time on, and waits until everything that is due has happened.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func doc(key string) cache.Key { return cache.Key{Group: "docs", Key: key} }

func kv(key string) cache.Key { return cache.Key{Group: "kv", Key: key} }

// got is the outcome of a get or a write.
type got struct {
	cache.Answer
	err error
}

// get answers a client's get as a node does that acts for the key.
func get(ctx context.Context, c *cache.Cache, term cache.Term, key cache.Key, onlyIfCached bool) (cache.Answer, error) {
	g, err := c.Group(key.Group)
	if err != nil {
		return cache.Answer{}, err
	}
	r := g.Read(key.Key, onlyIfCached)
	if a, ok := r.Hit(term); ok {
		return a, nil
	}
	if err := r.Check(); err != nil {
		return cache.Answer{}, err
	}
	r.Arrived()
	a := r.Nothing()
	if r.Matches() {
		a, err = r.Answer(ctx, term)
	}
	r.Answered(a)
	return a, err
}

// serve answers another node's get as such a node does.
func serve(ctx context.Context, c *cache.Cache, term cache.Term, req cache.Request) (cache.Answer, error) {
	g, err := c.Group(req.Key.Group)
	if err != nil {
		return cache.Answer{}, err
	}
	r := g.Read(req.Key.Key, req.OnlyIfCached)
	if err := r.Check(); err != nil {
		return cache.Answer{}, err
	}
	if !r.Matches() {
		return r.Nothing(), nil
	}
	return r.Serve(ctx, term, req.Waiting)
}

// write carries out a write as such a node does.
func write(ctx context.Context, c *cache.Cache, term cache.Term, req cache.Request) (cache.Answer, error) {
	if err := c.CheckWrite(&req); err != nil {
		return cache.Answer{}, err
	}
	w, err := c.BeginWrite(ctx, &req, term)
	if err != nil {
		return cache.Answer{}, err
	}
	return w.Commit(ctx)
}

// actIn says in which term the next steps act.
func (f *fixture) actIn(term cache.Term) { f.term.Store(uint64(term)) }

func (f *fixture) currentTerm() cache.Term { return cache.Term(f.term.Load()) }

func (f *fixture) get(key cache.Key) got { return f.getCtx(context.Background(), key) }

func (f *fixture) getCtx(ctx context.Context, key cache.Key) got {
	a, err := get(ctx, f.Cache, f.currentTerm(), key, false)
	return got{a, err}
}

func (f *fixture) getStored(key cache.Key) got {
	a, err := get(context.Background(), f.Cache, f.currentTerm(), key, true)
	return got{a, err}
}

// serve answers another node's get, and delivers the answer.
func (f *fixture) serve(w cache.Waiting, key cache.Key) got {
	g := f.serveCtx(context.Background(), cache.Request{Key: key, Waiting: w})
	f.Delivered(g.Kind, true)
	return g
}

func (f *fixture) serveCtx(ctx context.Context, req cache.Request) got {
	a, err := serve(ctx, f.Cache, f.currentTerm(), req)
	return got{a, err}
}

// putCtx stores the value of a request.
func (f *fixture) putCtx(ctx context.Context, req cache.Request) got {
	req.Op = cache.OpPut
	a, err := write(ctx, f.Cache, f.currentTerm(), req)
	return got{a, err}
}

func (f *fixture) removeCtx(ctx context.Context, req cache.Request) error {
	req.Op = cache.OpDelete
	_, err := write(ctx, f.Cache, f.currentTerm(), req)
	return err
}

// wants checks a get that should bring a value.
func (f *fixture) wants(g got, value string, kind cache.Kind) {
	f.t.Helper()
	switch {
	case g.err != nil:
		f.t.Errorf("error %v, want %q", g.err, value)
	case g.Entry.Negative || string(g.Entry.Value) != value || g.Kind != kind || g.Node != "n1":
		f.t.Errorf("%q (negative %v) of kind %v from %q, want %q of kind %v", g.Entry.Value, g.Entry.Negative, g.Kind, g.Node, value, kind)
	}
}

// wantsNothing checks a get whose answer should be that there is no such key.
func (f *fixture) wantsNothing(g got, kind cache.Kind) {
	f.t.Helper()
	if g.err != nil || !g.Entry.Negative || g.Kind != kind {
		f.t.Errorf("%+v, want a negative answer of kind %v", g, kind)
	}
}

// wantsError checks a get that should fail.
func (f *fixture) wantsError(g got, err error, kind cache.Kind) {
	f.t.Helper()
	if !errors.Is(g.err, err) || g.Kind != kind {
		f.t.Errorf("error %v of kind %v, want %v of kind %v", g.err, g.Kind, err, kind)
	}
}

func (f *fixture) put(key cache.Key, value string) got {
	f.t.Helper()
	g := f.putCtx(context.Background(), cache.Request{Key: key, Value: []byte(value)})
	if g.err != nil {
		f.t.Errorf("put %q: %v", value, g.err)
	}
	return g
}

func (f *fixture) remove(key cache.Key) {
	f.t.Helper()
	if err := f.removeCtx(context.Background(), cache.Request{Key: key}); err != nil {
		f.t.Errorf("delete: %v", err)
	}
}

// crowd starts n gets of a key at once. The function that it returns waits for the
// answers.
func (f *fixture) crowd(n int, key cache.Key) func() map[cache.Kind][]got {
	answers := make(chan got, n)
	for range n {
		go func() { answers <- f.get(key) }()
	}
	return func() map[cache.Kind][]got {
		by := map[cache.Kind][]got{}
		for range n {
			g := <-answers
			by[g.Kind] = append(by[g.Kind], g)
		}
		return by
	}
}
