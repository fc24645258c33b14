//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sys/unix"

	"kring/balance"
)

// poolsArea is the area of picks: in this process, by one caller for each core,
// and through a redis-server, beside the least possible shared pick, one
// EVALSHA of a script of two commands.
const poolsArea = "pools"

const (
	evalsha = "evalsha"
	// localGoal is the longest local pick, in microseconds.
	localGoal = 0.150
	// sharedGoal is the longest shared pick, relative to a bare EVALSHA.
	sharedGoal = 1.3
	// localHeld is how many picks are made between two readings of the clock,
	// and then ended.
	localHeld = 16
	// sharedCallers is how many callers per core use Redis at once.
	sharedCallers = 8
	// turns is how many parts a round has, so that other work of the machine
	// hits all lanes alike.
	turns = 5
)

const (
	boundLocal  = "One lock for the policy's state, which goes from core to core, and the walk over ten endpoints under it."
	boundShared = "The script's own commands beside the bare script's two: for a lease it sweeps, counts, and notes endpoint and end."
)

const bareScript = `local m = redis.call('ZRANGE', KEYS[1], 0, 0)[1]
redis.call('ZINCRBY', KEYS[1], 1, m)
return m`

// pickLane is a row of the area.
type pickLane struct {
	work, contestant string
	callers          int
	servers          []*process // whose CPU time counts; empty: this process's
	// batch fills held with picks, ends them all, and returns the time of the
	// measured part.
	batch func(ctx context.Context, held []balance.Pick) (time.Duration, error)
	held  int
}

// poolOf is a pool of ten endpoints. Their weights differ in a local pool and
// are equal in a shared one, because the bare script knows no weights.
func poolOf(policy, state string) balance.Config {
	cfg := balance.DefaultConfig()
	cfg.Name, cfg.Policy, cfg.State = policy, policy, state
	for i, weight := range []int{5, 1, 1, 2, 3, 1, 1, 4, 2, 1} {
		if state == "redis" {
			weight = 1
		}
		name := string(rune('a' + i))
		cfg.Endpoints = append(cfg.Endpoints, balance.EndpointConfig{Name: name, URL: "http://" + name + ".test", Weight: weight})
	}
	return cfg
}

// picks is the batch of a pool. whole includes the ends of the picks in the
// measured part.
func picks(p *balance.Pool, whole bool) func(context.Context, []balance.Pick) (time.Duration, error) {
	return func(ctx context.Context, held []balance.Pick) (took time.Duration, err error) {
		begun := time.Now()
		for i := range held {
			if held[i], err = p.Pick(ctx); err != nil {
				return 0, err
			}
		}
		took = time.Since(begun)
		for i := range held {
			held[i].Done(balance.Success)
		}
		if whole {
			took = time.Since(begun)
		}
		return took, nil
	}
}

// pools measures the area.
func (b *bench) pools(ctx context.Context) error {
	var lanes []pickLane
	for _, policy := range []string{"round_robin", "weighted", "smooth_weighted", "least_assigned", "least_in_flight"} {
		p, err := balance.New(poolOf(policy, "local"), nil)
		if err != nil {
			return err
		}
		defer p.Close()
		lanes = append(lanes, pickLane{work: "local pick, " + policy, contestant: kring, callers: runtime.NumCPU(), batch: picks(p, false), held: localHeld})
	}
	allocations, err := b.pickInTurn(ctx, lanes)
	if err != nil {
		return err
	}
	for i, l := range lanes {
		took := Goal{Work: l.work, Metric: "p50_us", Peer: "the 150 ns that are allowed", Want: 1, Bound: boundLocal}
		took.judge(b.report.row(l.work, kring).P50, localGoal)
		none := Goal{Work: l.work, Metric: "allocations", Peer: "none", Bound: "Something on the way to a pick allocates."}
		none.judge(allocations[i], 1)
		b.report.Goals = append(b.report.Goals, took, none)
	}
	return b.sharedPools(ctx)
}

// sharedPools is the part of the area that uses a redis-server.
func (b *bench) sharedPools(ctx context.Context) (err error) {
	s := newStage(filepath.Join(b.dir, poolsArea), -1)
	defer func() { err = errors.Join(err, s.close()) }()
	server, addr, err := launchRedis(ctx, s)
	if err != nil {
		return err
	}
	bare := redis.NewClient(&redis.Options{
		Addr: addr, Protocol: 2, DisableIdentity: true, MaxRetries: -1, PoolSize: 32, ContextTimeoutEnabled: true,
	})
	defer func() { err = errors.Join(err, bare.Close()) }()
	script := redis.NewScript(bareScript)
	if err := script.Load(ctx, bare).Err(); err != nil {
		return err
	}
	for _, e := range poolOf(evalsha, "redis").Endpoints {
		if err := bare.ZAdd(ctx, evalsha, redis.Z{Member: e.Name}).Err(); err != nil {
			return err
		}
	}
	cfg := balance.DefaultRedisConfig()
	cfg.Address, cfg.Timeout = addr, 5*time.Second
	shared, err := balance.DialRedis(cfg, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shared.Close()) }()

	callers := sharedCallers * runtime.NumCPU()
	lanes := []pickLane{{
		work: "shared pick", contestant: evalsha, callers: callers, servers: []*process{server}, held: 1,
		batch: func(ctx context.Context, _ []balance.Pick) (time.Duration, error) {
			begun := time.Now()
			err := bare.EvalSha(ctx, script.Hash(), []string{evalsha}).Err()
			return time.Since(begun), err
		},
	}}
	var pools []*balance.Pool
	for _, w := range []struct {
		name, policy string
		whole        bool
	}{
		{"shared pick, least_assigned", "least_assigned", false},
		{"shared pick, least_in_flight", "least_in_flight", false},
		{"shared pick and its end, least_in_flight", "least_in_flight", true},
	} {
		p, err := balance.Open(poolOf(w.policy, "redis"), balance.Options{Redis: shared})
		if err != nil {
			return err
		}
		defer p.Close()
		pools = append(pools, p)
		lanes = append(lanes, pickLane{
			work: w.name, contestant: kring, callers: callers, servers: []*process{server}, held: 1, batch: picks(p, w.whole),
		})
	}
	if _, err := b.pickInTurn(ctx, lanes); err != nil {
		return err
	}
	for _, p := range pools {
		if n := p.Status().LocalPicks; n > 0 {
			return fmt.Errorf("pool %s: %d picks were not shared: the machine is too busy", p.Name(), n)
		}
	}
	b.judgeShared(lanes)
	return nil
}

