package peers

import (
	"context"
	"encoding/binary"
	"time"

	"kring/cache"
)

// Many gets travel as one call, which is answered at once with what is stored,
// as far as it has room in one frame: for the rest, for what must be loaded,
// and for keys that the node asked does not act for, the caller makes a call
// each. So no batch waits for a load, and nothing need be said of its progress.
// Each answer in it is a get in the books; what is left out is none.

const (
	// MaxMany and MaxManyBytes bound the keys of one OpGetMany.
	MaxMany      = 1024
	MaxManyBytes = 64 << 10
)

// Pending is a call that was begun, and that Wait must follow.
type Pending struct {
	call *call
}

// Begin sends a call, unless there is no link to the member: it does not wait for
// one.
func (p *Peers) Begin(ctx context.Context, member string, req *Request) (Pending, bool) {
	pe := p.others[member]
	l := pe.link.Load()
	if l == nil || l.Ended() {
		return Pending{}, false
	}
	pe.calls.Add(1)
	c, err := l.begin(ctx, req)
	if NoAnswer(err) {
		pe.failed.Add(1)
	}
	return Pending{c}, err == nil
}

// Wait waits for the call's final answer. Errors are Call's.
func (b *Pending) Wait(ctx context.Context) (Reply, error) {
	r, err := b.call.wait(ctx)
	if NoAnswer(err) {
		b.call.l.pe.failed.Add(1)
	}
	return r, err
}

// counted is how many gets an answer to the request has that are in the books
// of the node that answered.
func (r *Request) counted(answer *Reply) uint64 {
	n := uint64(0)
	switch {
	case r.Op == cache.OpGet && answer.Counted:
		n = 1
	case r.Op == OpGetMany:
		for i := range answer.Many {
			if answer.Many[i].Kind != cache.KindNone {
				n++
			}
		}
	}
	return n
}

// appendMany appends the answers to many gets: for each a byte, KindNone for
// one that is left out, and else its entry.
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
