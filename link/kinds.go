package link

import (
	"encoding/binary"
	"fmt"
)

// kinds is the table of frames. A new kind of frame is one row here and one
// method of the end that takes it.
var kinds = [...]struct {
	least, most int // of the body, in bytes
	// The method that takes the frame, at the end that calls and at the end that
	// answers. An end without one breaks the link.
	outgoing func(*Outgoing, header) error
	incoming func(*Incoming, header) error
}{
	frameCall:    {1, MaxMeta + ChunkLen, nil, (*Incoming).called},
	frameChunk:   {1, ChunkLen, (*Outgoing).chunk, (*Incoming).chunk},
	frameAnswer:  {1, MaxMeta + ChunkLen, (*Outgoing).answered, nil},
	frameLoading: {0, MaxProgress, (*Outgoing).progress, nil},
	frameCancel:  {0, 0, nil, (*Incoming).cancelled},
	framePing:    {8, 8, nil, (*Incoming).pinged},
	framePong:    {8, MaxMeta, (*Outgoing).pong, nil},
}

// parseHeader reads a header and checks what can be checked before a byte of
// the body is read or room for it is made.
func parseHeader(b []byte) (header, error) {
	h := header{
		typ: frameType(b[4]), id: binary.BigEndian.Uint64(b[8:]),
		view: binary.BigEndian.Uint64(b[16:]), incarnation: binary.BigEndian.Uint64(b[24:]),
	}
	if h.typ < frameCall || int(h.typ) >= len(kinds) {
		return header{}, fmt.Errorf("%w: unknown type %d", ErrBadFrame, h.typ)
	}
	if b[5]|b[6]|b[7] != 0 {
		return header{}, fmt.Errorf("%w: reserved bytes are set", ErrBadFrame)
	}
	length, kind := int64(binary.BigEndian.Uint32(b)), &kinds[h.typ]
	body := length - (headerLen - 4)
	if body < int64(kind.least) || body > int64(kind.most) {
		return header{}, fmt.Errorf("%w: length %d of type %d", ErrBadFrame, length, h.typ)
	}
	h.body = int(body)
	return h, nil
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
