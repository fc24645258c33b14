package cache

import (
	"errors"
	"sync"
	"time"
)

// calm is how long no load may have failed for the operator to be told that
// they work again. An origin that fails now and then would fill the log.
const calm = 10 * time.Second

// unheard tells the operator, once for each group and trouble, that loads fail
// whose errors no request returns.
type unheard struct {
	mu      sync.Mutex // guards all below
	failing bool
	last    time.Time // the newest failure
}

// unheard takes the end of a load. Heard says that somebody got its error.
func (c *Cache) unheard(g *group, err error, heard bool) {
	if err != nil && (heard || c.ctx.Err() != nil || errors.Is(err, ErrOverloaded)) {
		return // overloaded is this node's own limit: the next get tries again
	}
	now := time.Now()
	u := &g.failing
	u.mu.Lock()
	was := u.failing
	switch {
	case err != nil:
		u.failing, u.last = true, now
	case was && now.Sub(u.last) >= calm:
		u.failing = false
	}
	is := u.failing
	u.mu.Unlock()
	switch {
	case is && !was:
		c.log.Warn("background loads fail, stale values are served while they may be", "group", g.Name, "error", err)
	case was && !is:
		c.log.Info("background loads work again", "group", g.Name)
	}
}
