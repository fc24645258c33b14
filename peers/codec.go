package peers

import (
	"encoding/binary"
	"errors"
	"regexp"
	"time"

	"kring/cache"
	"kring/link"
)

// Operations besides cache.Op's, which keep their numbers.
const (
	OpPurge     cache.Op = 16 + iota // drop the key's group
	OpCopy                           // describe the key's copy
	OpPurgeTags                      // drop what carries a tag from the key's group
	OpGetMany                        // many gets of the key's group: see many.go
)

// Request is a call as it crosses a link.
type Request struct {
	cache.Request
	Hop       uint8         // 1: from the entry node; 2: passed on, the last
	remaining time.Duration // until the caller's deadline; 0: it has none
	deadline  time.Time     // the same, at the caller alone; zero: it has none
	requestID string        // of the client's request, of a get; "": none
	Tags      []string      // of OpPurgeTags, at least one
	Keys      []string      // of OpGetMany, at least one

	// into is where the entry of the answer goes, and room bytes are charged for it
	// already; nil: there is no such place. It does not cross the link.
	into *cache.Entry
	room int
}

// Flags of a request. They say, too, whether a delete's conditions and a get's request
// id follow.
const (
	flagOnlyIfCached = 1 << iota
	flagConditional
	flagRequestID
)

// maxRequestID is the longest request id, in bytes: it is for logs.
const maxRequestID = 128

// appendRequest appends the body of a call. A value of more than link.ChunkLen
// follows in chunks.
func appendRequest(b []byte, r *Request) []byte {
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
	b = append(b, byte(r.Op), r.Hop, flags)
	b = appendDuration(b, r.remaining)
	b = link.AppendString(b, r.Key.Group)
	b = link.AppendString(b, r.Key.Key)
	if r.Op == cache.OpPut || r.Op == cache.OpDelete {
		b = binary.BigEndian.AppendUint64(b, r.ID)
	}
	if flags&flagConditional != 0 {
		b = link.AppendStrings(b, r.IfMatch)
		b = link.AppendStrings(b, r.IfNoneMatch)
	}
	switch r.Op {
	case cache.OpGet:
		if flags&flagRequestID != 0 {
			b = link.AppendString(b, r.requestID)
		}
		return b
	case OpPurgeTags:
		return link.AppendStrings(b, r.Tags)
	case OpGetMany:
		return link.AppendStrings(b, r.Keys)
	case cache.OpPut:
	default:
		return b
	}
	b = link.AppendString(b, r.ContentType)
	b = link.AppendString(b, r.ContentEncoding)
	b = appendDuration(b, r.TTL)
	b = link.AppendStrings(b, r.IfMatch)
	b = link.AppendStrings(b, r.IfNoneMatch)
	return appendValue(b, r.Value)
}

// parseRequest reads the body of a call. total is the length of the value; if
// it is more than link.ChunkLen, the value follows in chunks.
func parseRequest(b []byte, maxValue int) (r Request, total int, err error) {
	d := decoder{Decoder: link.Decoder{B: b}}
	r.Op, r.Hop = cache.Op(d.Byte()), d.Byte()
	flags := d.Byte()
	r.OnlyIfCached = flags&flagOnlyIfCached != 0
	r.remaining = d.duration()
	r.Key.Group = d.Text()
	r.Key.Key = d.Text()
	switch r.Op {
	case cache.OpGet:
		if flags&flagRequestID != 0 {
			if r.requestID = d.Text(); len(r.requestID) > maxRequestID {
				d.Fail("a request id that is too long")
			}
		}
	case OpPurge, OpCopy:
	case OpPurgeTags:
		if r.Tags = d.Texts(); len(r.Tags) == 0 {
			d.Fail("a purge by tag without a tag")
		}
	case OpGetMany:
		if r.Keys = d.keys(); len(r.Keys) == 0 {
			d.Fail("many gets without a key")
		}
	case cache.OpDelete:
		r.ID = d.Uint64()
		if flags&flagConditional != 0 {
			r.IfMatch = d.Texts()
			r.IfNoneMatch = d.Texts()
		}
	case cache.OpPut:
		r.ID = d.Uint64()
		r.ContentType = d.Text()
		r.ContentEncoding = d.Text()
		r.TTL = d.duration()
		r.IfMatch = d.Texts()
		r.IfNoneMatch = d.Texts()
		r.Value, total = d.value(maxValue)
	default:
		d.Fail("unknown operation")
	}
	if flags&^(flagOnlyIfCached|flagConditional|flagRequestID) != 0 || flags&flagConditional != 0 && r.Op != cache.OpDelete ||
		flags&flagRequestID != 0 && r.Op != cache.OpGet || r.Hop < 1 || r.Hop > 2 {
		d.Fail("unknown flag or hop")
	}
	return r, total, d.End()
}

