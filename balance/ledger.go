package balance

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// idle is how long an endpoint stays in the shared set that no process has.
const idle = time.Minute

// count is what all processes have counted of an endpoint.
type count struct{ assigned, inFlight int64 }

// roster is what a process knows of a pool's endpoints.
type roster struct {
	names []string // eligible
	steps []int64  // of the names
	gone  []string // not eligible: by configuration or the operator's word
	raise []string // of the names: those that come back
	out   []string // of the names: those that are not picked now
}

// ledger is the state of one policy in Redis.
type ledger interface {
	// choose assigns to one endpoint that is not out, and names it; "" if there
	// is none. Token is the lease's name, where there are leases.
	choose(ctx context.Context, token string, out []string, weighted bool) (name string, err error)
	// sync brings the set of members up to date.
	sync(ctx context.Context, r roster) (map[string]count, error)
}

// assignedLedger is that of least_assigned: one sorted set.
type assignedLedger struct {
	redis      *Redis
	set, steps string
	keys       []string // as in leastassigned_sync.lua
	keep       time.Duration
}

func newAssignedLedger(r *Redis, pool string, keep time.Duration) *assignedLedger {
	set, steps := r.key(pool, "assigned"), r.key(pool, "assigned:steps")
	return &assignedLedger{
		redis: r, keep: keep, set: set, steps: steps,
		keys: []string{set, steps, r.key(pool, "assigned:kept"), r.key(pool, "seen"), r.key(pool, "assigned:more")},
	}
}

func (l *assignedLedger) choose(ctx context.Context, _ string, out []string, weighted bool) (string, error) {
	keys := []string{l.set, l.steps}
	if !weighted {
		keys = keys[:1]
	}
	args := make([]any, len(out))
	for i, name := range out {
		args[i] = name
	}
	v, err := l.redis.run(ctx, assignScript, keys, args...)
	name, _ := v.(string) // nil: nobody
	return name, err
}

func (l *assignedLedger) sync(ctx context.Context, r roster) (map[string]count, error) {
	v, err := l.redis.run(ctx, assignedSyncScript, l.keys, r.want(l.keep).encode())
	if err != nil {
		return nil, err
	}
	counts := map[string]count{}
	err = eachRow(v, 2, func(row []string) error {
		assigned, err := strconv.ParseInt(row[1], 10, 64)
		counts[row[0]] = count{assigned: assigned}
		return err
	})
	return counts, err
}

// inFlightLedger is that of least_in_flight: leases.
type inFlightLedger struct {
	redis *Redis
	keys  []string // as in lease.lua
	seen  string
	lease time.Duration
	keep  time.Duration
}

func newInFlightLedger(r *Redis, pool string, lease, keep time.Duration) *inFlightLedger {
	return &inFlightLedger{
		redis: r, lease: lease, keep: keep, seen: r.key(pool, "seen"),
		keys: []string{r.key(pool, "flying"), r.key(pool, "flying:state"), r.key(pool, "leases"), r.key(pool, "leases:endpoints")},
	}
}

func (l *inFlightLedger) choose(ctx context.Context, token string, out []string, _ bool) (string, error) {
	args := make([]any, 0, 2+len(out))
	args = append(args, token, l.lease.Milliseconds())
	for _, name := range out {
		args = append(args, name)
	}
	v, err := l.redis.run(ctx, acquireScript, l.keys, args...)
	name, _ := v.(string) // nil: nobody
	return name, err
}

// release ends a lease and names its endpoint; "" if there was none.
func (l *inFlightLedger) release(ctx context.Context, token string) (string, error) {
	v, err := l.redis.run(ctx, releaseScript, l.keys, token)
	name, _ := v.(string) // nil: no such lease
	return name, err
}

// renew says which of the leases had not lapsed.
func (l *inFlightLedger) renew(ctx context.Context, tokens []string) ([]bool, error) {
	args := []any{l.lease.Milliseconds()}
	for _, token := range tokens {
		args = append(args, token)
	}
	v, err := l.redis.run(ctx, renewScript, l.keys, args...)
	if err != nil {
		return nil, err
	}
	flags, _ := v.([]any)
	if len(flags) != len(tokens) {
		return nil, fmt.Errorf("renewal of %d leases answered with %d values", len(tokens), len(flags))
	}
	alive := make([]bool, len(tokens))
	for i, flag := range flags {
		alive[i] = flag == int64(1)
	}
	return alive, nil
}

func (l *inFlightLedger) sync(ctx context.Context, r roster) (map[string]count, error) {
	v, err := l.redis.run(ctx, inFlightSyncScript, append(l.keys[:4:4], l.seen), r.want(l.keep).encode())
	if err != nil {
		return nil, err
	}
	counts := map[string]count{}
	err = eachRow(v, 3, func(row []string) error {
		held, err := strconv.ParseInt(row[1], 10, 64)
		if err != nil {
			return err
		}
		assigned, err := strconv.ParseInt(row[2], 10, 64)
		counts[row[0]] = count{assigned: assigned, inFlight: held}
		return err
	})
	return counts, err
}

// want is the argument of the scripts that keep the set of members.
type want struct {
	Names []string `json:"names"`
	Steps []int64  `json:"steps"`
	Gone  []string `json:"gone"`
	Raise []string `json:"raise"`
	Out   []string `json:"out"`
	Keep  int64    `json:"keep"`
	Idle  int64    `json:"idle"`
}

func (r roster) want(keep time.Duration) want {
	return want{
		Names: listed(r.names), Steps: append([]int64{}, r.steps...), Gone: listed(r.gone),
		Raise: listed(r.raise), Out: listed(r.out), Keep: keep.Milliseconds(), Idle: idle.Milliseconds(),
	}
}

// listed is never nil: Lua has no list for JSON's null.
func listed(names []string) []string { return append([]string{}, names...) }

func (w want) encode() string {
	text, err := json.Marshal(w)
	if err != nil { // strings and numbers
		panic(err)
	}
	return string(text)
}

// eachRow takes a flat answer of a script apart.
func eachRow(v any, width int, f func(row []string) error) error {
	flat, _ := v.([]any)
	row := make([]string, 0, width)
	for _, one := range flat {
		text, ok := one.(string)
		if !ok {
			return fmt.Errorf("a script answered %T among its rows", one)
		}
		if row = append(row, text); len(row) == width {
			if err := f(row); err != nil {
				return fmt.Errorf("a script's row %q: %w", row, err)
			}
			row = row[:0]
		}
	}
	return nil
}