// judgeShared compares each row with the bare calls. The two calls of a lease
// are shown, but are no goal.
func (b *bench) judgeShared(lanes []pickLane) {
	results := b.report.Results
	first := len(results) - len(lanes)
	bare, rows := results[first], append([]Row{}, results[first+1:]...)
	b.report.Results = results[:first]
	for i, row := range rows {
		bare.Work = row.Work
		b.report.Results = append(b.report.Results, row, bare)
		if i == len(rows)-1 {
			continue
		}
		g := Goal{Work: row.Work, Metric: "p50_us", Peer: evalsha, Want: sharedGoal, Bound: boundShared}
		g.judge(row.P50, bare.P50)
		b.report.Goals = append(b.report.Goals, g)
	}
}

func launchRedis(ctx context.Context, s *stage) (p *process, addr string, err error) {
	addrs, err := freePorts(1)
	if err != nil {
		return nil, "", err
	}
	_, port, err := net.SplitHostPort(addrs[0])
	if err != nil {
		return nil, "", err
	}
	dir, err := s.folder("redis")
	if err != nil {
		return nil, "", err
	}
	p, err = s.start(dir, "redis", "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", dir)
	if err != nil {
		return nil, "", err
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addrs[0])
		if err == nil {
			return p, addrs[0], conn.Close()
		}
		if ended := p.ended(); ended != nil || ctx.Err() != nil {
			return nil, "", errors.Join(err, ended)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// pickInTurn measures the lanes round by round, each time beginning at another
// one. It adds their medians to the report, and returns each lane's allocations
// per pick.
func (b *bench) pickInTurn(ctx context.Context, lanes []pickLane) (allocations []float64, err error) {
	samples := make([][]sample, len(lanes))
	allocated := make([][]float64, len(lanes))
	for turn := range turns * b.rounds {
		for i := range lanes {
			i = (i + turn) % len(lanes)
			l := lanes[i]
			x, n, err := l.measure(ctx, b.duration/turns)
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", l.contestant, l.work, err)
			}
			samples[i], allocated[i] = append(samples[i], x), append(allocated[i], n)
			if turn%turns == 0 {
				b.say("pools · round %d of %d · %s · %s: p50 %.3f µs, %.3f µs of CPU", turn/turns+1, b.rounds, l.contestant, l.work, x.p50, x.cpu)
			}
		}
	}
	for i, l := range lanes {
		row := summary(l.work, l.contestant, samples[i])
		row.Rounds = b.rounds
		b.report.Results = append(b.report.Results, row)
		allocations = append(allocations, medianOf(allocated[i]))
	}
	return allocations, nil
}

// measure measures a lane once.
func (l *pickLane) measure(ctx context.Context, d time.Duration) (s sample, allocations float64, err error) {
	if _, err := l.run(ctx, d/5); err != nil { // warm-up
		return s, 0, err
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, err := l.cpuTime()
	if err != nil {
		return s, 0, err
	}
	begun := time.Now()
	took, err := l.run(ctx, d)
	if err != nil {
		return s, 0, err
	}
	over := time.Since(begun)
	used, err := l.cpuTime()
	if err != nil {
		return s, 0, err
	}
	runtime.ReadMemStats(&after)
	n := float64(took.TotalCount()) * float64(l.held)
	each := float64(l.held) * 1000 // held picks in a batch, 1000 nanoseconds in a microsecond
	return sample{
		rps: n / over.Seconds(), cpu: micros(used-cpu) / n,
		p50: float64(took.ValueAtQuantile(50)) / each, p99: float64(took.ValueAtQuantile(99)) / each,
	}, float64(after.Mallocs-before.Mallocs) / n, nil
}

// run lets all callers make batches for a time, and returns the times of the
// batches in nanoseconds.
func (l *pickLane) run(ctx context.Context, d time.Duration) (*hdrhistogram.Histogram, error) {
	all := make([]*hdrhistogram.Histogram, l.callers)
	errs := make([]error, l.callers)
	end := time.Now().Add(d)
	var wg sync.WaitGroup
	for i := range all {
		all[i] = hdrhistogram.New(1, int64(time.Minute), 3)
		wg.Go(func() {
			held := make([]balance.Pick, l.held)
			for {
				took, err := l.batch(ctx, held)
				if err == nil {
					err = all[i].RecordValue(int64(took))
				}
				if errs[i] = err; err != nil || !time.Now().Before(end) {
					return
				}
			}
		})
	}
	wg.Wait()
	for _, h := range all[1:] {
		all[0].Merge(h)
	}
	return all[0], errors.Join(errs...)
}

func (l *pickLane) cpuTime() (time.Duration, error) {
	if len(l.servers) > 0 {
		return cpuTime(l.servers)
	}
	var ts unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts)
	return time.Duration(ts.Nano()), err
}
