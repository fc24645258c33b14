package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// mostLines and mostLineBytes bound the queue.
	mostLines     = 4096
	mostLineBytes = 1 << 20
	// lastWords is how long the end of a command waits for queued lines.
	lastWords = time.Second
)

// lineWriter is stdout or stderr for writers that must not wait for the reader,
// which may have gone or stopped reading. A node must not stop because nobody
// reads its log.
//
// Each Write is one line. It is copied into a queue, and one goroutine writes
// the queue; it runs only while there are lines. A line that does not fit, or
// that cannot be written, is dropped and counted. When writing works again, a
// notice says how many were dropped. A lineWriter is safe for concurrent use.
type lineWriter struct {
	out     io.Writer
	dropped atomic.Uint64
	torn    bool // the last line was written in part; only drain uses it

	mu      sync.Mutex // guards the fields below
	notice  func(lost uint64) []byte
	queue   []queuedLine
	bytes   int
	full    bool          // set when the queue is full, until it is half empty
	failing bool          // the last line could not be written
	lost    uint64        // dropped lines that no notice has reported yet
	idle    chan struct{} // closed when the queue is written; nil: it is empty
}

// queuedLine is a line, or the notice of lost lines.
type queuedLine struct {
	text []byte
	lost uint64 // how many lines the notice reports
}

func newLineWriter(out io.Writer) *lineWriter {
	return &lineWriter{out: out, notice: func(lost uint64) []byte {
		return fmt.Appendf(nil, "kring: %s\n", linesDropped(lost))
	}}
}

func linesDropped(lost uint64) string { return fmt.Sprintf("%d lines dropped", lost) }

// Write queues a line. It never waits for the reader and never fails.
func (l *lineWriter) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) >= mostLines || l.bytes+len(line) > mostLineBytes {
		l.full = true
	}
	if l.full {
		l.loseLocked()
		return len(line), nil
	}
	l.queueLocked(queuedLine{text: bytes.Clone(line)})
	if l.idle == nil {
		l.idle = make(chan struct{})
		go l.drain()
	}
	return len(line), nil
}

func (l *lineWriter) queueLocked(q queuedLine) {
	l.queue = append(l.queue, q)
	l.bytes += len(q.text)
}

func (l *lineWriter) loseLocked() {
	l.lost++
	l.dropped.Add(1)
}

// drain writes lines until the queue is empty. It alone waits for the reader.
func (l *lineWriter) drain() {
	for {
		q, ok := l.next()
		if !ok {
			return
		}
		if l.torn {
			q.text = append([]byte("\n"), q.text...)
		}
		n, err := l.out.Write(q.text)
		l.torn = err != nil && (n > 0 || l.torn)
		l.wrote(q, err)
	}
}

func (l *lineWriter) next() (q queuedLine, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.full && len(l.queue) <= mostLines/2 && l.bytes <= mostLineBytes/2 {
		l.full = false
	}
	if l.lost > 0 && !l.full && !l.failing {
		l.queueLocked(queuedLine{l.notice(l.lost), l.lost})
		l.lost = 0
	}
	if len(l.queue) == 0 {
		l.queue = nil
		close(l.idle)
		l.idle = nil
		return queuedLine{}, false
	}
	q = l.queue[0]
	l.queue[0] = queuedLine{}
	l.queue = l.queue[1:]
	l.bytes -= len(q.text)
	return q, true
}

// wrote records the result of a write.
func (l *lineWriter) wrote(q queuedLine, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch l.failing = err != nil; {
	case err == nil:
	case q.lost > 0:
		l.lost += q.lost
	default:
		l.loseLocked()
	}
}

// setNotice sets the format of the notice.
func (l *lineWriter) setNotice(notice func(lost uint64) []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notice = notice
}

// Dropped is the number of lost lines.
func (l *lineWriter) Dropped() uint64 { return l.dropped.Load() }

// flush waits until all lines are written, but at most for lastWords: a hanging
// write can end only with the process.
func (l *lineWriter) flush() {
	l.mu.Lock()
	idle := l.idle
	l.mu.Unlock()
	if idle == nil {
		return
	}
	timer := time.NewTimer(lastWords)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	}
}

// flush waits for the queue of a lineWriter. Other writers have none.
func flush(w io.Writer) {
	if l, ok := w.(interface{ flush() }); ok {
		l.flush()
	}
}

// outlivePipes keeps the process alive when the reader of stdout or stderr goes
// away: only the write fails then. Commands that run until a signal call it.
// The others die of SIGPIPE, like any filter.
func outlivePipes() { signal.Ignore(syscall.SIGPIPE) }

// exitAtOnce ends the process after its queued lines.
func exitAtOnce(stderr io.Writer, code int) {
	flush(stderr)
	os.Exit(code)
}
