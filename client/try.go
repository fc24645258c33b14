package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"kring/balance"
)

// call is one request before a node is chosen.
type call struct {
	op     string // for errors: "get", "put"
	method string
	path   string // escaped, from "/v1/…"
	query  string
	header http.Header // nil: the client's own
	body   []byte
	repeat repeat
	buffer []byte // receives the answer's body
	// operator marks an operator's route. Its answers do not name their node.
	operator bool
}

// repeat says when a call may be sent again.
type repeat uint8

const (
	repeatRead    repeat = iota // the call changes nothing
	repeatWrite                 // a second time does no harm
	repeatRefused               // only if the node surely did not act on it
)

// reply is a node's whole answer.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// do sends a call to one node after another until an answer is final. The
// package comment lists the answers and errors that are not. A reply of any
// status is returned without an error.
func (c *Client) do(ctx context.Context, call *call) (reply, error) {
	if err := ctx.Err(); err != nil {
		return reply{}, fmt.Errorf("%s: %w", call.op, err) // no node is to blame
	}
	c.calls.Add(1)
	deadline := time.Now().Add(c.cfg.Timeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	var asked []string
	var failed []error
	var last reply // the refusal to return if no node does better
	overloaded := false
	var silent *node // given up, though it might have answered
	limit := min(c.cfg.MaxTries, len(c.nodes))
	for {
		var n *node
		var pick balance.Pick
		switch {
		case len(asked) < limit:
			// An unhealthy node is better than none, but not better than an
			// overloaded one.
			n, pick = c.choose(ctx, asked, !overloaded)
		case len(asked) == limit && silent != nil:
			n = silent // the others failed, so it gets the rest of the time
		}
		if n == nil {
			break
		}
		asked = append(asked, n.name)
		if len(asked) > 1 {
			c.retries.Add(1)
		}
		patience := patience{until: deadline, silence: c.cfg.SilenceTimeout}
		if call.repeat == repeatRead && len(asked) < limit {
			if d := time.Now().Add(c.cfg.PerTryTimeout); d.Before(deadline) {
				patience.until = d
			}
		} else {
			// This try waits to its end, but other calls should not have to
			// find out the same.
			patience.verify = func() bool {
				if c.answers(n) {
					return true
				}
				pick.Done(balance.Failure)
				return false
			}
		}
		r, err := c.try(ctx, n, call, patience)
		if err != nil {
			if ctxErr := ctx.Err(); errors.Is(ctxErr, context.Canceled) {
				pick.Done(balance.Cancelled)
				return reply{}, fmt.Errorf("%s: %w", call.op, ctxErr)
			}
			if errors.Is(err, ErrAnswerTooLong) {
				// The caller set the limit, so the node is not to blame, and
				// another node would not help.
				pick.Done(balance.Success)
				return reply{}, fmt.Errorf("%s: %s: %w", call.op, n.host, err)
			}
			// This counts also at the caller's own deadline. Callers with short
			// deadlines would else never find out that a node hangs.
			pick.Done(balance.Failure)
			failed = append(failed, fmt.Errorf("%s: %w", n.host, err))
			if !time.Now().Before(deadline) || !call.mayFollow(err) {
				break
			}
			if errors.Is(err, errSilent) || err == context.DeadlineExceeded {
				silent = n
			}
			continue
		}
		again, blame := call.judge(&r)
		if blame {
			pick.Done(balance.Failure)
		} else {
			pick.Done(balance.Success)
		}
		if !again || overloaded {
			return r, nil
		}
		// An overload goes to one other node only: asking every node would add
		// load.
		overloaded = problemCode(&r) == ErrOverloaded.Code
		last = r
	}
	if last.status != 0 {
		return last, nil
	}
	return reply{}, fmt.Errorf("%s: %w", call.op, &unavailableError{errors.Join(failed...)})
}

// choose picks a healthy entry node that was not asked yet. If there is none
// and unhealthy is set, it picks an unhealthy one.
func (c *Client) choose(ctx context.Context, asked []string, unhealthy bool) (*node, balance.Pick) {
	for range 2 * len(c.nodes) {
		var pick balance.Pick
		var err error
		if len(asked) == 0 {
			pick, err = c.pool.Pick(ctx)
		} else {
			pick, err = c.pool.PickOther(ctx, asked[len(asked)-1])
		}
		if err != nil {
			break
		}
		if n := c.unasked(asked, pick.Endpoint.Name); n != nil {
			return n, pick
		}
		pick.Done(balance.Cancelled)
	}
	if !unhealthy {
		return nil, balance.Pick{}
	}
	// The pool prefers nodes that have failed just now. Of the unhealthy others
	// one may answer again.
	return c.unasked(asked, ""), balance.Pick{}
}

// unasked is the node of this name, or without a name the first node, unless it
// was asked already.
func (c *Client) unasked(asked []string, name string) *node {
	for i := range c.nodes {
		n := c.nodes[i]
		if (name == "" || n.name == name) && !slices.Contains(asked, n.name) {
			return n
		}
	}
	return nil
}

// try sends a call to one node and reads the whole answer.
func (c *Client) try(ctx context.Context, n *node, call *call, p patience) (_ reply, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := watch{node: n, patience: p, clientStart: c.start, begun: time.Since(c.start), cancel: cancel}
	w.start()
	defer func() {
		w.stop()
		// net/http reports a cancelled context differently from place to place.
		if cause := context.Cause(ctx); err != nil && cause != nil {
			err = cause
		}
		cancel(nil)
	}()
	header := call.header
	if header == nil {
		header = c.header
	}
	req := (&http.Request{
		Method: call.method,
		// An opaque URL goes into the request line unchanged, so that net/url
		// and net/http cannot rewrite a key.
		URL:  &url.URL{Scheme: n.scheme, Host: n.host, Opaque: n.prefix + call.path, RawQuery: call.query},
		Host: n.host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header,
	}).WithContext(ctx)
	if call.body != nil {
		req.ContentLength = int64(len(call.body))
		// A kept connection may be closed before a byte is written. net/http
		// then sends the body over another one.
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(call.body)), nil }
		req.Body, _ = req.GetBody()
		if len(call.body) == 0 {
			req.Body = http.NoBody // sends a length of 0, not no length
		}
	}
	// There is no http.Client: it would follow redirects, and wrap errors in
	// the URL.
	resp, err := c.connections.RoundTrip(req)
	if err != nil {
		return reply{}, err
	}
	n.heard.Store(int64(time.Since(c.start)))
	if h := resp.Header; resp.StatusCode < 400 && !call.operator && first(h, "Kring-Node") == "" && first(h, "Cache-Status") == "" {
		// The answer is from a captive portal, a redirect or another service on
		// the port. Its body is not the key's value, and nothing was written.
		return reply{}, errors.Join(fmt.Errorf("%w: status %d", errNotKring, resp.StatusCode), resp.Body.Close())
	}
	body, err := c.read(resp, call.buffer)
	if err != nil {
		return reply{}, fmt.Errorf("read the answer: %w", err)
	}
	return reply{status: resp.StatusCode, header: resp.Header, body: body}, nil
}

