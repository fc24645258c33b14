package balance

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// idle is how long an endpoint that no process has stays in the shared set.
const idle = time.Minute

// count holds the counts of an endpoint over all processes.
type count struct{ assigned, inFlight int64 }

// memberList is a pool's endpoints as one process sees them.
type memberList struct {
	names      []string // eligible
	steps      []int64  // of the names
	ineligible []string // by configuration or by the operator
	catchUp    []string // names of members that come back
	absent     []string // names of members that are not picked now
}

// ledger is the shared state of one policy, in Redis.
type ledger interface {
	// choose assigns to one endpoint that is not excluded, and returns its
	// name; "" if there is none. token is the name of the new lease, for a
	// ledger with leases.
	choose(ctx context.Context, token string, excluded []string, weighted bool) (name string, err error)
	// sync brings the shared set of members up to date, and returns its counts.
	sync(ctx context.Context, r memberList) (map[string]count, error)
}

// assignedLedger is the ledger of least_assigned: one sorted set.
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

func (l *assignedLedger) choose(ctx context.Context, _ string, excluded []string, weighted bool) (string, error) {
	keys := []string{l.set, l.steps}
	if !weighted {
		keys = keys[:1]
	}
	args := make([]any, len(excluded))
	for i, name := range excluded {
		args[i] = name
	}
	v, err := l.redis.run(ctx, assignScript, keys, args...)
	name, _ := v.(string) // nil: no endpoint
	return name, err
}

func (l *assignedLedger) sync(ctx context.Context, r memberList) (map[string]count, error) {
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

// inFlightLedger is the ledger of least_in_flight: leases.
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

func (l *inFlightLedger) choose(ctx context.Context, token string, excluded []string, _ bool) (string, error) {
	args := make([]any, 0, 2+len(excluded))
	args = append(args, token, l.lease.Milliseconds())
	for _, name := range excluded {
		args = append(args, name)
	}
	v, err := l.redis.run(ctx, acquireScript, l.keys, args...)
	name, _ := v.(string) // nil: no endpoint
	return name, err
}

// release ends a lease and returns its endpoint; "" if there was no such lease.
func (l *inFlightLedger) release(ctx context.Context, token string) (string, error) {
	v, err := l.redis.run(ctx, releaseScript, l.keys, token)
	name, _ := v.(string) // nil: no such lease
	return name, err
}

// renew reports for each lease whether it had not lapsed.
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

func (l *inFlightLedger) sync(ctx context.Context, r memberList) (map[string]count, error) {
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

// want is the argument of the two sync scripts.
type want struct {
	Names      []string `json:"names"`
	Steps      []int64  `json:"steps"`
	Ineligible []string `json:"ineligible"`
	CatchUp    []string `json:"catch_up"`
	Absent     []string `json:"absent"`
	Keep       int64    `json:"keep"`
	Idle       int64    `json:"idle"`
}

func (r memberList) want(keep time.Duration) want {
	return want{
		Names: listed(r.names), Steps: append([]int64{}, r.steps...), Ineligible: listed(r.ineligible),
		CatchUp: listed(r.catchUp), Absent: listed(r.absent), Keep: keep.Milliseconds(), Idle: idle.Milliseconds(),
	}
}

// listed is never nil: Lua would read JSON's null as no list at all.
func listed(names []string) []string { return append([]string{}, names...) }

func (w want) encode() string {
	text, err := json.Marshal(w)
	if err != nil { // strings and numbers cannot fail
		panic(err)
	}
	return string(text)
}

// eachRow splits a script's flat answer into rows.
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
