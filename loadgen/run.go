package loadgen

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"kring/client"
)

// grace is how long an interrupted run waits for requests in flight.
const grace = 2 * time.Second

// auditTime bounds how long an interrupted run reads books for its report.
const auditTime = 10 * time.Second

// Run loads the cluster until the configured end or the end of ctx. The end of
// ctx is no failure: Run reports what was measured until then. The error is nil
// unless the run could not take place. Result.Err says whether all went well.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	results, err := runTogether(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return results[0], nil
}

// runTogether runs several loads of one cluster at once. They share the books,
// which are read with the first configuration.
func runTogether(ctx context.Context, cfgs ...Config) (_ []*Result, err error) {
	runs := make([]*run, len(cfgs))
	for i := range cfgs {
		if runs[i], err = newRun(cfgs[i]); err != nil {
			return nil, err
		}
		defer runs[i].client.Close()
	}
	first := runs[0]
	plain := &http.Client{Transport: &http.Transport{}}
	defer plain.CloseIdleConnections()
	audit := &auditor{client: first.client, nodes: first.cfg.Nodes, origin: demoOrigin{url: first.cfg.Origin, http: plain}}
	before, err := audit.before(ctx)
	if err != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("read the books before the run: %w", err)
	}
	early := err != nil // interrupted before the first request

	errs := make([]error, len(runs))
	var loads sync.WaitGroup
	for i, r := range runs {
		loads.Go(func() { errs[i] = r.load(ctx, r.client) })
	}
	loads.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	// An interrupted run's report has its books, too, but within a time limit.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditTime)
	defer cancel()
	var books Books
	var seen int64
	if early {
		err = errors.New("the run was interrupted before it began")
	} else {
		books, seen, err = audit.after(ctx, before)
	}
	if err != nil {
		books = Books{Wrong: []string{}, NotChecked: []string{"all: " + err.Error()}, Silent: []string{}, Balanced: true}
		books.judge()
	}
	var results []*Result
	for _, r := range runs {
		res := r.result(r.client.Counters())
		res.Books = books
		if first.cfg.Origin != "" && err == nil && seen >= 0 {
			res.OriginLoads = &seen
		}
		res.judge()
		results = append(results, res)
	}
	return results, nil
}

// run is the part of a run that sends requests.
type run struct {
	cfg      *Config
	spec     keySpec
	once     bool // read the file of keys once
	client   *client.Client
	recorder *recorder
	pace     *pace
	begun    time.Time
	took     time.Duration
	timeline []Point
	stopped  bool         // its context has ended
	sending  atomic.Int64 // nanoseconds until the stop; 0: not stopped
}

// newRun checks the configuration. The caller must close the run's client.
func newRun(cfg Config) (*run, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	spec, err := parseKeys(cfg.Keys)
	if err != nil {
		return nil, err
	}
	r := &run{cfg: &cfg, spec: spec, recorder: newRecorder(cfg.Concurrency)}
	endless := cfg.Duration == 0 && cfg.Count == 0
	r.once = spec.file != "" && endless
	if endless && !r.once && cfg.pick == nil {
		cfg.Duration = defaultDuration
	}
	if cfg.Seed == 0 {
		cfg.Seed = rand.Uint64N(1 << 53) // every JSON reader can hold it exactly
	}
	r.client, err = cfg.client()
	return r, err
}

// load sends the requests and waits for the last answer.
func (r *run) load(ctx context.Context, target cluster) (err error) {
	var file *trace
	if r.spec.file != "" {
		if file, err = openTrace(ctx, r.spec.file, !r.once); err != nil {
			return err
		}
		defer func() {
			if e := file.close(); err == nil {
				err = e
			}
		}()
	}
	r.pace = newPace(ctx, r.cfg)
	r.begun = r.pace.begun
	defer r.pace.stop()
	// Requests may go on after the end of the run, and for grace after an
	// interruption.
	work, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	defer context.AfterFunc(ctx, func() {
		r.sending.Store(int64(time.Since(r.begun)))
		time.AfterFunc(grace, cut)
	})()

	var book *ledger
	if r.cfg.Verify && r.cfg.Write+r.cfg.Delete > 0 {
		book = newLedger(strconv.FormatUint(rand.Uint64(), 36))
	}
	errs := make([]error, r.cfg.Concurrency)
	var workers sync.WaitGroup
	for i := range r.cfg.Concurrency {
		source := rand.New(rand.NewPCG(r.cfg.Seed, uint64(i)))
		w := &worker{
			id: i, cfg: r.cfg, cluster: target, pace: r.pace, rand: source, ledger: book,
			record: r.recorder.record,
		}
		switch {
		case r.cfg.pick != nil:
			w.keys = r.cfg.pick(source)
		case file != nil:
			w.keys = file
		default:
			w.keys = newRanked(r.spec, source)
		}
		workers.Go(func() {
			if errs[i] = w.run(work); errs[i] != nil {
				r.pace.stop()
			}
		})
	}
	ended := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() { r.watch(ended) })
	workers.Wait()
	r.took = time.Since(r.pace.begun)
	close(ended)
	watch.Wait()
	r.stopped = ctx.Err() != nil
	for _, err := range errs {
		if err != nil {
			return err // the first error ended the run; the others follow from it
		}
	}
	return nil
}

// watch records the timeline and shows the progress until ended is closed.
func (r *run) watch(ended <-chan struct{}) {
	show := newProgress(r.cfg)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	line := timeline{begun: r.pace.begun}
	for {
		select {
		case <-tick.C:
			h, failed := r.recorder.interval()
			show.point(line.add(time.Now(), h, failed))
		case <-ended:
			h, failed := r.recorder.interval()
			line.finish(r.pace.begun.Add(r.took), h, failed)
			r.timeline = line.points
			show.end()
			return
		}
	}
}
