package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// Code is the stable name of an error: the last part of a problem's type.
type Code string

// Error is a failure that a node reported (RFC 9457).
type Error struct {
	Op     string // the operation that failed
	Code   Code   // "" if the answer was not Kring's
	Status int
	Title  string
	Detail string
	// RequestID identifies the request in the node's log.
	RequestID string
	// RetryAfter is how long the node asks the caller to wait; 0: not given.
	RetryAfter time.Duration
	// Unconfirmed names the nodes that did not confirm a purge.
	Unconfirmed []string
	// Meta is the answer's headers.
	Meta
}

func (e *Error) Error() string {
	s := string(e.Code)
	if s == "" {
		s = "status " + strconv.Itoa(e.Status)
	}
	if e.Op != "" {
		s = e.Op + ": " + s
	}
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	if len(e.Unconfirmed) > 0 {
		s += " (unconfirmed: " + strings.Join(e.Unconfirmed, ", ") + ")"
	}
	return s
}

// Is reports whether target is an *Error of the same code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && t.Code != ""
}

// ErrUnavailable says that no node answered. It wraps the error of each try.
var ErrUnavailable = errors.New("no node answered")

// ErrAnswerTooLong says that an answer's body is longer than MaxAnswerBytes.
var ErrAnswerTooLong = errors.New("the body is longer than the client accepts")

// The codes of nodes' errors, for use with errors.Is.
var (
	ErrBadKey             = &Error{Code: "bad-key"}
	ErrBadGroup           = &Error{Code: "bad-group"}
	ErrBadTTL             = &Error{Code: "bad-ttl"}
	ErrBadRequest         = &Error{Code: "bad-request"}
	ErrUnauthorized       = &Error{Code: "unauthorized"}
	ErrForbidden          = &Error{Code: "forbidden"}
	ErrNotFound           = &Error{Code: "not-found"}
	ErrUnknownGroup       = &Error{Code: "unknown-group"}
	ErrPreconditionFailed = &Error{Code: "precondition-failed"}
	ErrValueTooLarge      = &Error{Code: "value-too-large"}
	ErrKeyTooLong         = &Error{Code: "key-too-long"}
	ErrRateLimited        = &Error{Code: "rate-limited"}
	ErrInternal           = &Error{Code: "internal"}
	ErrOriginFailed       = &Error{Code: "origin-failed"}
	ErrOriginBadAnswer    = &Error{Code: "origin-bad-answer"}
	ErrOverloaded         = &Error{Code: "overloaded"}
	ErrNoEligibleEndpoint = &Error{Code: "no-eligible-endpoint"}
	ErrDraining           = &Error{Code: "draining"}
	ErrCutOff             = &Error{Code: "cut-off"}
	ErrOriginTimeout      = &Error{Code: "origin-timeout"}
	ErrNotCached          = &Error{Code: "not-cached"}
	ErrWriteUnconfirmed   = &Error{Code: "write-unconfirmed"}
)

// problem is the body of a node's error.
type problem struct {
	Type        string   `json:"type"`
	Title       string   `json:"title"`
	Detail      string   `json:"detail"`
	Node        string   `json:"node"`
	RequestID   string   `json:"request_id"`
	Unconfirmed []string `json:"unconfirmed"`
}

// parseProblem reads the body of an error; ok is false if the body is not
// Kring's.
func parseProblem(r *reply) (p problem, code Code, ok bool) {
	if !isProblem(r.header) || json.Unmarshal(r.body, &p) != nil {
		return problem{}, "", false
	}
	name, found := strings.CutPrefix(p.Type, "/problems/")
	if !found || name == "" {
		return problem{}, "", false
	}
	return p, Code(name), true
}

func problemCode(r *reply) Code {
	_, code, _ := parseProblem(r)
	return code
}

// checkHeader refuses a value that no header can hold. Else each node that it
// cannot be sent to would be blamed.
func checkHeader(op, name, value string) error {
	if httpguts.ValidHeaderFieldValue(value) {
		return nil
	}
	return &Error{Op: op, Code: ErrBadRequest.Code, Status: 400, Detail: fmt.Sprintf("%s: %q cannot be a header's value", name, value)}
}

// failure turns an unexpected answer into an *Error.
func failure(op string, r *reply) *Error {
	e := &Error{Op: op, Status: r.status, Title: http.StatusText(r.status), Meta: metaOf(r.header)}
	if p, code, ok := parseProblem(r); ok {
		e.Code, e.Title, e.Detail, e.RequestID, e.Unconfirmed = code, p.Title, p.Detail, p.RequestID, p.Unconfirmed
		if e.Node == "" {
			e.Node = p.Node
		}
	}
	if s, err := strconv.Atoi(r.header.Get("Retry-After")); err == nil && s > 0 {
		e.RetryAfter = time.Duration(s) * time.Second
	}
	return e
}
