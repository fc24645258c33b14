package peers

import (
	"encoding/binary"
	"errors"
	"regexp"
	"time"

	"kring/cache"
)

// Operations besides cache.Op's, which keep their numbers.
const (
	opPurge     cache.Op = 16 + iota // drop the key's group
	opCopy                           // describe the key's copy
	opPurgeTags                      // drop what carries a tag from the key's group
	opGetMany                        // many gets of the key's group: see many.go
)

// maxDuration bounds durations in frames, so that sums of a few never overflow.
const maxDuration = 30 * 365 * 24 * time.Hour

// request is a call as it crosses a link.
type request struct {
	cache.Request
	hop       uint8         // 1: from the entry node; 2: passed on, the last
	remaining time.Duration // until the caller's deadline; 0: it has none
	deadline  time.Time     // at the caller alone, likewise
	requestID string        // of the client's request, of a get; "": none
	tags      []string      // of opPurgeTags, at least one
	keys      []string      // of opGetMany, at least one

	// into is where the entry of the answer goes, for which room bytes are
	// charged already; nil: nothing is. It does not cross the link.
	into *cache.Entry
	room int
}

// Flags of a request. A delete's conditions and a get's request id are there only
// if it has any.
const (
	flagOnlyIfCached = 1 << iota
	flagConditional
	flagRequestID
)

// maxRequestID is the longest request id, in bytes: it is for logs.
const maxRequestID = 128

// appendRequest appends the body of a call. A value of more than chunkLen
// follows in chunks.
func appendRequest(b []byte, r *request) []byte {
	flags := byte(0)
	if r.OnlyIfCached {
		flags |= flagOnlyIfCached
	}
	if r.Op == cache.OpDelete && len(r.IfMatch)+len(r.IfNoneMatch) > 0 {
		flags |= flagConditional
	}
	if r.Op == cache.OpGet && r.requestID != "" && len(r.requestID) <= maxRequestID {
		flags |= flagRequestID
	}
	b = append(b, byte(r.Op), r.hop, flags)
	b = appendDuration(b, r.remaining)
	b = appendString(b, r.Key.Group)
	b = appendString(b, r.Key.Key)
	if r.Op == cache.OpPut || r.Op == cache.OpDelete {
		b = binary.BigEndian.AppendUint64(b, r.ID)
	}
	if flags&flagConditional != 0 {
		b = appendStrings(b, r.IfMatch)
		b = appendStrings(b, r.IfNoneMatch)
	}
	switch r.Op {
	case cache.OpGet:
		if flags&flagRequestID != 0 {
			b = appendString(b, r.requestID)
		}
		return b
	case opPurgeTags:
		return appendStrings(b, r.tags)
	case opGetMany:
		return appendStrings(b, r.keys)
	case cache.OpPut:
	default:
		return b
	}
	b = appendString(b, r.ContentType)
	b = appendString(b, r.ContentEncoding)
	b = appendDuration(b, r.TTL)
	b = appendStrings(b, r.IfMatch)
	b = appendStrings(b, r.IfNoneMatch)
	return appendValue(b, r.Value)
}

// parseRequest reads the body of a call. total is the length of the value; if
// it is more than chunkLen, the value follows in chunks.
func parseRequest(b []byte, maxValue int) (r request, total int, err error) {
	d := decoder{b: b}
	r.Op, r.hop = cache.Op(d.byte()), d.byte()
	flags := d.byte()
	r.OnlyIfCached = flags&flagOnlyIfCached != 0
	r.remaining = d.duration()
	r.Key.Group = d.string()
	r.Key.Key = d.string()
	switch r.Op {
	case cache.OpGet:
		if flags&flagRequestID != 0 {
			if r.requestID = d.string(); len(r.requestID) > maxRequestID {
				d.fail("a request id that is too long")
			}
		}
	case opPurge, opCopy:
	case opPurgeTags:
		if r.tags = d.strings(); len(r.tags) == 0 {
			d.fail("a purge by tag without a tag")
		}
	case opGetMany:
		if r.keys = d.keys(); len(r.keys) == 0 {
			d.fail("many gets without a key")
		}
	case cache.OpDelete:
		r.ID = d.uint64()
		if flags&flagConditional != 0 {
			r.IfMatch = d.strings()
			r.IfNoneMatch = d.strings()
		}
	case cache.OpPut:
		r.ID = d.uint64()
		r.ContentType = d.string()
		r.ContentEncoding = d.string()
		r.TTL = d.duration()
		r.IfMatch = d.strings()
		r.IfNoneMatch = d.strings()
		r.Value, total = d.value(maxValue)
	default:
		d.fail("unknown operation")
	}
	if flags&^(flagOnlyIfCached|flagConditional|flagRequestID) != 0 || flags&flagConditional != 0 && r.Op != cache.OpDelete ||
		flags&flagRequestID != 0 && r.Op != cache.OpGet || r.hop < 1 || r.hop > 2 {
		d.fail("unknown flag or hop")
	}
	return r, total, d.end()
}

// reply is a final answer as it crosses a link.
type reply struct {
	answer cache.Answer   // of a get or a write
	many   []cache.Answer // of opGetMany: see many.go
	err    error          // in its place
	copy   *cache.Copy    // of opCopy; nil: none

	counted   bool // it is in the books of the node that answered
	cancelled bool // given up because the caller did
	notOwner  bool // the node asked is not the one to act
	shared    bool // it was another get's, and taken for this one's: never on a link
}

const (
	flagCounted = 1 << iota
	flagCancelled
	flagNotOwner
	flagError
	flagEntry
	flagStored
	flagCreated
	flagStaleError
	flagCopy
	flagLastLoad
	flagMany
	flagStandIn
	flagsEnd
)

