package cluster

import "kring/cache"

// RouteOf is the route of a request for a key.
func (c *Cluster) RouteOf(key string) Route { return c.route(key, nil) }

// Cache is the cache of this node.
func (c *Cluster) Cache() *cache.Cache { return c.cache }

// ManyBytes and Window are the limits of GetMany.
const (
	ManyBytes = manyBytes
	Window    = window
)
