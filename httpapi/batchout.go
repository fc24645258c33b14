package httpapi

import (
	"context"
	"fmt"
	"io"
	"sync"
	"unicode/utf8"

	"kring/cache"
)

// batchRequest is a batch in either form.
type batchRequest struct {
	del  bool
	keys []string
}

// batchEntry is the result of one key.
type batchEntry struct {
	key    string
	status int
	code   cache.Code // of the problem, or ""
	age    int64
	entry  *cache.Entry // nil: no value
}

// batchEncoder writes a batch's answer piece by piece.
type batchEncoder interface {
	contentType() string
	begin(out *batchOut, keys int)
	entry(out *batchOut, e batchEntry)
	end(out *batchOut)
}

// batchBuffers are the memory in which answers of batches are encoded.
var batchBuffers = sync.Pool{New: func() any { return new([batchBuffer]byte) }}

// batchOut gathers a batch's answer, and writes it in parts of flushBytes or
// more.
type batchOut struct {
	w      io.Writer
	keys   int                  // of the whole batch
	start  func(*batchOut, int) // writes the head
	memory *[batchBuffer]byte   // nil: the answer is small
	buf    []byte               // what was gathered; in memory if there is one
	begun  bool
	err    error
}

// begin starts the answer, and gets memory if there is no buffer: not before
// there is something to encode. The second time it does nothing.
func (o *batchOut) begin() {
	if o.begun {
		return
	}
	o.begun = true
	if o.buf == nil {
		o.memory = batchBuffers.Get().(*[batchBuffer]byte)
		o.buf = o.memory[:0]
	}
	o.start(o, o.keys)
}

func (o *batchOut) close() {
	if o.memory != nil {
		batchBuffers.Put(o.memory)
	}
}

func (o *batchOut) flush() {
	if o.err == nil {
		_, o.err = o.w.Write(o.buf)
	}
	o.buf = o.buf[:0]
}

func (o *batchOut) flushFull() {
	if len(o.buf) >= flushBytes {
		o.flush()
	}
}

// failure is an error once a write has failed: the client is gone.
func (o *batchOut) failure() error {
	if o.err != nil {
		return fmt.Errorf("write a batch's answer: %w", context.Canceled)
	}
	return nil
}

// text appends a short text.
func (o *batchOut) text(s string) { o.buf = append(o.buf, s...) }

// writePieces encodes s piece by piece, until the client is gone.
func writePieces[T string | []byte](o *batchOut, s T, encode func(out []byte, piece T) []byte) {
	for len(s) > batchPiece && o.err == nil {
		o.buf = encode(o.buf, s[:batchPiece])
		s = s[batchPiece:]
		o.flushFull()
	}
	if o.err == nil {
		o.buf = encode(o.buf, s)
		o.flushFull()
	}
}

// writeCharacters is writePieces for UTF-8: no piece ends within a character.
func writeCharacters[T string | []byte](o *batchOut, s T, encode func(out []byte, piece T) []byte) {
	for len(s) > batchPiece && o.err == nil {
		n := batchPiece
		for n > batchPiece-utf8.UTFMax && !utf8.RuneStart(s[n]) {
			n--
		}
		o.buf = encode(o.buf, s[:n])
		s = s[n:]
		o.flushFull()
	}
	if o.err == nil {
		o.buf = encode(o.buf, s)
		o.flushFull()
	}
}

func tooManyKeys(most int) error {
	return cache.ErrValueTooLarge.With(fmt.Sprintf("a batch has at most %d keys", most))
}
