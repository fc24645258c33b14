package cache

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

const defaultMaxWaiters = 10000

// Options are the parts and limits of a Cache.
type Options struct {
	Node   string // this node's id
	Config Config
	Groups []GroupConfig
	// Loader asks the origins. Nil: no group may have an origin.
	Loader Loader
	// MaxWaiters bounds the requests that wait for a load. Any more are refused with
	// ErrOverloaded. 0: 10000.
	MaxWaiters int
	// MaxWaitersPerKey bounds the requests that wait for one key, so that one slow key
	// does not take all the places. 0: MaxWaiters.
	MaxWaitersPerKey int
	Log              *slog.Logger // nil: nothing is logged
}

// Cache is one node's cache. See the package comment.
type Cache struct {
	node          string
	config        Config
	groups        map[string]*group
	order         []*group // as configured
	loader        Loader
	log           *slog.Logger
	viewID        uint64 // random: part of the versions of this process's entries
	maxWaiters    int64
	maxKeyWaiters int

	store    *store
	stripes  [lockStripes]flights
	writeIDs writeIDs
	served   servedCounts
	waiters  atomic.Int64
	loadIDs  atomic.Uint64 // the newest load's number; begins at random, so that no two nodes have the same
	counter  atomic.Uint64 // of versions

	ctx    context.Context // of the flights
	cancel context.CancelFunc
	flying sync.WaitGroup
}

// New checks the options and builds a Cache, which Close ends.
func New(o Options) (*Cache, error) {
	if err := o.Config.Validate(); err != nil {
		return nil, err
	}
	c := &Cache{
		node: o.Node, config: o.Config, groups: make(map[string]*group, len(o.Groups)),
		loader: o.Loader, log: o.Log, viewID: rand.Uint64(),
		maxWaiters: int64(o.MaxWaiters), store: newStore(o.Config), writeIDs: newWriteIDs(),
	}
	for _, cfg := range o.Groups {
		g, err := newGroup(cfg)
		if err != nil {
			return nil, err
		}
		if c.groups[g.Name] != nil {
			return nil, fmt.Errorf("groups: name %q: is there twice", g.Name)
		}
		if !g.plain() && c.loader == nil {
			return nil, fmt.Errorf("groups[%s].origin.pool: %q: there is nothing that loads from it", g.Name, g.Origin.Pool)
		}
		c.groups[g.Name] = g
		c.order = append(c.order, g)
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if c.maxWaiters == 0 {
		c.maxWaiters = defaultMaxWaiters
	}
	if c.maxKeyWaiters = o.MaxWaitersPerKey; c.maxKeyWaiters == 0 {
		c.maxKeyWaiters = int(c.maxWaiters)
	}
	for i := range c.stripes {
		s := &c.stripes[i]
		s.store, s.run = c.store, c.run
		s.keys, s.memory = make(map[Key]*keyState), newMemory()
	}
	c.loadIDs.Store(rand.Uint64())
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

// Close cancels the running loads and waits for their end. The gets that wait for them
// end with ErrDraining, as do later writes and later gets that need a load.
func (c *Cache) Close() error {
	c.cancel()
	for i := range c.stripes {
		c.stripes[i].close() // from here on nothing is added to flying
	}
	c.flying.Wait()
	return nil
}

// Draining reports whether Close was called.
func (c *Cache) Draining() bool { return c.ctx.Err() != nil }

// flights has the state of the keys with that hash.
func (c *Cache) flights(h uint64) *flights { return &c.stripes[h%lockStripes] }

// version makes the next version.
func (c *Cache) version() Version {
	return Version{View: 1, ViewID: c.viewID, Counter: c.counter.Add(1)}
}

// Delivered counts a get that Serve or ServeStored answered. Not delivered means that
// the answer could not be written to the link: the node that asked counts the get as
// abandoned, and a load that was made for it counts as a refresh. KindNone counts
// nothing.
func (c *Cache) Delivered(kind Kind, delivered bool) {
	switch {
	case kind == KindNone || kind > KindRefused:
	case delivered:
		c.served.kinds[kind].Add(1)
	case kind == KindLoad:
		c.served.refreshes.Add(1)
	}
}

// Stats returns the books and the store's usage.
func (c *Cache) Stats() Stats {
	s := Stats{Node: c.node, MaxBytes: c.config.MaxBytes}
	used := make(map[string]usage)
	total := c.store.usage(used)
	s.Bytes, s.Entries, s.Evictions = total.bytes, total.entries, total.evictions
	s.NegativeBytes, s.NegativeMaxBytes = c.store.absent.usage().bytes, c.store.absent.budget
	s.Groups = make([]GroupStats, 0, len(c.order))
	for _, g := range c.order {
		r, standIn := g.counters.reads()
		s.Reads.add(r)
		s.StandIn += standIn
		s.Groups = append(s.Groups, GroupStats{Name: g.Name, Reads: r, Bytes: used[g.Name].bytes, Entries: used[g.Name].entries})
	}
	k := &c.served.kinds
	s.ServedHits = k[KindHit].Load()
	s.ServedStale = k[KindStale].Load()
	s.ServedJoined = k[KindJoined].Load()
	s.ServedLoads = k[KindLoad].Load()
	s.ServedRefused = k[KindRefused].Load()
	s.Served = s.ServedHits + s.ServedStale + s.ServedJoined + s.ServedLoads + s.ServedRefused
	s.Refreshes += c.served.refreshes.Load()
	return s
}

// CheckKey says why a key cannot be asked for: ErrUnknownGroup, ErrBadKey,
// ErrKeyTooLong, or what the group's own CheckKey says.
func (c *Cache) CheckKey(key Key) error {
	g := c.groups[key.Group]
	if g == nil {
		return ErrUnknownGroup
	}
	return g.checkKey(key.Key, c.config.MaxKeyBytes)
}

// Copy describes this node's copy of a key, and the last load of it that the node
// remembers. False: the node has no copy, and only the load is described.
func (c *Cache) Copy(key Key) (Copy, bool) {
	h := c.store.hash(key.Key)
	s := c.flights(h)
	s.mu.Lock()
	cp := Copy{Node: c.node, LastLoad: s.memory.lastLoad(key)}
	e := c.store.get(h, key)
	s.mu.Unlock()
	if e == nil {
		return cp, false
	}
	now := time.Now()
	cp.Role, cp.State = "primary", e.state(now).String()
	cp.Version, cp.Age = e.Version.String(), e.Age(now).Seconds()
	if e.Negative {
		cp.Role = "negative"
	}
	if e.Forever() {
		cp.Forever = true
	} else {
		cp.TTL = e.Left(now).Seconds()
	}
	return cp, true
}