func (r *reply) flags() uint64 {
	var flags uint64
	set := func(on bool, flag uint64) {
		if on {
			flags |= flag
		}
	}
	set(r.counted, flagCounted)
	set(r.cancelled, flagCancelled)
	set(r.notOwner, flagNotOwner)
	set(r.err != nil, flagError)
	set(r.err == nil && r.answer.Entry != nil, flagEntry)
	set(r.answer.Stored, flagStored)
	set(r.answer.Created, flagCreated)
	set(r.answer.StaleError, flagStaleError)
	set(r.answer.StandIn, flagStandIn)
	set(r.copy != nil, flagCopy)
	set(r.copy != nil && r.copy.LastLoad != nil, flagLastLoad)
	set(r.many != nil, flagMany)
	return flags
}

// value is the value that the reply carries, or nil.
func (r *reply) value() []byte {
	if r.err != nil || r.answer.Entry == nil {
		return nil
	}
	return r.answer.Entry.Value
}

func appendReply(b []byte, r *reply, now time.Time) []byte {
	b = binary.AppendUvarint(b, r.flags())
	b = append(b, byte(r.answer.Kind), byte(r.answer.OwnerKind))
	b = appendString(b, r.answer.Node)
	b = binary.AppendUvarint(b, uint64(max(0, r.answer.Status)))
	if r.err != nil {
		code, detail, retryAfter := errorCode(r.err)
		b = appendString(b, string(code))
		b = appendString(b, detail)
		b = appendDuration(b, retryAfter)
	} else if r.answer.Entry != nil {
		b = appendEntry(b, r.answer.Entry, now)
	}
	if r.copy != nil {
		b = appendCopy(b, r.copy, now)
	}
	if r.many != nil {
		b = appendMany(b, r.many, now)
	}
	return b
}

// parseReply reads the body of an answer. If total is more than chunkLen, the
// entry's value follows in chunks.
func parseReply(b []byte, maxValue int, now time.Time) (r reply, total int, err error) {
	d := decoder{b: b}
	flags := d.uvarint()
	if flags >= flagsEnd || flags&(flagError|flagEntry) == flagError|flagEntry ||
		flags&(flagEntry|flagCopy) == flagEntry|flagCopy || flags&flagMany != 0 && flags&(flagError|flagEntry|flagCopy) != 0 || flags&(flagCopy|flagLastLoad) == flagLastLoad {
		d.fail("unknown flags")
	}
	r.counted = flags&flagCounted != 0
	r.cancelled = flags&flagCancelled != 0
	r.notOwner = flags&flagNotOwner != 0
	r.answer.Stored = flags&flagStored != 0
	r.answer.Created = flags&flagCreated != 0
	r.answer.StaleError = flags&flagStaleError != 0
	r.answer.StandIn = flags&flagStandIn != 0
	r.answer.Kind = d.kind()
	r.answer.OwnerKind = d.kind()
	r.answer.Node = d.string()
	r.answer.Status = d.length(999)
	if flags&flagError != 0 {
		r.err = errorOf(cache.Code(d.string()), d.string(), d.duration())
	} else if flags&flagEntry != 0 {
		r.answer.Entry, total = d.entry(maxValue, now)
	}
	if flags&flagCopy != 0 {
		r.copy = d.copy(flags&flagLastLoad != 0, now)
	}
	if flags&flagMany != 0 {
		r.many = d.many(maxValue, now)
	}
	return r, total, d.end()
}

func (d *decoder) kind() cache.Kind {
	k := cache.Kind(d.byte())
	if k > cache.KindRefused {
		d.fail("unknown kind")
	}
	return k
}

// codes are the errors that may cross a link. Any other error becomes "internal".
var codes = func() map[cache.Code]*cache.Error {
	m := map[cache.Code]*cache.Error{}
	for _, e := range cache.Errors {
		m[e.Code] = e
	}
	return m
}()

// safeDetail keeps a detail from another node harmless in headers and logs.
var safeDetail = regexp.MustCompile(`^[\x20-\x7e]{0,512}$`)

// errorCode is what of an error may leave the node.
func errorCode(err error) (cache.Code, string, time.Duration) {
	var e *cache.Error
	if !errors.As(err, &e) || codes[e.Code] == nil {
		return cache.ErrInternal.Code, "", 0
	}
	if !safeDetail.MatchString(e.Detail) {
		return e.Code, "", e.RetryAfter
	}
	return e.Code, e.Detail, e.RetryAfter
}

func errorOf(code cache.Code, detail string, retryAfter time.Duration) error {
	e := codes[code]
	if e == nil {
		return cache.ErrInternal
	}
	if !safeDetail.MatchString(detail) {
		detail = ""
	}
	if detail == "" && retryAfter == 0 {
		return e
	}
	return e.With(detail).Saying(e.Verdict, retryAfter)
}

func appendDuration(b []byte, t time.Duration) []byte {
	return binary.AppendUvarint(b, uint64(min(max(0, t), maxDuration)))
}

func (d *decoder) duration() time.Duration { return time.Duration(d.length(int(maxDuration))) }

// appendValue ends a body: the value's length and, if it is at most chunkLen,
// the value.
func appendValue(b, value []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(value)))
	if len(value) <= chunkLen {
		b = append(b, value...)
	}
	return b
}

// value reads what appendValue wrote into a slice of exactly its size.
func (d *decoder) value(maxValue int) (value []byte, total int) {
	total = d.length(maxValue)
	if total > chunkLen || d.err != nil {
		return nil, total
	}
	if len(d.b) != total {
		d.fail("value of another length than announced")
		return nil, 0
	}
	value = make([]byte, total)
	copy(value, d.b)
	d.b = nil
	return value, total
}