// Reply is a final answer as it crosses a link.
type Reply struct {
	Answer cache.Answer   // of a get or a write
	Many   []cache.Answer // of OpGetMany: see many.go
	Err    error          // in its place
	Copy   *cache.Copy    // of OpCopy; nil: none

	Counted   bool // it is in the books of the node that answered
	cancelled bool // the call ended because the caller cancelled it
	NotOwner  bool // the node that was asked does not act for the key

	// Shared and PassedOn do not cross the link. Shared: another get made the call,
	// and this get has taken its answer. PassedOn: another node has answered, and has
	// the answer in its books.
	Shared, PassedOn bool
}

// counted is how many of the gets in an answer to the request are in the books of the
// node that answered.
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

func (r *Reply) flags() uint64 {
	var flags uint64
	set := func(on bool, flag uint64) {
		if on {
			flags |= flag
		}
	}
	set(r.Counted, flagCounted)
	set(r.cancelled, flagCancelled)
	set(r.NotOwner, flagNotOwner)
	set(r.Err != nil, flagError)
	set(r.Err == nil && r.Answer.Entry != nil, flagEntry)
	set(r.Answer.Stored, flagStored)
	set(r.Answer.Created, flagCreated)
	set(r.Answer.StaleError, flagStaleError)
	set(r.Answer.StandIn, flagStandIn)
	set(r.Copy != nil, flagCopy)
	set(r.Copy != nil && r.Copy.LastLoad != nil, flagLastLoad)
	set(r.Many != nil, flagMany)
	return flags
}

// value is the value that the reply carries, or nil.
func (r *Reply) value() []byte {
	if r.Err != nil || r.Answer.Entry == nil {
		return nil
	}
	return r.Answer.Entry.Value
}

func appendReply(b []byte, r *Reply, now time.Time) []byte {
	b = binary.AppendUvarint(b, r.flags())
	b = append(b, byte(r.Answer.Kind), byte(r.Answer.OwnerKind))
	b = link.AppendString(b, r.Answer.Node)
	b = binary.AppendUvarint(b, uint64(max(0, r.Answer.Status)))
	if r.Err != nil {
		code, detail, retryAfter := errorCode(r.Err)
		b = link.AppendString(b, string(code))
		b = link.AppendString(b, detail)
		b = appendDuration(b, retryAfter)
	} else if r.Answer.Entry != nil {
		b = appendEntry(b, r.Answer.Entry, now)
	}
	if r.Copy != nil {
		b = appendCopy(b, r.Copy, now)
	}
	if r.Many != nil {
		b = appendMany(b, r.Many, now)
	}
	return b
}

// parseReply reads the body of an answer. If total is more than link.ChunkLen, the
// entry's value follows in chunks.
func parseReply(b []byte, maxValue int, now time.Time) (r Reply, total int, err error) {
	d := decoder{Decoder: link.Decoder{B: b}}
	flags := d.Uvarint()
	if flags >= flagsEnd || flags&(flagError|flagEntry) == flagError|flagEntry ||
		flags&(flagEntry|flagCopy) == flagEntry|flagCopy || flags&flagMany != 0 && flags&(flagError|flagEntry|flagCopy) != 0 || flags&(flagCopy|flagLastLoad) == flagLastLoad {
		d.Fail("unknown flags")
	}
	r.Counted = flags&flagCounted != 0
	r.cancelled = flags&flagCancelled != 0
	r.NotOwner = flags&flagNotOwner != 0
	r.Answer.Stored = flags&flagStored != 0
	r.Answer.Created = flags&flagCreated != 0
	r.Answer.StaleError = flags&flagStaleError != 0
	r.Answer.StandIn = flags&flagStandIn != 0
	r.Answer.Kind = d.kind()
	r.Answer.OwnerKind = d.kind()
	r.Answer.Node = d.Text()
	r.Answer.Status = d.Length(999)
	if flags&flagError != 0 {
		r.Err = errorOf(cache.Code(d.Text()), d.Text(), d.duration())
	} else if flags&flagEntry != 0 {
		r.Answer.Entry, total = d.entry(maxValue, now)
	}
	if flags&flagCopy != 0 {
		r.Copy = d.copy(flags&flagLastLoad != 0, now)
	}
	if flags&flagMany != 0 {
		r.Many = d.many(maxValue, now)
	}
	return r, total, d.End()
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

// errorCode is as much of an error as may leave the node.
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
