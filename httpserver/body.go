package httpserver

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	// firstPiece is how many bytes of a body are read before anything is set aside
	// for it, and firstRoom is how many are set aside then. A client can claim any
	// length, so the room grows with what has arrived.
	firstPiece = 512
	firstRoom  = 4 << 10
	// silentAfter is how long a client must have sent nothing of its body before
	// its request may be ended for others.
	silentAfter = 2 * time.Second
)

// The errors of a limited body, besides io.EOF at its end and context.Canceled.
var (
	// ErrBodyTooLarge says that the body is longer than its limit.
	ErrBodyTooLarge = errors.New("the body is too large")
	// ErrBodyShort says that the body did not arrive whole and in time.
	ErrBodyShort = errors.New("the body did not arrive whole and in time")
)

// NewBodies makes a budget of so many bytes for bodies that are being read. A
// refused request gets the error full. A share may outlive its body, so that it
// pays for what was made of the body until the answer is written. A client that
// takes nothing of that answer for 2 s counts like one that sends nothing.
func NewBodies(bytes int64, full error) *Budget {
	return &Budget{
		max: bytes, full: full,
		quiet: (*connection).quiet, quietAfter: silentAfter, turnAway: (*connection).end,
		shares: make(map[*Share]struct{}),
	}
}

// LimitBody returns r with a body of at most limit bytes. While its body is read
// the connection may be displaced like an idle one, so a client that sends byte
// by byte, or nothing, keeps nobody out. w must be the server's own: it closes
// the connection after a body that is too large.
func LimitBody(w http.ResponseWriter, r *http.Request, limit int64) *http.Request {
	if r.Body == nil || r.Body == http.NoBody {
		return r
	}
	// A copy: the server asks its own request's body whether it was read to the
	// end, and lingers before it closes if not.
	limited := *r
	limited.Body = &limitedBody{ReadCloser: http.MaxBytesReader(w, r.Body, limit), conn: connectionOf(r)}
	return &limited
}

// limitedBody is a body whose reads are waits for its client. Each read that
// gets something puts the connection last among those that wait.
type limitedBody struct {
	io.ReadCloser
	conn *connection // nil: it came over no connection of a Server
}

func (b *limitedBody) Read(p []byte) (n int, err error) {
	if b.conn != nil {
		b.conn.waits()
		b.conn.reading.Store(int64(since(time.Now())))
		defer func() {
			b.conn.reading.Store(0)
			b.conn.works()
		}()
	}
	n, err = b.ReadCloser.Read(p)
	return n, bodyError(err)
}

// bodyError is what a failed read of a body means. Package http says
// io.ErrUnexpectedEOF for a body that broke off.
func bodyError(err error) error {
	var over *http.MaxBytesError
	switch {
	case err == nil, err == io.EOF, errors.Is(err, context.Canceled): //nolint:errorlint // the end, and nothing that wraps it
		return err
	case errors.As(err, &over):
		return ErrBodyTooLarge
	}
	return fmt.Errorf("%w: %w", ErrBodyShort, err)
}

// firstOf waits for the first bytes of a body, with next to no memory. They are
// nil only if the body is empty.
func firstOf(from io.Reader, length int64) ([]byte, error) {
	size := int64(firstPiece)
	if length >= 0 {
		size = min(length, size)
	}
	buf := make([]byte, size)
	for len(buf) > 0 {
		n, err := from.Read(buf)
		switch {
		case n > 0: // the next read has the error again
			return buf[:n], nil
		case err == io.EOF: //nolint:errorlint // the end, and nothing that wraps it
			return nil, nil
		case err != nil:
			return nil, err
		}
	}
	return nil, nil
}

// BufferBody waits for the first bytes of a limited body. Then it makes a buffer
// of so many bytes to read the body through.
func BufferBody(r *http.Request, size int) (*bufio.Reader, error) {
	first, err := firstOf(r.Body, r.ContentLength)
	if err != nil {
		return nil, err
	}
	return bufio.NewReaderSize(io.MultiReader(bytes.NewReader(first), r.Body), size), nil
}

// ReadBody reads a limited body into a slice of exactly its size. The share pays
// for it until Release.
func (s *Share) ReadBody(r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, ErrBodyTooLarge
	}
	return s.read(r.Context(), r.Body, r.ContentLength, limit)
}

// read reads a body of the given length, or to its end if the length is -1. Its
// room is at most four times what has arrived if the length is known, and twice
// that if not.
func (s *Share) read(ctx context.Context, from io.Reader, length, limit int64) ([]byte, error) {
	buf, err := firstOf(from, length)
	if err != nil {
		return nil, err
	}
	most, factor := limit, int64(2)
	if length >= 0 {
		most, factor = length, 4
	}
	n := int64(len(buf))
	if n > most {
		return nil, ErrBodyTooLarge
	}
	if err := s.Take(ctx, n); err != nil {
		return nil, err
	}
	buf = buf[:n:n]
	for n != length {
		if n == int64(cap(buf)) {
			if n == limit {
				if err := nothingMore(from); err != nil {
					return nil, err
				}
				break
			}
			if buf, err = s.grow(ctx, buf, min(max(firstRoom, factor*n), most)); err != nil {
				return nil, err
			}
		}
		m, err := io.ReadFull(from, buf[n:cap(buf)])
		n += int64(m)
		buf = buf[:n]
		if err == io.EOF || err == io.ErrUnexpectedEOF { //nolint:errorlint // the end, and nothing that wraps it
			if n < length {
				return nil, ErrBodyShort
			}
			break
		}
		if err != nil {
			return nil, err
		}
	}
	if spare := int64(cap(buf)) - n; spare > 0 {
		buf = s.move(buf, n)
		s.Give(spare)
	}
	return buf, nil
}

// nothingMore makes sure that a body of unknown length ends at the limit.
func nothingMore(from io.Reader) error {
	var b [1]byte
	switch _, err := io.ReadFull(from, b[:]); err {
	case nil:
		return ErrBodyTooLarge
	case io.EOF:
		return nil
	default:
		return err
	}
}

// grow makes room for a body of the given size.
func (s *Share) grow(ctx context.Context, buf []byte, size int64) ([]byte, error) {
	if err := s.Take(ctx, size-int64(cap(buf))); err != nil {
		return nil, err
	}
	return s.move(buf, size), nil
}

// move moves a body to a slice of the given capacity. For a moment there are two
// copies. Only one body at a time has two, so the second need not be charged: if
// bodies waited for the room of a second copy while they hold the first, they
// would wait for each other.
func (s *Share) move(buf []byte, size int64) []byte {
	s.budget.moving.Lock()
	defer s.budget.moving.Unlock()
	moved := make([]byte, len(buf), size)
	copy(moved, buf)
	return moved
}
