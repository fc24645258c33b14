package link

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// frameType is what a frame is. A frame is a header of headerLen bytes, all
// numbers big-endian, and a body:
//
//	0  4 bytes  length of what follows these 4 bytes
//	4  1 byte   type
//	5  3 bytes  zero
//	8  8 bytes  request id, chosen by the caller; 0 in pings and pongs
//	16 8 bytes  number of the sender's view
//	24 8 bytes  the sender's incarnation
type frameType uint8

const (
	frameCall    frameType = iota + 1 // a request
	frameChunk                        // the next part of a big value, of a call or an answer
	frameAnswer                       // the final answer to a request
	frameLoading                      // the request is being worked on; see progress.go
	frameCancel                       // the caller no longer waits
	framePing                         // 8 bytes that come back in the pong
	framePong                         // the ping's 8 bytes, and what else its sender says
)

const (
	headerLen = 32
	// ChunkLen is the longest part of a value in one frame, in bytes: a big value
	// delays a small one by the time for one chunk at most.
	ChunkLen = 64 << 10
	// MaxMeta bounds all else in a frame: key, types, tags.
	MaxMeta = 128 << 10
	// maxCalls is how many calls without a final answer one link may carry, besides
	// those that are known to wait: see progress.go.
	maxCalls = 1024
)

var (
	// ErrBadFrame closes the link that carried it.
	ErrBadFrame = errors.New("bad frame")
	// ErrClosed fails the calls of a link that has ended.
	ErrClosed = errors.New("link closed")
	// ErrSilent fails a call on a link that brought no frame for too long.
	ErrSilent = errors.New("silence")
	// ErrCrowded refuses a call that had to wait for room until its time was over, or
	// whose value finds none at the other node.
	ErrCrowded = errors.New("too much on the link")
	// ErrFrameSize refuses a call or an answer that is too long, its big value aside.
	ErrFrameSize = errors.New("the key and what belongs to it do not fit in a frame")
)

type header struct {
	typ         frameType
	body        int // length of the body
	id          uint64
	view        uint64
	incarnation uint64
}

// appendHeader begins a frame. endFrame fills in its length.
func appendHeader(b []byte, typ frameType, id, view, incarnation uint64) []byte {
	b = append(b, 0, 0, 0, 0, byte(typ), 0, 0, 0)
	b = binary.BigEndian.AppendUint64(b, id)
	b = binary.BigEndian.AppendUint64(b, view)
	return binary.BigEndian.AppendUint64(b, incarnation)
}

// endFrame completes the frame that begins at start, up to the end of b, plus
// extra bytes of body that are written after b.
func endFrame(b []byte, start, extra int) []byte {
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-4+extra))
	return b
}

// frameReader reads frames from a connection.
type frameReader struct {
	r     *bufio.Reader
	under *bufio.Reader // what r reads from, if that is buffered, too
}

func newFrameReader(r io.Reader) frameReader {
	f := frameReader{r: bufio.NewReaderSize(r, ChunkLen)}
	if under, ok := r.(*bufio.Reader); ok && under != f.r {
		f.under = under
	}
	return f
}

// buffered is how many bytes were read from the connection and not from f.
func (f frameReader) buffered() int {
	n := f.r.Buffered()
	if f.under != nil {
		n += f.under.Buffered()
	}
	return n
}

// body hands the body of the frame to parse, which must not keep it.
func (f frameReader) body(h header, parse func(b []byte) error) error {
	if h.body <= f.r.Size() {
		b, err := f.r.Peek(h.body)
		if err != nil {
			return err
		}
		if err := parse(b); err != nil {
			return err
		}
		_, err = f.r.Discard(h.body)
		return err
	}
	b := make([]byte, h.body) // at most what the table of frames says
	if _, err := io.ReadFull(f.r, b); err != nil {
		return err
	}
	return parse(b)
}

// assembly is a value that arrives in chunks. Room for it is made as bytes
// come in, never because of a length that was only announced.
type assembly struct {
	value []byte
	total int
	// skipped is how many bytes were read and thrown away, because nobody waits
	// for the value any more.
	skipped int
}

func (a *assembly) missing() int { return a.total - len(a.value) - a.skipped }

// skip throws away the next n bytes of r, and what was read before.
func (a *assembly) skip(r *bufio.Reader, n int) error {
	if n > a.missing() {
		return fmt.Errorf("%w: more bytes than announced", ErrBadFrame)
	}
	a.skipped += len(a.value) + n
	a.value = nil
	_, err := r.Discard(n)
	return err
}

// read takes the next n bytes from r.
func (a *assembly) read(r *bufio.Reader, n int) error {
	if n > a.missing() {
		return fmt.Errorf("%w: more bytes than announced", ErrBadFrame)
	}
	have := len(a.value)
	if have+n > cap(a.value) {
		room := min(a.total, max(2*cap(a.value), have+n))
		a.value = append(make([]byte, 0, room), a.value...)
	}
	a.value = a.value[:have+n]
	_, err := io.ReadFull(r, a.value[have:])
	return err
}