var errNotKring = errors.New("the answer is not a Kring node's")

// read appends a body to dst and closes it.
func (c *Client) read(resp *http.Response, dst []byte) (_ []byte, err error) {
	defer func() {
		if e := resp.Body.Close(); err == nil && e != nil {
			err = e
		}
	}()
	limit := c.cfg.MaxAnswerBytes
	if resp.ContentLength > limit {
		return nil, ErrAnswerTooLong
	}
	if resp.ContentLength >= 0 && resp.Request.Method != http.MethodHead {
		n := len(dst)
		end := n + int(resp.ContentLength)
		if end > cap(dst) {
			dst = append(make([]byte, 0, end), dst...)
		}
		dst = dst[:end]
		_, err := io.ReadFull(resp.Body, dst[n:])
		return dst, err
	}
	b := bytes.NewBuffer(dst)
	n, err := b.ReadFrom(io.LimitReader(resp.Body, limit+1))
	if err == nil && n > limit {
		err = ErrAnswerTooLong
	}
	return b.Bytes(), err
}

// mayFollow reports whether another node may be asked after a try without an
// answer.
func (call *call) mayFollow(err error) bool {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return true
	}
	switch call.repeat {
	case repeatRead:
		return true
	case repeatWrite:
		return !errors.Is(err, context.DeadlineExceeded)
	default:
		return false
	}
}

// judge reports whether another node should be asked, and whether this node is
// to blame for its answer.
func (call *call) judge(r *reply) (again, blame bool) {
	switch r.status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
	default:
		return false, false
	}
	switch problemCode(r) {
	case ErrDraining.Code, ErrCutOff.Code:
		return true, true
	case ErrOverloaded.Code:
		return true, false
	case "": // not Kring's words: a proxy says that the node is gone
		return call.repeat == repeatRead || call.repeat == repeatWrite && r.status == http.StatusServiceUnavailable, true
	default:
		return false, false
	}
}

func isProblem(h http.Header) bool {
	return strings.HasPrefix(h.Get("Content-Type"), "application/problem+json")
}

// unavailableError holds the errors of all tries when no node answered.
type unavailableError struct{ tries error }

func (e *unavailableError) Error() string {
	return "no node answered: " + strings.ReplaceAll(e.tries.Error(), "\n", "; ")
}

func (e *unavailableError) Is(target error) bool { return target == ErrUnavailable }

func (e *unavailableError) Unwrap() error { return e.tries }
