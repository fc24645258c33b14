package loadgen

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// maxLatency is the longest latency that the histograms distinguish.
const maxLatency = 10 * time.Minute

// maxSamples bounds the kept error texts.
const maxSamples = 5

// operation is the kind of a request.
type operation uint8

const (
	opGet operation = iota
	opPut
	opDelete
	operations
)

// sample is the result of one request.
type sample struct {
	op      operation
	latency time.Duration
	late    time.Duration // open loop: how long after its due time it was sent
	from    provenance
	node    string
	owner   string
	bytes   int
	missing bool   // 404
	failure string // the class of the failure; "": no failure
	detail  string // of the failure, or of what is wrong
	wrong   string // what the verification found; "": nothing
	checked bool   // the body was verified
	// hopeless is a failure that all other requests would have, too.
	hopeless error
}

// tally is the sum of samples.
type tally struct {
	requests   int64
	operations [operations]int64
	entry      [sources]int64
	behind     [sources]int64
	marked     map[string]int64
	nodes      map[string]int64
	owners     map[string]int64
	missing    int64
	found      int64 // reads that returned a value
	waited     int64 // of these: waited for a load, their own or another's
	loaded     int64 // of these: made a load
	standIns   int64 // reads that waited for a load that is marked
	bytes      int64
	checked    int64
	failures   map[string]int64
	wrong      map[string]int64
	texts      []string // of the first failures
}

func newTally() tally {
	return tally{
		marked: map[string]int64{}, nodes: map[string]int64{}, owners: map[string]int64{},
		failures: map[string]int64{}, wrong: map[string]int64{},
	}
}

func (t *tally) add(s *sample) {
	t.requests++
	t.operations[s.op]++
	if s.node != "" {
		t.nodes[s.node]++
	}
	if s.owner != "" {
		t.owners[s.owner]++
	}
	switch {
	case s.failure != "":
		t.failures[s.failure]++
		t.text(s.failure, s.detail)
	case s.op == opGet:
		t.entry[s.from.entry]++
		if s.from.entry == fromPeer {
			t.behind[s.from.behind]++
		}
		if s.from.marked != "" {
			t.marked[s.from.marked]++
			if s.from.waited() {
				t.standIns++
			}
		}
		t.bytes += int64(s.bytes)
		if !s.missing {
			t.found++
			if s.from.waited() {
				t.waited++
			}
			if s.from.loaded() {
				t.loaded++
			}
		}
	}
	if s.missing {
		t.missing++
	}
	if s.checked {
		t.checked++
	}
	if s.wrong != "" {
		t.wrong[s.wrong]++
		t.text(s.wrong, s.detail)
	}
}

func (t *tally) text(class, detail string) {
	t.sample(class + ": " + detail)
}

// sample keeps a text unless it is already there.
func (t *tally) sample(text string) {
	if len(t.texts) < maxSamples && !slices.Contains(t.texts, text) {
		t.texts = append(t.texts, text)
	}
}

func (t *tally) merge(o *tally) {
	t.requests += o.requests
	t.missing += o.missing
	t.found += o.found
	t.waited += o.waited
	t.loaded += o.loaded
	t.standIns += o.standIns
	t.bytes += o.bytes
	t.checked += o.checked
	for i := range t.operations {
		t.operations[i] += o.operations[i]
	}
	for i := range t.entry {
		t.entry[i] += o.entry[i]
		t.behind[i] += o.behind[i]
	}
	for _, m := range []struct{ to, from map[string]int64 }{
		{t.marked, o.marked}, {t.nodes, o.nodes}, {t.owners, o.owners}, {t.failures, o.failures}, {t.wrong, o.wrong},
	} {
		addAll(m.to, m.from)
	}
	for _, text := range o.texts {
		t.sample(text)
	}
}

func addAll(to, from map[string]int64) {
	for k, n := range from {
		to[k] += n
	}
}

func sum(m map[string]int64) (n int64) {
	for v := range maps.Values(m) {
		n += v
	}
	return n
}

// recorder collects the samples of all workers. It has shards so that workers
// seldom wait for one another.
type recorder struct{ shards []recorderShard }

type recorderShard struct {
	mu       sync.Mutex // guards the fields below
	tally    tally
	total    *hdrhistogram.Histogram
	interval *hdrhistogram.Histogram // since the last point of the timeline
	errors   int64                   // likewise
	late     *hdrhistogram.Histogram
	unwaited *hdrhistogram.Histogram // the part of total without a load to wait for
	_        [64]byte                // keeps the next shard's mutex off this cache line
}

// newHistogram counts microseconds.
func newHistogram(digits int) *hdrhistogram.Histogram {
	return hdrhistogram.New(1, maxLatency.Microseconds(), digits)
}

func newRecorder(workers int) *recorder {
	r := &recorder{shards: make([]recorderShard, min(workers, 4*runtime.GOMAXPROCS(0)))}
	for i := range r.shards {
		s := &r.shards[i]
		s.tally, s.total, s.interval, s.late, s.unwaited = newTally(), newHistogram(3), newHistogram(2), newHistogram(2), newHistogram(2)
	}
	return r
}

// record adds a sample of a worker.
func (r *recorder) record(worker int, s *sample) error {
	sh := &r.shards[worker%len(r.shards)]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.tally.add(s)
	if s.failure != "" || s.wrong != "" {
		sh.errors++
	}
	us := micros(s.latency)
	in := [...]*hdrhistogram.Histogram{sh.total, sh.interval, sh.unwaited}
	counted := in[:]
	if s.failure != "" || s.from.waited() {
		counted = in[:2]
	}
	for _, h := range counted {
		if err := h.RecordValue(us); err != nil {
			return fmt.Errorf("record a latency: %w", err)
		}
	}
	if err := sh.late.RecordValue(micros(s.late)); err != nil {
		return fmt.Errorf("record a delay: %w", err)
	}
	return nil
}

func micros(d time.Duration) int64 {
	return min(max(d.Microseconds(), 0), maxLatency.Microseconds())
}

// interval is what was recorded since its last call.
func (r *recorder) interval() (h *hdrhistogram.Histogram, errors int64) {
	h = newHistogram(2)
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		h.Merge(s.interval)
		s.interval.Reset()
		errors += s.errors
		s.errors = 0
		s.mu.Unlock()
	}
	return h, errors
}

// total is everything recorded so far.
func (r *recorder) total() (t tally, latency, unwaited, late *hdrhistogram.Histogram) {
	t, latency, unwaited, late = newTally(), newHistogram(3), newHistogram(2), newHistogram(2)
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		t.merge(&s.tally)
		latency.Merge(s.total)
		unwaited.Merge(s.unwaited)
		late.Merge(s.late)
		s.mu.Unlock()
	}
	return t, latency, unwaited, late
}
