package cache

import (
	"log/slog"
	"sync"
	"time"
)

// calm is how long no load may have failed before the operator is told that loads
// work again. An origin that fails now and then would fill the log.
const calm = 10 * time.Second

// backgroundFailures tells the operator that loads of a group fail whose errors no request
// returns. It logs one line when that begins, and one when it ends.
type backgroundFailures struct {
	mu      sync.Mutex // guards all below
	failing bool
	last    time.Time // the newest failure
}

// landed notes the end of a load. Its error is nil, or one that no request got.
func (b *backgroundFailures) landed(log *slog.Logger, group string, err error) {
	now := time.Now()
	b.mu.Lock()
	was := b.failing
	switch {
	case err != nil:
		b.failing, b.last = true, now
	case was && now.Sub(b.last) >= calm:
		b.failing = false
	}
	is := b.failing
	b.mu.Unlock()
	switch {
	case is && !was:
		log.Warn("background loads fail, stale values are served while they may be", "group", group, "error", err)
	case was && !is:
		log.Info("background loads work again", "group", group)
	}
}
