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

// Options is what a Cache is built from.
type Options struct {
	Node   string // this node's id
	Config Config
	Groups []GroupConfig
	// Loader asks the origins; nil: none of the groups may have one.
	Loader Loader
	// Router says who acts for a key; nil: this node, for all.
	Router Router
	// Purger tells the other nodes to drop a group; nil: there are none.
	Purger Purger
	// MaxWaiters bounds the requests that wait for a load; more are refused
	// with ErrOverloaded. 0: 10000.
	MaxWaiters int
	// MaxWaitersPerKey bounds those of one key likewise, so that one slow key
	// does not use up all. 0: MaxWaiters.
	MaxWaitersPerKey int
	Log              *slog.Logger // nil: discarded
	// Version gives the number and id of the view in force, of which the
	// versions of entries are made; nil: 1 and a random id.
	Version func() (view, viewID uint64)
}

// Cache is one node's cache. See the package comment.
type Cache struct {
	node          string
	config        Config
	groups        map[string]*group
	order         []*group // as configured
	loader        Loader
	router        Router
	purger        Purger
	log           *slog.Logger
	view          func() (view, viewID uint64)
	maxWaiters    int64
	maxKeyWaiters int

	store    *store
	stripes  [stripes]stripe
	receipts receipts
	served   served
	waiters  atomic.Int64
	flights  atomic.Uint64 // the newest flight's id; begins anywhere, so that no two nodes' meet
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
		loader: o.Loader, router: o.Router, purger: o.Purger, log: o.Log, view: o.Version,
		maxWaiters: int64(o.MaxWaiters), store: newStore(o.Config), receipts: newReceipts(),
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
	if c.router == nil {
		c.router = alone{}
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
	if c.view == nil {
		id := rand.Uint64()
		c.view = func() (uint64, uint64) { return 1, id }
	}
	for i := range c.stripes {
		c.stripes[i].lanes, c.stripes[i].away = make(map[Key]*lane), make(map[Key]int)
		c.stripes[i].memory = newMemory()
	}
	c.flights.Store(rand.Uint64())
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

// alone is the Router of a single node.
type alone struct{}

func (alone) Acts(string) (uint64, bool) { return 0, true }

func (alone) Forward(context.Context, *Request) (Answer, error) { return Answer{}, ErrActHere }

// Close cancels the loads that run and waits for them. Whoever waits gets
// ErrDraining, as do later requests that need a load or write.
func (c *Cache) Close() error {
	c.cancel()
	for i := range c.stripes {
		s := &c.stripes[i]
		s.mu.Lock()
		s.closed = true // from here on nothing is added to flying
		s.mu.Unlock()
	}
	c.flying.Wait()
	return nil
}

// version makes the next version.
func (c *Cache) version() Version {
	view, id := c.view()
	return Version{View: view, ViewID: id, Counter: c.counter.Add(1)}
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

// find returns the key's entry if it was stored in the given term. One of
// another term is dropped, but for the case that it is the caller's term that
// is over: then the entry is none of its business.
func (c *Cache) find(h uint64, key Key, term uint64) *Entry {
	e := c.store.get(h, key)
	if e == nil || e.Term == term {
		return e
	}
	if now, self := c.router.Acts(key.Key); !self || now != e.Term {
		c.store.removeEntry(h, key, e)
	}
	return nil
}

// Copy describes this node's copy of a key and the last load of it that it
// remembers; of that alone, and false, if it has no copy.
func (c *Cache) Copy(key Key) (Copy, bool) {
	h := c.store.hash(key.Key)
	s := c.stripe(h)
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
	if e.TTL == 0 {
		cp.Forever = true
	} else {
		cp.TTL = e.Left(now).Seconds()
	}
	return cp, true
}

// errNobodyActs is what a write comes to when this node must act according to
// its peers and must not according to its own view: what it stored, nobody
// would find.
var errNobodyActs = ErrWriteUnconfirmed.With("no node could be found that acts for the key")
