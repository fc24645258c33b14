package httpserver

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// Once a body has been read, the budget is charged with exactly its size, and so
// large is its slice.
func TestABodysRoomIsWhatItHolds(t *testing.T) {
	const limit = 300_000
	for _, size := range []int64{0, 1, firstPiece - 1, firstPiece, firstPiece + 1, firstRoom, firstRoom + 1, 65_537, limit - 1, limit} {
		for name, c := range map[string]struct {
			length int64
			reader func(io.Reader) io.Reader
		}{
			"known":            {size, func(r io.Reader) io.Reader { return r }},
			"unknown":          {-1, func(r io.Reader) io.Reader { return r }},
			"known, in halves": {size, iotest.HalfReader}, "unknown, in halves": {-1, iotest.HalfReader},
			"known, the end with the data": {size, iotest.DataErrReader}, "unknown, the end with the data": {-1, iotest.DataErrReader},
		} {
			value := bytes.Repeat([]byte("0123456789"), int(size/10+1))[:size]
			bodies := NewBodies(1<<20, errFull)
			s := bodies.share(nil)
			got, err := s.read(t.Context(), c.reader(bytes.NewReader(value)), c.length, limit)
			if err != nil {
				t.Fatalf("%d bytes, %s: %v", size, name, err)
			}
			if !bytes.Equal(got, value) || int64(cap(got)) != size || bodies.inUse() != size {
				t.Errorf("%d bytes, %s: %d in a slice of %d, and %d charged", size, name, len(got), cap(got), bodies.inUse())
			}
			s.Release()
			if bodies.inUse() != 0 {
				t.Errorf("%d bytes, %s: %d charged afterwards", size, name, bodies.inUse())
			}
		}
	}
}

// While a body arrives, its room is a small multiple of what has arrived.
func TestABodysRoomGrowsWithWhatComes(t *testing.T) {
	const size = 1 << 20
	for name, c := range map[string]struct{ length, factor int64 }{"known": {size, 4}, "unknown": {-1, 2}} {
		bodies := NewBodies(4*size, errFull)
		come := int64(0)
		watched := readerFunc(func(p []byte) (int, error) {
			if held := bodies.inUse(); held > c.factor*max(come, firstRoom) {
				t.Fatalf("%s: %d bytes are charged for %d", name, held, come)
			}
			if come == size {
				return 0, io.EOF
			}
			n := min(len(p), 1000, int(size-come))
			come += int64(n)
			return n, nil
		})
		s := bodies.share(nil)
		if _, err := s.read(t.Context(), watched, c.length, size); err != nil {
			t.Fatal(err)
		}
		s.Release()
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestABodyAboveItsLimit(t *testing.T) {
	for _, limit := range []int64{1, firstPiece, firstPiece + 1, firstRoom, firstRoom + 1, 10_000} {
		bodies := NewBodies(1<<20, errFull)
		s := bodies.share(nil)
		got, err := s.read(t.Context(), strings.NewReader(strings.Repeat("x", int(limit))), -1, limit)
		if err != nil || int64(len(got)) != limit {
			t.Errorf("just %d: %d bytes, %v", limit, len(got), err)
		}
		s.Release()
		_, err = s.read(t.Context(), strings.NewReader(strings.Repeat("x", int(limit)+1)), -1, limit)
		if !errors.Is(err, ErrBodyTooLarge) {
			t.Errorf("one byte above %d: %v", limit, err)
		}
		if held := bodies.inUse(); held > 2*max(limit, firstRoom) {
			t.Errorf("%d bytes are charged for a limit of %d", held, limit)
		}
	}
}

// A client counts as waited for while its body is read, and no longer: it must not
// be turned away for the node's own slowness.
func TestAClientIsWaitedForWhileItsBodyIsRead(t *testing.T) {
	c := &connection{owner: &connections{}}
	later := time.Now().Add(time.Hour)
	from := &limitedBody{io.NopCloser(readerFunc(func([]byte) (int, error) {
		if c.silent(later) == 0 || c.idle.Load() == 0 {
			t.Error("it is not waited for while its body is read")
		}
		return 0, io.EOF
	})), c}
	if _, err := from.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if quiet := c.silent(later); quiet != 0 || c.idle.Load() != 0 {
		t.Errorf("it has kept the node waiting for %v after its body was read", quiet)
	}
}
