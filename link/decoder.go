package link

import (
	"encoding/binary"
	"fmt"
)

// Decoder reads the fields of a body. After the first error it yields zeros.
type Decoder struct {
	B   []byte // what is left of the body
	Err error  // the first error
}

// Fail makes the body a broken one.
func (d *Decoder) Fail(what string) {
	if d.Err == nil {
		d.Err = fmt.Errorf("%w: %s", ErrBadFrame, what)
	}
	d.B = nil
}

// Byte reads one byte.
func (d *Decoder) Byte() byte {
	if len(d.B) == 0 {
		d.Fail("too short")
		return 0
	}
	c := d.B[0]
	d.B = d.B[1:]
	return c
}

// Uint64 reads 8 bytes.
func (d *Decoder) Uint64() uint64 {
	if len(d.B) < 8 {
		d.Fail("too short")
		return 0
	}
	n := binary.BigEndian.Uint64(d.B)
	d.B = d.B[8:]
	return n
}

// Uvarint reads a number of 1 to 10 bytes.
func (d *Decoder) Uvarint() uint64 {
	n, size := binary.Uvarint(d.B)
	if size <= 0 {
		d.Fail("bad number")
		return 0
	}
	d.B = d.B[size:]
	return n
}

// Length reads a Uvarint of at most most.
func (d *Decoder) Length(most int) int {
	n := d.Uvarint()
	if n > uint64(most) {
		d.Fail("number out of range")
		return 0
	}
	return int(n)
}

// Bytes reads a length and that many bytes, which are part of the body.
func (d *Decoder) Bytes() []byte {
	n := d.Length(len(d.B))
	b := d.B[:min(n, len(d.B))]
	d.B = d.B[len(b):]
	return b
}

// Text is Bytes as a string.
func (d *Decoder) Text() string { return string(d.Bytes()) }

// Texts reads a list of texts.
func (d *Decoder) Texts() []string {
	n := d.Length(len(d.B)) // each takes a byte at least
	var list []string
	for range n {
		list = append(list, d.Text())
		if d.Err != nil {
			return nil
		}
	}
	return list
}

// End reports the first error, or that bytes are left over.
func (d *Decoder) End() error {
	if d.Err == nil && len(d.B) > 0 {
		d.Fail("bytes left over")
	}
	return d.Err
}

// AppendString appends what Bytes and Text read.
func AppendString(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// AppendStrings appends a list that Texts reads.
func AppendStrings(b []byte, list []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, s := range list {
		b = AppendString(b, s)
	}
	return b
}
