package cluster

import (
	"context"
	"iter"
	"slices"
	"time"

	"kring/cache"
	"kring/peers"
)

const (
	// window is how many keys of one GetMany are worked on together.
	window = 128
	// manyBytes is how much values may take in memory at once, from when their gets
	// begin until the caller has used them. One value of any size is let in.
	manyBytes = 2 << 20
	// A get that has begun weighs largeGuess until its value is there: nobody knows
	// its size before. Once a value of at most smallValue bytes has come, the next
	// gets weigh smallGuess.
	largeGuess = manyBytes / 4
	smallGuess = manyBytes / 64
	smallValue = 64 << 10
	// slowAfter is how long a get weighs anything without a value: it is likely a
	// load, and slow loads must not use up the time of all.
	slowAfter = 2 * time.Second
)

// GetMany is one Get for each key: a key's failure is its own. It yields the results
// in the order of keys, as many at a time as are there, with the index of the first.
// The caller must not keep them: their memory counts until it asks for the next ones.
// It may change them.
//
// The gets take no longer than within, all together. The time that the caller spends
// between two yields does not count.
func (c *Cluster) GetMany(ctx context.Context, group string, keys []string, within time.Duration) iter.Seq2[int, []cache.Result] {
	return func(yield func(int, []cache.Result) bool) {
		g, err := c.cache.Group(group)
		for at := 0; at < len(keys); at += window {
			part := keys[at:min(at+window, len(keys))]
			if err != nil {
				results := slices.Repeat([]cache.Result{{Answer: cache.Answer{Node: c.self}, Err: err}}, len(part))
				if !yield(at, results) {
					return
				}
				continue
			}
			b := batch{c: c, group: g, keys: part, results: make([]cache.Result, len(part)), weights: make([]int, len(part)), guess: largeGuess}
			if !b.run(ctx, &within, func(n int, results []cache.Result) bool { return yield(at+n, results) }) {
				return
			}
		}
	}
}

// batch is the gets of one window of keys. It belongs to one goroutine.
type batch struct {
	c       *Cluster
	group   cache.Group
	keys    []string
	results []cache.Result
	weights []int // of the keys: what their values take
	weight  int   // the sum of weights
	guess   int   // of a value that nobody knows the size of

	missing []int       // keys whose gets are still to begin, in order
	begun   []*batchGet // by key: the gets on goroutines of their own
	landed  chan *batchGet
	slow    chan *batchGet
}

// batchGet is one get on a goroutine of its own.
type batchGet struct {
	at     int
	there  bool // its result is there
	timer  *time.Timer
	cancel context.CancelFunc
}

// run gets the keys and yields their results. False: the caller wants no more.
func (b *batch) run(ctx context.Context, within *time.Duration, yield func(int, []cache.Result) bool) bool {
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, *within)
	b.answerStored(limited)
	cancel()
	if n := len(b.missing); n > 0 {
		b.begun, b.landed, b.slow = make([]*batchGet, len(b.keys)), make(chan *batchGet, n), make(chan *batchGet, n)
		defer b.end()
	}
	for next := 0; next < len(b.keys); {
		for len(b.missing) > 0 && (b.missing[0] == next || b.weight+b.guess <= manyBytes) {
			b.begin(ctx, *within-time.Since(began))
		}
		n := next
		for n < len(b.keys) && b.answered(n) {
			n++
		}
		if n == next {
			select {
			case get := <-b.landed:
				b.land(get)
			case get := <-b.slow:
				if !get.there {
					b.weigh(get.at, 0)
				}
			}
			continue
		}
		*within -= time.Since(began)
		if !yield(next, b.results[next:n]) {
			return false
		}
		began = time.Now()
		for ; next < n; next++ {
			b.forget(next)
		}
	}
	*within -= time.Since(began)
	return true
}

