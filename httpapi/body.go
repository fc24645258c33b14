package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"kring/cache"
)

const (
	// firstPiece is how much of a body is read before anything is set aside for
	// it, and firstRoom is what is set aside then, in bytes. A length is easily
	// claimed, so the room grows with what has come.
	firstPiece = 512
	firstRoom  = 4 << 10
	// minValueBodies and minListBodies are the least of what all values that
	// are being read may take, and all lists of keys and tags.
	minValueBodies = 32 << 20
	minListBodies  = 16 << 20
	// silentAfter is how long a client must have sent nothing of its body
	// before the request is ended for others.
	silentAfter = 2 * time.Second
)

var errTooLarge = cache.ErrValueTooLarge.With("the body is larger than this node accepts")

// newBodies makes a budget for bodies that are being read. A list of keys has its
// room until the answer is written: who takes nothing of that is as quiet as who
// sends nothing.
func newBodies(bytes int64) *budget {
	return &budget{
		max: bytes, why: "too many bodies are being read",
		quiet: (*connection).quiet, quietAfter: silentAfter, turnAway: (*connection).end,
		shares: make(map[*share]struct{}),
	}
}

// body is a request's body in a slice of exactly its size. Until release its
// memory counts against the budget of all such bodies.
type body struct {
	*share
	bytes []byte
}

func (a *API) readBody(r *http.Request, limit int64) (*body, error) {
	if r.ContentLength > limit {
		return nil, errTooLarge
	}
	conn := connectionOf(r)
	b := &body{share: a.values.share(conn)}
	if err := b.read(r.Context(), awaited{r.Body, conn}, r.ContentLength, limit); err != nil {
		b.release()
		return nil, err
	}
	return b, nil
}

// firstOf waits for the first bytes of a body; it takes next to no memory
// meanwhile. There are none only if the body is empty.
func firstOf(from io.Reader, length int64) ([]byte, error) {
	size := int64(firstPiece)
	if length >= 0 {
		size = min(length, size)
	}
	buf := make([]byte, size)
	for len(buf) > 0 {
		n, err := from.Read(buf)
		switch {
		case n > 0: // an error comes again
			return buf[:n], nil
		case err == io.EOF: //nolint:errorlint // the end, and nothing that wraps it
			return nil, nil
		case err != nil:
			return nil, bodyError(err)
		}
	}
	return nil, nil
}

// read reads a body of the given length, or until its end (-1). Its room is at
// most four times what has come if the length is known, and twice if not.
func (b *body) read(ctx context.Context, from io.Reader, length, limit int64) error {
	buf, err := firstOf(from, length)
	if err != nil {
		return err
	}
	most, factor := limit, int64(2)
	if length >= 0 {
		most, factor = length, 4
	}
	n := int64(len(buf))
	if n > most {
		return errTooLarge
	}
	if err := b.take(ctx, n); err != nil {
		return err
	}
	buf = buf[:n:n]
	for n != length {
		if n == int64(cap(buf)) {
			if n == limit {
				if err := nothingMore(from); err != nil {
					return err
				}
				break
			}
			if buf, err = b.grow(ctx, buf, min(max(firstRoom, factor*n), most)); err != nil {
				return err
			}
		}
		m, err := fill(from, buf[n:cap(buf)])
		n += int64(m)
		buf = buf[:n]
		if err == io.EOF { //nolint:errorlint // the end, and nothing that wraps it
			if n < length {
				return errShortBody
			}
			break
		}
		if err != nil {
			return bodyError(err)
		}
	}
	if spare := int64(cap(buf)) - n; spare > 0 {
		buf = b.move(buf, n)
		b.give(spare)
	}
	b.bytes = buf
	return nil
}

// nothingMore makes sure that a body of unknown length ends at the limit.
func nothingMore(from io.Reader) error {
	var b [1]byte
	switch n, err := fill(from, b[:]); {
	case n > 0:
		return errTooLarge
	case err == io.EOF: //nolint:errorlint // the end, and nothing that wraps it
		return nil
	default:
		return bodyError(err)
	}
}

// grow makes room for a body of the given size.
func (b *body) grow(ctx context.Context, buf []byte, size int64) ([]byte, error) {
	if err := b.take(ctx, size-int64(cap(buf))); err != nil {
		return nil, err
	}
	return b.move(buf, size), nil
}

// move moves a body to a slice of the given capacity. For a moment there are
// two of it: of one body at a time, so that the second need not be charged.
// Bodies that waited for the room of a second while they hold the first would
// wait for each other.
func (b *body) move(buf []byte, size int64) []byte {
	b.budget.moving.Lock()
	defer b.budget.moving.Unlock()
	moved := make([]byte, len(buf), size)
	copy(moved, buf)
	return moved
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
	a.conn.reading.Store(int64(since(time.Now())))
	defer func() {
		a.conn.reading.Store(0)
		a.conn.works()
	}()
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
