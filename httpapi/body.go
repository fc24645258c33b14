package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"

	"kring/cache"
)

const (
	// firstRead is how much of a body must arrive before memory for all of it
	// is set aside: a length is easily claimed.
	firstRead = 64 << 10
	// minBodyBudget is the least of what all bodies being read may take.
	minBodyBudget = 32 << 20
)

var errTooLarge = cache.ErrValueTooLarge.With("the body is larger than this node accepts")

// body is a request's body in a slice of exactly its size. Until release its
// memory counts against the budget of all bodies.
type body struct {
	bytes  []byte
	budget *budget
	held   int64
}

func (a *API) readBody(r *http.Request, limit int64) (*body, error) {
	if r.ContentLength > limit {
		return nil, errTooLarge
	}
	b := &body{budget: a.bodies}
	if err := b.read(awaited{r.Body, connectionOf(r)}, r.ContentLength, limit); err != nil {
		b.release()
		return nil, err
	}
	return b, nil
}

func (b *body) release() { b.budget.put(b.held) }

func (b *body) take(n int64) error {
	if !b.budget.take(n) {
		return cache.ErrOverloaded.With("too many bodies are being read")
	}
	b.held += n
	return nil
}

// read reads a body of the given length: a piece of it first, then all. If the
// length is not known (-1) the memory is doubled as needed.
func (b *body) read(from io.Reader, length, limit int64) error {
	size := length
	if size < 0 || size > firstRead {
		size = firstRead
	}
	if err := b.take(size); err != nil {
		return err
	}
	buf := make([]byte, size)
	n := 0
	for {
		m, err := fill(from, buf[n:])
		n += m
		if err == io.EOF { //nolint:errorlint // the end, and nothing that wraps it
			if int64(n) < length {
				return errShortBody
			}
			break
		}
		if err != nil {
			return bodyError(err)
		}
		if int64(n) == length {
			break
		}
		size = length
		if length < 0 {
			size = min(2*int64(n), limit+1) // one more, to see that it is too long
		}
		if err := b.take(size); err != nil {
			return err
		}
		buf = append(make([]byte, 0, size), buf...)[:size]
	}
	if int64(n) > limit {
		return errTooLarge
	}
	if n < len(buf) {
		if err := b.take(int64(n)); err != nil {
			return err
		}
		buf = append(make([]byte, 0, n), buf[:n]...)
	}
	b.bytes = buf
	return nil
}

// awaited is a body for which its client is waited for. Meanwhile the
// connection may be displaced like an idle one: who sends a body byte by byte,
// or not at all, keeps nobody out. One that arrives is always among the last.
type awaited struct {
	io.Reader
	conn *connection // nil: none of ours
}

func (a awaited) Read(p []byte) (int, error) {
	if a.conn == nil {
		return a.Reader.Read(p)
	}
	a.conn.waits()
	defer a.conn.works()
	return a.Reader.Read(p)
}

// fill is io.ReadFull, but tells the body's end (io.EOF) from a body that broke
// off: for that, package http says io.ErrUnexpectedEOF, as ReadFull would for
// both.
func fill(from io.Reader, buf []byte) (n int, err error) {
	for n < len(buf) && err == nil {
		var m int
		m, err = from.Read(buf[n:])
		n += m
	}
	if n == len(buf) && err == io.EOF { //nolint:errorlint // as above
		err = nil // the next call finds the end
	}
	return n, err
}

var errShortBody = errBadRequest.With("the body did not arrive whole and in time")

// bodyError says what a failed read of a body means.
func bodyError(err error) error {
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return errTooLarge
	case errors.Is(err, context.Canceled):
		return err
	}
	return errShortBody.Because(err)
}

// budget bounds the bytes that something may take at once.
type budget struct {
	max  int64
	used atomic.Int64
}

func newBudget(n int64) *budget { return &budget{max: n} }

func (b *budget) take(n int64) bool {
	if b.used.Add(n) > b.max {
		b.used.Add(-n)
		return false
	}
	return true
}

func (b *budget) put(n int64) { b.used.Add(-n) }
