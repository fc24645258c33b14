package cache

import (
	"context"
	"errors"
	"time"
)

// Code is the stable name of an error: the last part of a problem's type URI,
// and what travels over the peer link, so that errors.Is works across nodes.
type Code string

// Error is a failure that a client may be told about. Detail is safe to show
// to anyone; Err is for the log only and never leaves the node.
type Error struct {
	Code   Code
	Detail string
	Err    error

	// Verdict is what a failed load says of the value that is stored.
	Verdict Verdict
	// RetryAfter is for how long the origin does not want to be asked again;
	// 0 if it did not say.
	RetryAfter time.Duration
}

// Verdict is what a failed load says of the value that is stored.
type Verdict uint8

const (
	// OriginDown: the origin failed, in the sense of RFC 5861 §4. A value that
	// is stored stays, and may be served within stale-if-error.
	OriginDown Verdict = iota
	// OriginRefuses: the origin answered, but neither failed in that sense nor
	// said anything of the value. The value stays, but is not served in place
	// of the error.
	OriginRefuses
	// ValueEnded: the answer is the origin's word on the key, and it is not the
	// value. The value is removed.
	ValueEnded
)

func (e *Error) Error() string {
	s := string(e.Code)
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// Is makes two errors of one code equal, whatever their detail, on whichever
// node they arose.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// With returns a copy of e with a detail that is safe to show.
func (e *Error) With(detail string) *Error {
	c := *e
	c.Detail = detail
	return &c
}

// Because returns a copy of e that wraps a cause for the log.
func (e *Error) Because(err error) *Error {
	c := *e
	c.Err = err
	return &c
}

// Saying returns a copy of e with what the origin's answer says.
func (e *Error) Saying(v Verdict, retryAfter time.Duration) *Error {
	c := *e
	c.Verdict, c.RetryAfter = v, retryAfter
	return &c
}

// verdict is that of a load's error.
func verdict(err error) Verdict {
	var e *Error
	if errors.As(err, &e) {
		return e.Verdict
	}
	return OriginDown
}

// Errors are the ways in which a request can fail. Each may cross the link
// between nodes, and httpapi has a row for it.
var Errors []*Error

func newError(code Code) *Error {
	e := &Error{Code: code}
	Errors = append(Errors, e)
	return e
}

// newError puts these into Errors.
var (
	ErrBadKey             = newError("bad-key")
	ErrKeyTooLong         = newError("key-too-long")
	ErrBadTTL             = newError("bad-ttl")
	ErrUnknownGroup       = newError("unknown-group")
	ErrPreconditionFailed = newError("precondition-failed")
	ErrValueTooLarge      = newError("value-too-large")
	ErrNotCached          = newError("not-cached")
	ErrOriginFailed       = newError("origin-failed")
	ErrOriginBadAnswer    = newError("origin-bad-answer")
	ErrOriginTimeout      = newError("origin-timeout")
	ErrNoEligibleEndpoint = newError("no-eligible-endpoint")
	ErrOverloaded         = newError("overloaded")
	ErrDraining           = newError("draining")
	ErrWriteUnconfirmed   = newError("write-unconfirmed")
	ErrInternal           = newError("internal")
)

// ctxError is the error of a request whose own context has ended.
func ctxError(ctx context.Context) error {
	if ctx.Err() == context.DeadlineExceeded {
		return ErrOriginTimeout.Because(ctx.Err())
	}
	return ctx.Err()
}

// isCancelled reports whether an error is ctxError's for a cancelled request. The
// error of a load may wrap a cancelled context too, and is another thing.
func isCancelled(err error) bool { return err == context.Canceled }

// WriteCtxError is the error of a write whose time is up, or whose caller has
// cancelled it.
func WriteCtxError(ctx context.Context) error {
	err := ctx.Err()
	if errors.Is(err, context.DeadlineExceeded) {
		return ErrWriteUnconfirmed.Because(err)
	}
	return err
}
