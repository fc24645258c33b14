package balance

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// removalKept is how long a removal stays published, for processes that have
// missed it. The removal of a configured endpoint stays for good: else the next
// process that starts would bring the endpoint back.
const removalKept = time.Hour

// maxPublished bounds the published changes. Beyond it the oldest removal is
// forgotten.
const maxPublished = 2 * MaxEndpoints

// published is an operator's change of an endpoint, sent to all processes.
type published struct {
	EndpointChange
	Removed bool `json:"removed,omitempty"`
}

// publish sends a change to all processes.
func (h *shared) publish(ctx context.Context, name string, c published) error {
	text, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encode the change of an endpoint: %w", err)
	}
	forget := time.Duration(0)
	if c.Removed && !slices.ContainsFunc(h.pool.cfg.Endpoints, func(e EndpointConfig) bool { return e.Name == name }) {
		forget = removalKept
	}
	var done any
	err = h.try(ctx, func(ctx context.Context) (err error) {
		done, err = h.redis.run(ctx, publishScript, []string{h.changes()}, name, text, forget.Milliseconds(), maxPublished)
		return err
	})
	if err == nil && done == int64(0) {
		return ErrTooManyEndpoints
	}
	return err
}

func (h *shared) changes() string { return h.redis.key(h.pool.cfg.Name, "endpoints") }

// follow applies the changes that were published since the last call.
func (h *shared) follow(ctx context.Context) error {
	h.changing.Lock()
	defer h.changing.Unlock()
	changes := redis.NewMapStringStringCmd(ctx, "hgetall", h.changes())
	if err := h.redis.process(ctx, changes); err != nil {
		return err
	}
	all := changes.Val()
	maps.DeleteFunc(h.followed, func(name, _ string) bool { _, ok := all[name]; return !ok })
	changed := map[string]published{}
	bad := map[string]error{}
	for name, text := range all {
		if h.followed[name] == text {
			continue
		}
		h.followed[name] = text
		var c published
		err := json.Unmarshal([]byte(text), &c)
		if err == nil && !c.Removed {
			err = h.pool.checkChange(name, c.EndpointChange)
		}
		if err != nil {
			bad[name] = err
			continue
		}
		changed[name] = c
	}
	if len(changed) > 0 {
		h.pool.follow(changed, bad)
	}
	for name, err := range bad { // once for each change
		h.pool.log.Warn("published endpoint cannot be used", "pool", h.pool.cfg.Name, "endpoint", name, "error", err)
	}
	return nil
}

// follow applies changes in this process. Removals are first, because they make
// room. It adds the changes that fail to bad.
func (p *Pool) follow(changes map[string]published, bad map[string]error) {
	e := edit{now: time.Now()}
	p.mu.Lock()
	for name, c := range changes {
		if c.Removed {
			p.removeLocked(&e, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(changes)) { // sorted: all processes then add in the same order
		c := changes[name]
		if c.Removed {
			continue
		}
		if _, err := p.applyLocked(&e, name, c.EndpointChange); err != nil {
			bad[name] = err
		}
	}
	p.finishLocked(&e)
}
