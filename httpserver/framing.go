package httpserver

import (
	"errors"
	"net/http"
)

var (
	errNotFirst   = errors.New("a request of HTTP/1.0 must be the first of its connection")
	errCodedOld   = errors.New("HTTP/1.0 has no Transfer-Encoding")
	errUnsizedOld = errors.New("a body of HTTP/1.0 needs its Content-Length")
)

// CheckFraming refuses a request of HTTP/1.0 whose end two readers could see at
// different places: what one reader takes for its body would be the other's next
// request. Package http ignores a Transfer-Encoding there; RFC 9112 §6.1 calls
// the framing faulty, even beside a Content-Length. Without either, RFC 1945
// §7.2 gives a body no certain end, and a PUT would store nothing. The error's
// text is for the client.
func CheckFraming(r *http.Request) error {
	if r.ProtoAtLeast(1, 1) {
		return nil
	}
	c := connectionOf(r)
	body := r.Method == http.MethodPut || r.Method == http.MethodPost || r.Method == http.MethodPatch
	switch {
	case c != nil && c.requests > 1:
		return errNotFirst
	case c != nil && c.coded:
		return errCodedOld
	case body && len(r.Header["Content-Length"]) == 0:
		return errUnsizedOld
	}
	return nil
}

// MustClose reports whether no request may follow this one on its connection. A
// proxy in front may see another end of a chunked body, or of a request of
// HTTP/1.0, and take what follows for a request of its own.
func MustClose(r *http.Request) bool { return len(r.TransferEncoding) > 0 || !r.ProtoAtLeast(1, 1) }

// TurnAway is for a request that is refused before its body was read. If the
// connection closes, the client may go on sending for a while, so that it is
// still there to read the answer.
func TurnAway(r *http.Request) {
	if c := connectionOf(r); c != nil && (r.ContentLength != 0 || !r.ProtoAtLeast(1, 1)) {
		c.turnedAway.Store(true)
	}
}
