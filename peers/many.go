package peers

import (
	"encoding/binary"
	"time"

	"kring/cache"
)

// Many gets travel as one call. The member answers it at once with what it has
// stored, as far as that fits in one frame. For each key that it leaves out (the
// entry does not fit, must be loaded, or belongs to another member) the caller makes
// a call of its own. So no batch waits for a load, and none needs loading frames. Each
// answer in it is a get in the books; a key that is left out is not.

const (
	// MaxMany and MaxManyBytes bound the keys of one OpGetMany.
	MaxMany      = 1024
	MaxManyBytes = 64 << 10
)

// appendMany appends the answers to many gets: for each a byte for its kind and then
// its entry, or KindNone for a key that is left out.
func appendMany(b []byte, many []cache.Answer, now time.Time) []byte {
	b = binary.AppendUvarint(b, uint64(len(many)))
	for i := range many {
		b = append(b, byte(many[i].Kind))
		if many[i].Kind != cache.KindNone {
			b = appendEntry(b, many[i].Entry, now)
		}
	}
	return b
}

func (d *decoder) many(maxValue int, now time.Time) []cache.Answer {
	many := make([]cache.Answer, d.Length(min(MaxMany, len(d.B))))
	for i := range many {
		if kind := d.kind(); kind != cache.KindNone {
			many[i].Kind, many[i].Entry = kind, d.described(now)
			value := d.Bytes()
			if len(value) > maxValue {
				d.Fail("value too large")
			}
			many[i].Entry.Value = make([]byte, len(value))
			copy(many[i].Entry.Value, value)
		}
		if d.Err != nil {
			return nil
		}
	}
	if len(many) == 0 {
		d.Fail("no answer to many gets")
	}
	return many
}

// keys reads what link.AppendStrings has appended. The keys are parts of one string.
func (d *decoder) keys() []string {
	n := d.Length(min(MaxMany, len(d.B))) // each takes a byte at least
	text := string(d.B)
	keys := make([]string, 0, n)
	for range n {
		size := len(d.Bytes())
		end := len(text) - len(d.B)
		keys = append(keys, text[end-size:end])
		if d.Err != nil {
			return nil
		}
	}
	return keys
}

// sizeOf is at least as many bytes as an entry takes in a frame.
func sizeOf(e *cache.Entry) int {
	const numbers = 3*8 + 11*binary.MaxVarintLen64 // versions, lengths and durations
	return numbers + len(e.Value) + len(e.ContentType) + len(e.ContentEncoding) + len(e.ETag) + len(e.LastModified) + len(e.OriginETag)
}
