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
	// maxMany and maxManyBytes bound the keys of one call.
	maxMany      = 1024
	maxManyBytes = 64 << 10
)

// ForwardMany asks the nodes that act for keys for what they have stored; see
// cache.BatchRouter.
func (p *Peers) ForwardMany(ctx context.Context, group string, keys []string) []cache.Answer {
	answers := make([]cache.Answer, len(keys))
	var begun []*gathering
	for id, at := range p.byActing(keys) {
		for len(at) > 0 {
			g := &gathering{pe: p.others[id]}
			at = g.take(keys, at)
			if g.begin(ctx, group) {
				begun = append(begun, g)
			}
		}
	}
	for _, g := range begun {
		r, err := g.link.wait(ctx, g.call)
		if failedTry(err) {
			g.pe.failed.Add(1)
		}
		if err != nil {
			continue
		}
		for n, a := range r.many {
			if a.Entry != nil {
				a.Node, a.OwnerKind, a.Kind = r.answer.Node, a.Kind, cache.KindPeer
				answers[g.at[n]] = a
			}
		}
	}
	return answers
}

// byActing sorts keys by the other members that act for them: their indices.
func (p *Peers) byActing(keys []string) map[string][]int {
	v := p.view.Load()
	acting := make(map[string][]int, len(p.others))
	for i, key := range keys {
		if id, _ := p.acting(v, key, nil); id != p.self {
			acting[id] = append(acting[id], i)
		}
	}
	return acting
}

// gathering is one call for many keys.
type gathering struct {
	pe   *peer
	link *link
	call *call
	keys []string
	at   []int // their places among all that are wanted
}

// take takes as many of the keys at places as one call may have, and returns
// the other places.
func (g *gathering) take(keys []string, places []int) (rest []int) {
	bytes := 0
	g.keys, g.at = make([]string, 0, len(places)), make([]int, 0, len(places))
	for n, i := range places {
		bytes += len(keys[i])
		if n > 0 && bytes > maxManyBytes || n == maxMany {
			return places[n:]
		}
		g.keys, g.at = append(g.keys, keys[i]), append(g.at, i)
	}
	return nil
}

// begin sends the call, unless there is no link: who asks for one key after the
// other waits for that, or finds out who else acts.
func (g *gathering) begin(ctx context.Context, group string) bool {
	g.link = g.pe.link.Load()
	if g.link == nil || g.link.w.ended.Load() {
		return false
	}
	g.pe.calls.Add(1)
	var err error
	g.call, err = g.link.begin(ctx, &request{
		Request: cache.Request{Op: opGetMany, Key: cache.Key{Group: group}}, hop: 1, keys: g.keys,
	})
	if failedTry(err) {
		g.pe.failed.Add(1)
	}
	return err == nil
}

// counted is how many gets an answer to the request has that are in the books
// of the node that answered.
func (r *request) counted(answer *reply) uint64 {
	n := uint64(0)
	switch {
	case r.Op == cache.OpGet && answer.counted:
		n = 1
	case r.Op == opGetMany:
		for i := range answer.many {
			if answer.many[i].Kind != cache.KindNone {
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
	many := make([]cache.Answer, d.length(min(maxMany, len(d.b))))
	for i := range many {
		if kind := d.kind(); kind != cache.KindNone {
			many[i].Kind, many[i].Entry = kind, d.described(now)
			value := d.bytes()
			if len(value) > maxValue {
				d.fail("value too large")
			}
			many[i].Entry.Value = make([]byte, len(value))
			copy(many[i].Entry.Value, value)
		}
		if d.err != nil {
			return nil
		}
	}
	if len(many) == 0 {
		d.fail("no answer to many gets")
	}
	return many
}

// keys reads what appendStrings wrote. The keys are parts of one string.
func (d *decoder) keys() []string {
	n := d.length(min(maxMany, len(d.b))) // each takes a byte at least
	text := string(d.b)
	keys := make([]string, 0, n)
	for range n {
		size := len(d.bytes())
		end := len(text) - len(d.b)
		keys = append(keys, text[end-size:end])
		if d.err != nil {
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
