package peers

import (
	"encoding/binary"
	"math"
	"time"

	"kring/cache"
	"kring/link"
)

// decoder reads the fields of requests and replies.
type decoder struct {
	link.Decoder
	last string // what repeated read
}

// repeated reads a text that is mostly the same as the last one that it read.
func (d *decoder) repeated() string {
	if b := d.Bytes(); string(b) != d.last {
		d.last = string(b)
	}
	return d.last
}

// maxDuration bounds durations in frames, so that the sum of a few does not overflow.
const maxDuration = 30 * 365 * 24 * time.Hour

func appendDuration(b []byte, t time.Duration) []byte {
	return binary.AppendUvarint(b, uint64(min(max(0, t), maxDuration)))
}

func (d *decoder) duration() time.Duration { return time.Duration(d.Length(int(maxDuration))) }

// appendValue ends a body: the value's length and, if it is at most link.ChunkLen,
// the value.
func appendValue(b, value []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(value)))
	if len(value) <= link.ChunkLen {
		b = append(b, value...)
	}
	return b
}

// value reads what appendValue wrote into a slice of exactly its size.
func (d *decoder) value(maxValue int) (value []byte, total int) {
	total = d.Length(maxValue)
	if total > link.ChunkLen || d.Err != nil {
		return nil, total
	}
	if len(d.B) != total {
		d.Fail("value of another length than announced")
		return nil, 0
	}
	value = make([]byte, total)
	copy(value, d.B)
	d.B = nil
	return value, total
}

func (d *decoder) kind() cache.Kind {
	k := cache.Kind(d.Byte())
	if k > cache.KindRefused {
		d.Fail("unknown kind")
	}
	return k
}

// float reads a number that JSON can carry.
func (d *decoder) float() float64 {
	f := math.Float64frombits(d.Uint64())
	if math.IsNaN(f) || math.IsInf(f, 0) {
		d.Fail("not a number")
		return 0
	}
	return f
}