// answerStored answers the gets of what is stored, here or at other nodes, as far as
// that is no more than manyBytes. The others are missing.
func (b *batch) answerStored(ctx context.Context) {
	stored, others := 0, 0
	elsewhere := make(map[string][]int) // others, by the member that acts for them
	routing := b.c.routing()
	for i, key := range b.keys {
		route := routing.route(key, nil)
		switch {
		case !route.Self && b.group.Has(key):
			elsewhere[route.Node] = append(elsewhere[route.Node], i)
			others++
			continue
		case route.Self && stored < manyBytes:
			r := b.group.Read(key, false)
			if a, ok := r.Hit(route.Term); ok {
				b.results[i].Answer = a
				stored += len(a.Entry.Value)
				continue
			}
		}
		b.missing = append(b.missing, i)
	}
	if others > 1 {
		b.gather(ctx, elsewhere)
	} else { // an ordinary get is no dearer, and may load
		for _, at := range elsewhere {
			b.missing = append(b.missing, at...)
		}
	}
	slices.Sort(b.missing) // the first is the one that the caller waits for
	for i := range b.results {
		b.weigh(i, b.size(i))
	}
}

// gather asks the nodes that act for keys for what they have stored.
func (b *batch) gather(ctx context.Context, elsewhere map[string][]int) {
	type call struct {
		peers.Pending
		at []int
	}
	var calls []call
	for member, at := range elsewhere {
		for len(at) > 0 {
			req := &peers.Request{Request: cache.Request{Op: peers.OpGetMany, Key: cache.Key{Group: b.group.Name()}}, Hop: 1}
			n := 0
			for bytes := 0; n < min(len(at), peers.MaxMany); n++ {
				if bytes += len(b.keys[at[n]]); n > 0 && bytes > peers.MaxManyBytes {
					break
				}
				req.Keys = append(req.Keys, b.keys[at[n]])
			}
			if pending, ok := b.c.peers.Begin(ctx, member, req); ok {
				calls = append(calls, call{pending, at[:n]})
			} else {
				b.missing = append(b.missing, at[:n]...)
			}
			at = at[n:]
		}
	}
	for _, call := range calls {
		reply, err := call.Wait(ctx)
		for n, i := range call.at {
			if err != nil || n >= len(reply.Many) || reply.Many[n].Entry == nil {
				b.missing = append(b.missing, i)
				continue
			}
			a := reply.Many[n]
			a.Node, a.OwnerKind, a.Kind = reply.Answer.Node, a.Kind, cache.KindPeer
			r := b.group.Read(b.keys[i], false)
			r.Arrived()
			r.Answered(a)
			b.results[i].Answer = a
		}
	}
}

// begin begins the first missing get, on a goroutine of its own.
func (b *batch) begin(ctx context.Context, within time.Duration) {
	get := &batchGet{at: b.missing[0]}
	b.missing = b.missing[1:]
	b.begun[get.at] = get
	b.weigh(get.at, b.guess)
	ctx, get.cancel = context.WithTimeout(ctx, within)
	get.timer = time.AfterFunc(slowAfter, func() { b.slow <- get })
	go func() {
		result := &b.results[get.at]
		result.Answer, result.Err = b.c.get(ctx, b.group.Read(b.keys[get.at], false))
		b.landed <- get
	}()
}

// land takes the end of a get.
func (b *batch) land(get *batchGet) {
	get.timer.Stop()
	get.there = true
	size := b.size(get.at)
	b.weigh(get.at, size)
	if b.guess = largeGuess; size <= smallValue {
		b.guess = smallGuess
	}
}

// weigh says what the value of a key takes from now on, in bytes.
func (b *batch) weigh(i, weight int) {
	b.weight += weight - b.weights[i]
	b.weights[i] = weight
}

// size is the length of the value of a key's result.
func (b *batch) size(i int) int {
	if e := b.results[i].Entry; e != nil {
		return len(e.Value)
	}
	return 0
}

// answered reports whether the result of a key is there.
func (b *batch) answered(i int) bool {
	if b.begun != nil && b.begun[i] != nil {
		return b.begun[i].there
	}
	return b.results[i].Entry != nil || b.results[i].Err != nil
}

// forget lets go of a result that was yielded.
func (b *batch) forget(i int) {
	b.weigh(i, 0)
	b.results[i] = cache.Result{}
	if b.begun != nil && b.begun[i] != nil {
		b.begun[i].cancel() // not before: what came from another node is charged until then
		b.begun[i] = nil
	}
}

// end cancels the gets that have begun, and waits for them.
func (b *batch) end() {
	for _, get := range b.begun {
		if get != nil {
			get.cancel()
		}
	}
	for _, get := range b.begun {
		for get != nil && !get.there {
			b.land(<-b.landed)
		}
	}
}
