package peers

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
	frameCall    frameType = iota + 1 // a request; see codec.go
	frameChunk                        // the next part of a big value, of a call or an answer
	frameAnswer                       // the final word on a request
	frameLoading                      // the request is being worked on; see loading.go
	frameCancel                       // the caller no longer waits
	framePing                         // 8 bytes that come back in the pong
	framePong                         // see pong
)

const (
	headerLen = 32
	// chunkLen is the most of a value in one frame, so that a big value delays
	// a small one by no more than the time for one chunk.
	chunkLen = 64 << 10
	// maxMeta bounds everything in a frame but the value: key, types, tags.
	maxMeta = 128 << 10
)

// errBadFrame closes the link that carried it.
var errBadFrame = errors.New("bad frame")

type header struct {
	typ         frameType
	body        int // length of the body
	id          uint64
	view        uint64
	incarnation uint64
}

// appendHeader begins a frame; endFrame fills in its length.
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

// parseHeader reads a header and checks what can be checked before a byte of
// the body is read or room for it is made.
func parseHeader(b []byte) (header, error) {
	h := header{
		typ: frameType(b[4]), id: binary.BigEndian.Uint64(b[8:]),
		view: binary.BigEndian.Uint64(b[16:]), incarnation: binary.BigEndian.Uint64(b[24:]),
	}
	length := binary.BigEndian.Uint32(b)
	var least, most uint32
	switch h.typ {
	case frameCall, frameAnswer:
		least, most = 1, maxMeta+chunkLen
	case frameChunk:
		least, most = 1, chunkLen
	case frameCancel:
	case frameLoading:
		most = loadingLen
	case framePing:
		least, most = 8, 8
	case framePong:
		least, most = 8, maxMeta
	default:
		return header{}, fmt.Errorf("%w: unknown type %d", errBadFrame, b[4])
	}
	if b[5]|b[6]|b[7] != 0 {
		return header{}, fmt.Errorf("%w: reserved bytes are set", errBadFrame)
	}
	if length < headerLen-4+least || length > headerLen-4+most {
		return header{}, fmt.Errorf("%w: length %d of type %d", errBadFrame, length, h.typ)
	}
	h.body = int(length) - (headerLen - 4)
	return h, nil
}

// frameReader reads frames from a connection.
type frameReader struct {
	r     *bufio.Reader
	under *bufio.Reader // what r reads from, if that is buffered, too
}

func newFrameReader(r io.Reader) frameReader {
	f := frameReader{r: bufio.NewReaderSize(r, chunkLen)}
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

func (f frameReader) header() (header, error) {
	b, err := f.r.Peek(headerLen)
	if err != nil {
		return header{}, err
	}
	h, err := parseHeader(b)
	if err != nil {
		return header{}, err
	}
	_, err = f.r.Discard(headerLen)
	return h, err
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
	b := make([]byte, h.body) // at most maxMeta+chunkLen: parseHeader has seen to it
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
		return fmt.Errorf("%w: more bytes than announced", errBadFrame)
	}
	a.skipped += len(a.value) + n
	a.value = nil
	_, err := r.Discard(n)
	return err
}

// read takes the next n bytes from r.
func (a *assembly) read(r *bufio.Reader, n int) error {
	if n > a.missing() {
		return fmt.Errorf("%w: more bytes than announced", errBadFrame)
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

// decoder reads the fields of a body; after the first error it yields zeros.
type decoder struct {
	b    []byte
	err  error
	last string // what repeated read
}

func (d *decoder) fail(what string) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s", errBadFrame, what)
	}
	d.b = nil
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.fail("too short")
		return 0
	}
	c := d.b[0]
	d.b = d.b[1:]
	return c
}

func (d *decoder) uint64() uint64 {
	if len(d.b) < 8 {
		d.fail("too short")
		return 0
	}
	n := binary.BigEndian.Uint64(d.b)
	d.b = d.b[8:]
	return n
}

func (d *decoder) uvarint() uint64 {
	n, size := binary.Uvarint(d.b)
	if size <= 0 {
		d.fail("bad number")
		return 0
	}
	d.b = d.b[size:]
	return n
}

// length reads a number that may be at most most.
func (d *decoder) length(most int) int {
	n := d.uvarint()
	if n > uint64(most) {
		d.fail("number out of range")
		return 0
	}
	return int(n)
}

// bytes reads a length and as many bytes, which are part of the body.
func (d *decoder) bytes() []byte {
	n := d.length(len(d.b))
	b := d.b[:min(n, len(d.b))]
	d.b = d.b[len(b):]
	return b
}

func (d *decoder) string() string { return string(d.bytes()) }

// repeated reads what is mostly the same as the last one that it read.
func (d *decoder) repeated() string {
	if b := d.bytes(); string(b) != d.last {
		d.last = string(b)
	}
	return d.last
}

func (d *decoder) strings() []string {
	n := d.length(len(d.b)) // each takes a byte at least
	var list []string
	for range n {
		list = append(list, d.string())
		if d.err != nil {
			return nil
		}
	}
	return list
}

// end reports the first error, or that something was left over.
func (d *decoder) end() error {
	if d.err == nil && len(d.b) > 0 {
		d.fail("bytes left over")
	}
	return d.err
}

func appendString(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

func appendStrings(b []byte, list []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, s := range list {
		b = appendString(b, s)
	}
	return b
}
