package cache

import (
	"context"
	"log/slog"
)

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
	// MaxWaiters bounds the requests that wait for a load or for their turn to
	// write; more are refused with ErrOverloaded. 0: 10000.
	MaxWaiters int
	Log        *slog.Logger // nil: discarded
	// Version gives the number and id of the view in force, of which the
	// versions of entries are made; nil: 1 and a random id.
	Version func() (view, viewID uint64)
}

// Cache is one node's cache. See the package comment.
type Cache struct {
	node string
}

// New checks the options and builds a Cache, which Close ends.
func New(o Options) (*Cache, error) { return &Cache{node: o.Node}, nil }

// Get answers a client's get, from here or through another node.
func (c *Cache) Get(ctx context.Context, key Key, onlyIfCached bool) (Answer, error) {
	return Answer{}, ErrInternal
}

// GetMany is one Get for each key, in the order of keys.
func (c *Cache) GetMany(ctx context.Context, group string, keys []string) []Result {
	return make([]Result, len(keys))
}

// Put carries out a client's put.
func (c *Cache) Put(ctx context.Context, req *Request) (Answer, error) { return Answer{}, ErrInternal }

// Delete carries out a client's delete.
func (c *Cache) Delete(ctx context.Context, key Key) error { return ErrInternal }

// Purge drops a group on every node.
func (c *Cache) Purge(ctx context.Context, group string) error { return ErrInternal }

// UnconfirmedError names the nodes that did not confirm a purge in time. It
// is an ErrWriteUnconfirmed.
type UnconfirmedError struct{ Nodes []string }

func (e *UnconfirmedError) Error() string { return ErrWriteUnconfirmed.Error() }

// Unwrap makes errors.Is(e, ErrWriteUnconfirmed) hold.
func (e *UnconfirmedError) Unwrap() error { return ErrWriteUnconfirmed }

// Serve carries out another node's call.
func (c *Cache) Serve(ctx context.Context, req *Request) (Answer, error) {
	return Answer{}, ErrInternal
}

// Settle counts a served get.
func (c *Cache) Settle(kind Kind, delivered bool) {}

// DropGroup drops all entries of a group on this node.
func (c *Cache) DropGroup(group string) {}

// Copy describes this node's copy of a key.
func (c *Cache) Copy(key Key) (Copy, bool) { return Copy{}, false }

// CheckKey says why a key cannot be asked for, or nil.
func (c *Cache) CheckKey(key Key) error { return nil }

// Stats returns the books.
func (c *Cache) Stats() Stats { return Stats{Node: c.node} }

// Close ends all loads and waits for them.
func (c *Cache) Close() error { return nil }
