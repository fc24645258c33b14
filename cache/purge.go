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
	return c.purgeElsewhere(ctx, group, nil)
}

// PurgeTags drops those entries of a group, on every node, whose origin gave
// them one of the tags. Errors are Purge's; without a tag it is ErrInternal,
// lest a slip drop everything.
func (c *Cache) PurgeTags(ctx context.Context, group string, tags []string) error {
	switch {
	case c.groups[group] == nil:
		return ErrUnknownGroup
	case len(tags) == 0:
		return ErrInternal.With("a purge by tag without a tag")
	case c.ctx.Err() != nil:
		return ErrDraining
	}
	c.DropTags(group, tags)
	return c.purgeElsewhere(ctx, group, tags)
}

func (c *Cache) purgeElsewhere(ctx context.Context, group string, tags []string) error {
	if c.purger == nil {
		return nil
	}
	if nodes := c.purger.Purge(ctx, group, tags); len(nodes) > 0 {
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

// DropTags drops the entries of a group that carry one of the tags, on this
// node. Loads are treated as by DropGroup, all of them: which tags an answer
// has is not known before it is there.
func (c *Cache) DropTags(group string, tags []string) {
	c.fenceGroup(group)
	c.store.dropTags(group, tags)
	c.fenceGroup(group)
}
