package balance

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// removalKept is how long the removal of an endpoint is told to processes that
// have missed it. That of a configured one is for good, or it would be back
// with the next process that starts.
const removalKept = time.Hour

// published is an operator's change of an endpoint, for all processes.
type published struct {
	EndpointChange
	Removed bool `json:"removed,omitempty"`
}

// publish tells all processes of a change.
func (h *shared) publish(ctx context.Context, name string, c published) error {
	text, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encode the change of an endpoint: %w", err)
	}
	forget := time.Duration(0)
	if c.Removed && !slices.ContainsFunc(h.pool.cfg.Endpoints, func(e EndpointConfig) bool { return e.Name == name }) {
		forget = removalKept
	}
	return h.try(ctx, func(ctx context.Context) error {
		_, err := h.redis.run(ctx, publishScript, []string{h.changes()}, name, text, forget.Milliseconds())
		return err
	})
}

func (h *shared) changes() string { return h.redis.key(h.pool.cfg.Name, "endpoints") }

// follow makes the changes that were published since it was last called.
func (h *shared) follow(ctx context.Context) error {
	changes := redis.NewMapStringStringCmd(ctx, "hgetall", h.changes())
	if err := h.redis.process(ctx, changes); err != nil {
		return err
	}
	all := changes.Val()
	maps.DeleteFunc(h.followed, func(name, _ string) bool { _, ok := all[name]; return !ok })
	for name, text := range all {
		if h.followed[name] == text {
			continue
		}
		h.followed[name] = text
		var c published
		err := json.Unmarshal([]byte(text), &c)
		switch {
		case err != nil:
		case c.Removed:
			h.pool.Remove(name)
		default:
			if err = h.pool.checkChange(name, c.EndpointChange); err == nil {
				_, err = h.pool.apply(name, c.EndpointChange)
			}
		}
		if err != nil && h.pool.log.Enabled(ctx, slog.LevelDebug) {
			h.pool.log.Debug("published endpoint cannot be used", "pool", h.pool.cfg.Name, "endpoint", name, "error", err)
		}
	}
	return nil
}
