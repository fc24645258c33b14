package peers

import (
	"encoding/binary"
	"math"
	"time"

	"kring/cache"
)

const (
	entryNegative = 1 << iota
	entryNoStore
	entryFlagsEnd
)

// appendEntry appends an entry, its value last. Its age travels as a duration:
// nodes' clocks may differ. Its tags stay behind: there may be as many as a head
// holds, and the node that asked does not store the entry.
func appendEntry(b []byte, e *cache.Entry, now time.Time) []byte {
	flags := byte(0)
	if e.Negative {
		flags |= entryNegative
	}
	if e.NoStore {
		flags |= entryNoStore
	}
	b = append(b, flags)
	b = appendString(b, e.ContentType)
	b = appendString(b, e.ContentEncoding)
	b = appendString(b, e.ETag)
	b = appendString(b, e.LastModified)
	b = appendString(b, e.OriginETag)
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

// described is an entry all but its value.
func (d *decoder) described(now time.Time) *cache.Entry {
	flags := d.byte()
	if flags >= entryFlagsEnd {
		d.fail("unknown flags of an entry")
	}
	e := &cache.Entry{
		Negative: flags&entryNegative != 0, NoStore: flags&entryNoStore != 0,
		ContentType: d.repeated(), ContentEncoding: d.string(), ETag: d.string(),
		LastModified: d.string(), OriginETag: d.string(),
		Version: cache.Version{View: d.uint64(), ViewID: d.uint64(), Counter: d.uint64()},
		Born:    now.Add(-d.duration()),
	}
	if ttl := d.duration(); ttl > 0 {
		e.Expires = e.Born.Add(ttl)
	}
	e.StaleWhileRevalidate, e.StaleIfError = d.duration(), d.duration()
	return e
}

func appendCopy(b []byte, c *cache.Copy, now time.Time) []byte {
	b = appendString(b, c.Node)
	b = appendString(b, c.Role)
	b = appendString(b, c.State)
	b = appendString(b, c.Version)
	b = binary.BigEndian.AppendUint64(b, math.Float64bits(c.Age))
	b = binary.BigEndian.AppendUint64(b, math.Float64bits(c.TTL))
	forever := byte(0)
	if c.Forever {
		forever = 1
	}
	b = append(b, forever)
	if l := c.LastLoad; l != nil {
		b = appendString(b, l.Endpoint)
		b = appendDuration(b, now.Sub(l.At))
		b = binary.BigEndian.AppendUint64(b, math.Float64bits(l.Millis))
		b = binary.AppendUvarint(b, uint64(max(0, l.Status)))
		b = appendString(b, string(l.Code))
		b = binary.AppendUvarint(b, uint64(max(0, l.Waited)))
	}
	return b
}

func (d *decoder) copy(lastLoad bool, now time.Time) *cache.Copy {
	c := &cache.Copy{
		Node: d.string(), Role: d.string(), State: d.string(), Version: d.string(),
		Age: d.float(), TTL: d.float(), Forever: d.byte() == 1,
	}
	if lastLoad {
		c.LastLoad = &cache.LastLoad{
			Endpoint: d.string(), At: now.Add(-d.duration()), Millis: d.float(),
			Status: d.length(999), Code: cache.Code(d.string()), Waited: d.length(math.MaxInt32),
		}
	}
	return c
}

// float reads a number that JSON can carry.
func (d *decoder) float() float64 {
	f := math.Float64frombits(d.uint64())
	if math.IsNaN(f) || math.IsInf(f, 0) {
		d.fail("not a number")
		return 0
	}
	return f
}
