package cache

import (
	"context"
	"errors"
	"time"
)

// Code is the stable name of an error. It is the last part of a problem's type URI. It
// also travels over the peer link, so that errors.Is works across nodes.
type Code string

// Error is a failure that a client may see. Detail is safe to show to any client. Err is
// for the log only, and never leaves the node.
type Error struct {
	Code   Code
	Detail string
	Err    error

	// Verdict is that of a failed load.
	Verdict Verdict
	// RetryAfter is how long the origin wants not to be asked again. 0: it did not say.
	RetryAfter time.Duration
}

// Verdict is what a failed load says of the value that is stored.
type Verdict uint8

const (
	// OriginDown: the origin failed, in the sense of RFC 5861 §4. The value stays, and
	// may be served within stale-if-error.
	OriginDown Verdict = iota
	// OriginRefuses: the origin did not fail in that sense, but said nothing of the
	// value. The value stays, and is not served in place of the error.
	OriginRefuses
	// ValueEnded: the origin answered for the key, and the answer is no value. The
	// stored value is removed.
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

// Is makes two errors of one code equal, whatever their details and nodes are.
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

// Saying returns a copy of e with the verdict and the wait that the origin's answer
// gives.
func (e *Error) Saying(v Verdict, retryAfter time.Duration) *Error {
	c := *e
	c.Verdict, c.RetryAfter = v, retryAfter
	return &c
}

// verdict is the Verdict of a load's error. The error of another package has none, and
// counts as OriginDown.
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

// isCancelled reports whether an error is ctxError's for a cancelled request. It
// compares without errors.Is, because the error of a load may wrap a cancelled context
// of its own.
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
