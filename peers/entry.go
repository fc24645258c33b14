package peers

import (
	"encoding/binary"
	"math"
	"time"

	"kring/cache"
	"kring/link"
)

const (
	entryNegative = 1 << iota
	entryNoStore
	entryFlagsEnd
)

// appendEntry appends an entry, its value last. Its age travels as a duration,
// because nodes' clocks may differ. Its tags do not travel: they may fill a whole
// head, and the node that asked does not store the entry.
func appendEntry(b []byte, e *cache.Entry, now time.Time) []byte {
	flags := byte(0)
	if e.Negative {
		flags |= entryNegative
	}
	if e.NoStore {
		flags |= entryNoStore
	}
	b = append(b, flags)
	b = link.AppendString(b, e.ContentType)
	b = link.AppendString(b, e.ContentEncoding)
	b = link.AppendString(b, e.ETag)
	b = link.AppendString(b, e.LastModified)
	b = link.AppendString(b, e.OriginETag)
	b = binary.BigEndian.AppendUint64(b, e.Version.View)
	b = binary.BigEndian.AppendUint64(b, e.Version.ViewID)
	b = binary.BigEndian.AppendUint64(b, e.Version.Counter)
	age, ttl := e.Age(now), time.Duration(0) // 0: for ever
	if !e.Forever() {
		if ttl = e.TTL(); ttl <= 0 { // over at once
			age, ttl = age+1, 1
		}
	}
	b = appendDuration(b, age)
	b = appendDuration(b, ttl)
	b = appendDuration(b, e.StaleWhileRevalidate)
	b = appendDuration(b, e.StaleIfError)
	return appendValue(b, e.Value)
}

func (d *decoder) entry(maxValue int, now time.Time) (e *cache.Entry, total int) {
	e = d.described(now)
	e.Value, total = d.value(maxValue)
	return e, total
}

// described reads an entry without its value.
func (d *decoder) described(now time.Time) *cache.Entry {
	flags := d.Byte()
	if flags >= entryFlagsEnd {
		d.Fail("unknown flags of an entry")
	}
	e := &cache.Entry{
		Negative: flags&entryNegative != 0, NoStore: flags&entryNoStore != 0,
		ContentType: d.repeated(), ContentEncoding: d.Text(), ETag: d.Text(),
		LastModified: d.Text(), OriginETag: d.Text(),
		Version: cache.Version{View: d.Uint64(), ViewID: d.Uint64(), Counter: d.Uint64()},
		Born:    now.Add(-d.duration()),
	}
	if ttl := d.duration(); ttl > 0 {
		e.Expires = e.Born.Add(ttl)
	}
	e.StaleWhileRevalidate, e.StaleIfError = d.duration(), d.duration()
	return e
}

func appendCopy(b []byte, c *cache.Copy, now time.Time) []byte {
	b = link.AppendString(b, c.Node)
	b = link.AppendString(b, c.Role)
	b = link.AppendString(b, c.State)
	b = link.AppendString(b, c.Version)
	b = binary.BigEndian.AppendUint64(b, math.Float64bits(c.Age))
	b = binary.BigEndian.AppendUint64(b, math.Float64bits(c.TTL))
	forever := byte(0)
	if c.Forever {
		forever = 1
	}
	b = append(b, forever)
	if l := c.LastLoad; l != nil {
		b = link.AppendString(b, l.Endpoint)
		b = appendDuration(b, now.Sub(l.At))
		b = binary.BigEndian.AppendUint64(b, math.Float64bits(l.Millis))
		b = binary.AppendUvarint(b, uint64(max(0, l.Status)))
		b = link.AppendString(b, string(l.Code))
		b = binary.AppendUvarint(b, uint64(max(0, l.Waited)))
	}
	return b
}

func (d *decoder) copy(lastLoad bool, now time.Time) *cache.Copy {
	c := &cache.Copy{
		Node: d.Text(), Role: d.Text(), State: d.Text(), Version: d.Text(),
		Age: d.float(), TTL: d.float(), Forever: d.Byte() == 1,
	}
	if lastLoad {
		c.LastLoad = &cache.LastLoad{
			Endpoint: d.Text(), At: now.Add(-d.duration()), Millis: d.float(),
			Status: d.Length(999), Code: cache.Code(d.Text()), Waited: d.Length(math.MaxInt32),
		}
	}
	return c
}
