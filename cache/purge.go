package cache

// DropGroup drops all entries of a group on this node. A load that began before it
// returns is not stored. Another node's configuration may have a group that this node
// does not have: then there is nothing to drop.
func (c *Cache) DropGroup(group string) {
	c.markGroup(group)
	c.store.dropGroup(group)
	c.markGroup(group)
}

// DropTags drops the entries of a group that carry one of the tags, on this node. It
// treats all loads as DropGroup does: the tags of an answer are not known before it
// is there.
func (c *Cache) DropTags(group string, tags []string) {
	c.markGroup(group)
	c.store.dropTags(group, tags)
	c.markGroup(group)
}

func (c *Cache) markGroup(group string) {
	if c.groups[group] == nil {
		return
	}
	for i := range c.stripes {
		c.stripes[i].markGroup(group)
	}
}
