package cache

import (
	"context"
	"strings"
)

// UnconfirmedError names the nodes that did not confirm a purge in time. It
// is an ErrWriteUnconfirmed: the purge may still reach them.
type UnconfirmedError struct{ Nodes []string }

func (e *UnconfirmedError) Error() string { return e.Unwrap().Error() }

// Unwrap gives the *Error whose code and detail a client sees.
func (e *UnconfirmedError) Unwrap() error {
	return ErrWriteUnconfirmed.With("not confirmed by " + strings.Join(e.Nodes, ", "))
}

// Purge drops a group on every node. Without an error it is gone everywhere;
// an *UnconfirmedError names the nodes that may have it still.
func (c *Cache) Purge(ctx context.Context, group string) error {
	switch {
	case c.groups[group] == nil:
		return ErrUnknownGroup
	case c.ctx.Err() != nil:
		return ErrDraining
	}
	c.DropGroup(group)
	if c.purger == nil {
		return nil
	}
	if nodes := c.purger.Purge(ctx, group); len(nodes) > 0 {
		return &UnconfirmedError{Nodes: nodes}
	}
	return nil
}

// DropGroup drops all entries of a group on this node. A load that was begun
// before it returns is not stored.
func (c *Cache) DropGroup(group string) {
	c.fenceGroup(group)
	c.store.dropGroup(group)
	c.fenceGroup(group)
}
