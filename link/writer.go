package link

import (
	"context"
	"errors"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
)

// maxUnsent is how many bytes may wait on one link. Above it senders wait. Below it
// one value of any size is let in.
const maxUnsent = 4 << 20

// maxSmall is how many bytes of frames without a big value may wait while big values
// take all of maxUnsent. The small frames are written first anyway.
const maxSmall = 1 << 20

// maxControl bounds what never waits: pings, pongs, loading and cancel frames.
const maxControl = 1 << 20

// maxKept is the largest buffer that a link keeps for its next write.
const maxKept = 1 << 20

var (
	errStopped = errors.New("no longer wanted")
	errTooMuch = errors.New("the other side reads nothing")
)

// message is a frame to be sent, and the big value that follows it.
type message interface {
	requestID() uint64
	// appendTo appends the frame. It is called under the writer's lock.
	appendTo(b []byte) []byte
	// bulk is a value that follows in chunks, or nil.
	bulk() []byte
	// written is called once, when the last byte was written to the
	// connection, or when that has become impossible. No lock is held then. It
	// is not called if send failed.
	written(ok bool)
}

// writer is the sending half of a link. What is queued while a write is under way
// goes out with the next one. Big values go in chunks, in turn, one between two
// batches.
type writer struct {
	conn  net.Conn
	stamp func(b []byte, typ frameType, id uint64) []byte // appends a header

	// mu guards all below.
	mu      sync.Mutex
	control []byte    // goes first
	batch   []byte    // frames in order
	queued  []message // those whose last byte is in batch
	streams []stream  // big values under way
	unsent  int       // bytes of batch and streams, and of the write under way
	room    chan struct{}
	err     error // why nothing can be sent any more

	ended atomic.Bool   // err is set
	wake  chan struct{} // a token: there may be something to write
}

type stream struct {
	of   message
	rest []byte
}

func newWriter(conn net.Conn, stamp func([]byte, frameType, uint64) []byte) *writer {
	return &writer{conn: conn, stamp: stamp, wake: make(chan struct{}, 1)}
}

// send queues a frame. While too much is unsent it waits until ctx ends or
// stop is closed (errStopped).
func (w *writer) send(ctx context.Context, m message, stop <-chan struct{}) error {
	for {
		w.mu.Lock()
		if w.err != nil {
			w.mu.Unlock()
			return w.err
		}
		if w.roomLocked(m) {
			err := w.queueLocked(m)
			w.mu.Unlock()
			if err == nil {
				w.signal()
			}
			return err
		}
		if w.room == nil {
			w.room = make(chan struct{})
		}
		room := w.room
		w.mu.Unlock()
		select {
		case <-room:
		case <-stop:
			return errStopped
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// trySend is send for a caller that must not wait. False: the frame was not queued.
func (w *writer) trySend(m message) bool {
	w.mu.Lock()
	queued := w.err == nil && w.roomLocked(m) && w.queueLocked(m) == nil
	w.mu.Unlock()
	if queued {
		w.signal()
	}
	return queued
}

// roomLocked says whether a frame may be queued. Small frames do not wait for the room
// of big values, whose senders would take all of it in turn.
func (w *writer) roomLocked(m message) bool {
	return w.unsent < maxUnsent || m.bulk() == nil && len(w.batch) < maxSmall
}

func (w *writer) queueLocked(m message) error {
	before := len(w.batch)
	w.batch = m.appendTo(w.batch)
	bulk := m.bulk()
	size := len(w.batch) - before
	if size > headerLen+MaxMeta+ChunkLen || (bulk != nil && size > headerLen+MaxMeta) {
		w.batch = w.batch[:before]
		return ErrFrameSize
	}
	w.unsent += size + len(bulk)
	if bulk != nil {
		w.streams = append(w.streams, stream{m, bulk})
	} else {
		w.queued = append(w.queued, m)
	}
	return nil
}

// order queues a loading or cancel frame behind those that are queued already. It
// never waits.
func (w *writer) order(typ frameType, id uint64, body ...byte) {
	w.mu.Lock()
	before := len(w.batch)
	w.batch = endFrame(append(w.stamp(w.batch, typ, id), body...), before, 0)
	w.unsent += len(w.batch) - before
	tooMuch := len(w.batch) > maxUnsent+maxControl
	w.mu.Unlock()
	if tooMuch {
		w.close(errTooMuch)
		return
	}
	w.signal()
}

// urgent queues a ping or a pong before everything else. It never waits.
func (w *writer) urgent(typ frameType, body func(b []byte) []byte) {
	w.mu.Lock()
	before := len(w.control)
	w.control = endFrame(body(w.stamp(w.control, typ, 0)), before, 0)
	tooMuch := len(w.control) > maxControl
	w.mu.Unlock()
	if tooMuch {
		w.close(errTooMuch)
		return
	}
	w.signal()
}

func (w *writer) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// run writes until the writer is closed, and then tells the messages that were not
// written.
func (w *writer) run() {
	defer w.abandon()
	var control, batch []byte
	var queued []message
	for range w.wake {
		for {
			// Let others queue first: a link is quick because one write has many
			// frames.
			runtime.Gosched()
			w.mu.Lock()
			if w.err != nil {
				w.mu.Unlock()
				return
			}
			control, w.control = w.control, control[:0]
			batch, w.batch = w.batch, batch[:0]
			queued, w.queued = w.queued, queued[:0]
			size := len(batch)
			var chunk []byte
			if len(w.streams) > 0 {
				s := w.streams[0]
				w.streams = w.streams[1:]
				chunk = s.rest[:min(len(s.rest), ChunkLen)]
				start := len(batch)
				batch = endFrame(w.stamp(batch, frameChunk, s.of.requestID()), start, len(chunk))
				if s.rest = s.rest[len(chunk):]; len(s.rest) > 0 {
					w.streams = append(w.streams, s)
				} else {
					queued = append(queued, s.of)
				}
				size += len(chunk)
			}
			w.mu.Unlock()
			if len(control)+len(batch) == 0 {
				break
			}
			err := w.write(control, batch, chunk)
			for i, m := range queued {
				m.written(err == nil)
				queued[i] = nil
			}
			if err != nil {
				w.close(err)
				return
			}
			w.sent(size)
			if cap(batch) > maxKept {
				batch = nil
			}
		}
	}
}

func (w *writer) write(control, batch, chunk []byte) error {
	if len(control) == 0 && len(chunk) == 0 {
		_, err := w.conn.Write(batch)
		return err
	}
	parts := net.Buffers{control, batch, chunk}
	_, err := parts.WriteTo(w.conn)
	return err
}

func (w *writer) sent(size int) {
	w.mu.Lock()
	w.unsent -= size
	if w.room != nil && w.unsent < maxUnsent {
		close(w.room)
		w.room = nil
	}
	w.mu.Unlock()
}

// close ends the writer and its connection; it is safe to call twice.
func (w *writer) close(err error) {
	w.mu.Lock()
	if w.err == nil {
		w.err = err
		w.ended.Store(true)
	}
	if w.room != nil {
		close(w.room)
		w.room = nil
	}
	w.mu.Unlock()
	w.conn.Close() // the reader says why the link has ended
	w.signal()
}

// abandon tells the messages that were queued when the writer ended. None is queued
// later.
func (w *writer) abandon() {
	w.mu.Lock()
	lost := w.queued
	for _, s := range w.streams {
		lost = append(lost, s.of)
	}
	w.queued, w.streams, w.batch, w.control = nil, nil, nil, nil
	w.mu.Unlock()
	for _, m := range lost {
		m.written(false)
	}
}
