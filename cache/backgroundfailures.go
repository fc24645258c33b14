package cache

import (
	"errors"
	"sync"
	"time"
)

// calm is how long no load may have failed before the operator is told that loads
// work again. An origin that fails now and then would fill the log.
const calm = 10 * time.Second

// backgroundFailures tell the operator, once for each group and trouble, that loads
// fail whose errors no request returns.
type backgroundFailures struct {
	mu      sync.Mutex // guards all below
	failing bool
	last    time.Time // the newest failure
}

// tellBackground takes the end of a load. Told says that a request got its error.
func (c *Cache) tellBackground(g *group, err error, told bool) {
	if err != nil && (told || c.ctx.Err() != nil || errors.Is(err, ErrOverloaded)) {
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
