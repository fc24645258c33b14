package httpapi

import "net/http"

// checkOldFraming refuses a request of HTTP/1.0 whose end two readers could see
// at different places: what one takes for its body would be the other's next
// request. Package http ignores a Transfer-Encoding there; RFC 9112 §6.1 calls
// the framing faulty, even beside a Content-Length. Without either, RFC 1945
// §7.2 has a body end where nobody can tell, and a PUT would store nothing.
func checkOldFraming(r *http.Request) error {
	if r.ProtoAtLeast(1, 1) {
		return nil
	}
	c := connectionOf(r)
	body := r.Method == http.MethodPut || r.Method == http.MethodPost || r.Method == http.MethodPatch
	switch {
	case c != nil && c.requests > 1:
		return errBadRequest.With("a request of HTTP/1.0 must be the first of its connection")
	case c != nil && c.coded:
		return errBadRequest.With("HTTP/1.0 has no Transfer-Encoding")
	case body && len(r.Header["Content-Length"]) == 0:
		return errBadRequest.With("a body of HTTP/1.0 needs its Content-Length")
	}
	return nil
}
