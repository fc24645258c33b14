package loadgen

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"kring/client"
)

// cluster is where workers send their requests.
type cluster interface {
	GetWith(ctx context.Context, group, key string, o client.GetOptions) (*client.Value, error)
	Put(ctx context.Context, group, key string, value []byte, o client.PutOptions) (*client.Written, error)
	Delete(ctx context.Context, group, key string) (client.Meta, error)
}

// worker sends one request after another.
type worker struct {
	id      int
	cfg     *Config
	cluster cluster
	pace    *pace
	keys    picker
	rand    *rand.Rand
	ledger  *ledger // nil unless the run verifies and writes
	record  func(worker int, s *sample) error
	buffer  []byte
}

// run sends requests until pace ends the run. It then waits for requests in
// flight until ctx ends. A request that ctx cancels is no sample.
func (w *worker) run(ctx context.Context) error {
	for {
		due, ok := w.pace.next()
		if !ok {
			return nil
		}
		key, size, ok := w.keys.next()
		if !ok {
			w.pace.stop()
			return nil
		}
		s := sample{op: w.choose()}
		begun := time.Now()
		if due.IsZero() {
			due = begun
		}
		s.late = begun.Sub(due)
		w.send(ctx, &s, key, size)
		s.latency = time.Since(due)
		if ctx.Err() != nil && s.failure != "" {
			return nil
		}
		if s.hopeless != nil {
			return s.hopeless
		}
		if err := w.record(w.id, &s); err != nil {
			return err
		}
	}
}

func (w *worker) choose() operation {
	if w.cfg.Write == 0 && w.cfg.Delete == 0 {
		return opGet
	}
	switch p := w.rand.Float64(); {
	case p < w.cfg.Write:
		return opPut
	case p < w.cfg.Write+w.cfg.Delete:
		return opDelete
	default:
		return opGet
	}
}

func (w *worker) send(ctx context.Context, s *sample, key string, size int) {
	switch s.op {
	case opPut:
		w.put(ctx, s, key, size)
	case opDelete:
		w.remove(ctx, s, key)
	default:
		w.get(ctx, s, key)
	}
}

func (w *worker) get(ctx context.Context, s *sample, key string) {
	var floor int64
	if w.ledger != nil {
		floor = w.ledger.floor(key)
	}
	v, err := w.cluster.GetWith(ctx, w.cfg.Group, key, client.GetOptions{Buffer: w.buffer})
	if err != nil {
		var e *client.Error
		if errors.Is(err, client.ErrNotFound) && errors.As(err, &e) {
			s.missing = true
			s.answer(&e.Meta)
			return
		}
		s.fail(err)
		return
	}
	w.buffer = v.Body
	s.bytes = len(v.Body)
	s.answer(&v.Meta)
	if !w.cfg.Verify {
		return
	}
	s.checked = true
	d, err := checkDocument(key, v.Body)
	if err == nil && w.ledger != nil && s.from.marked == "" {
		err = w.ledger.seen(key, d.Version, floor)
	}
	if err != nil {
		s.wrong = err.Error()
		s.detail = fmt.Sprintf("key %q, version %q, %d bytes, Cache-Status %q", key, d.Version, len(v.Body), v.CacheStatus)
	}
}

func (w *worker) put(ctx context.Context, s *sample, key string, size int) {
	if size < 0 {
		size = w.cfg.ValueSize
	}
	version, begun := "w", int64(0)
	if w.ledger != nil {
		version, begun = w.ledger.put(key)
	}
	body, err := newDocument(key, version, size)
	if err != nil {
		s.fail(err)
		return
	}
	a, err := w.cluster.Put(ctx, w.cfg.Group, key, body, client.PutOptions{ContentType: "application/json"})
	if err != nil {
		s.fail(err)
		return
	}
	s.answer(&a.Meta)
	if w.ledger != nil {
		w.ledger.acknowledged(key, begun)
	}
}

func (w *worker) remove(ctx context.Context, s *sample, key string) {
	var begun int64
	if w.ledger != nil {
		begun = w.ledger.remove()
	}
	meta, err := w.cluster.Delete(ctx, w.cfg.Group, key)
	if err != nil {
		s.fail(err)
		return
	}
	s.answer(&meta)
	if w.ledger != nil {
		w.ledger.acknowledged(key, begun)
	}
}

func (s *sample) answer(m *client.Meta) {
	s.node, s.owner = m.Node, m.Owner
	s.from = provenanceOf(m.CacheStatus)
}

// hopeless are the errors that end a run, with the flag to blame: after them
// nothing worth measuring can follow.
var hopeless = []struct {
	err  error
	flag string
}{
	{client.ErrUnknownGroup, "--group"},
	{client.ErrBadGroup, "--group"},
	{client.ErrUnauthorized, "--token-file"},
}

// hopelessFlag is the flag to blame, or "".
func hopelessFlag(err error) string {
	for _, h := range hopeless {
		if errors.Is(err, h.err) {
			return h.flag
		}
	}
	return ""
}

// fail records an error by its code, or else by its kind.
func (s *sample) fail(err error) {
	s.detail = err.Error()
	if flag := hopelessFlag(err); flag != "" {
		s.hopeless = fmt.Errorf("%s: %w", flag, err)
	}
	var e *client.Error
	switch {
	case errors.As(err, &e):
		s.node, s.owner = e.Node, e.Owner
		s.failure = string(e.Code)
		if s.failure == "" {
			s.failure = "status-" + strconv.Itoa(e.Status)
		}
	case errors.Is(err, context.DeadlineExceeded):
		s.failure = "timeout"
	case errors.Is(err, client.ErrUnavailable):
		s.failure = "unavailable"
	default:
		s.failure = "failed"
	}
}
