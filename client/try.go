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

// call is one request, before a node is chosen for it.
type call struct {
	op     string // for errors: "get", "put"
	method string
	path   string // escaped, from "/v1/…"
	query  string
	header http.Header // nil: the client's own
	body   []byte
	repeat repeat
	buffer []byte // the answer's body is appended to it
	// operator: it is for an operator's route, whose answers do not name their node.
	operator bool
}

// repeat says how freely a call may be sent again.
type repeat uint8

const (
	repeatRead    repeat = iota // nothing changes by it
	repeatWrite                 // twice is as good as once
	repeatRefused               // only if it was surely not acted on
)

// reply is a node's answer, read to its end.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// do sends a call to one node after another until one gives an answer that
// counts: anything but what the package comment lists. Every reply comes
// without an error, whatever its status.
func (c *Client) do(ctx context.Context, call *call) (reply, error) {
	if err := ctx.Err(); err != nil {
		return reply{}, fmt.Errorf("%s: %w", call.op, err) // before it is any node's fault
	}
	c.calls.Add(1)
	deadline := time.Now().Add(c.cfg.Timeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	var asked []string
	var failed []error
	var last reply // the refusal to return if nobody does better
	overloaded := false
	var silent *node // given up, but for all that is known it would have answered
	limit := min(c.cfg.MaxTries, len(c.nodes))
	for {
		var n *node
		var pick balance.Pick
		switch {
		case len(asked) < limit:
			// An unhealthy node is better than none, but no better than one that has
			// enough to do.
			n, pick = c.choose(ctx, asked, !overloaded)
		case len(asked) == limit && silent != nil:
			n = silent // the others were no better: what is left of the time is its
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
			// This try waits to its end, but other calls need not find out the same.
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
				// The caller's limit is not the node's fault, nor would another do better.
				pick.Done(balance.Success)
				return reply{}, fmt.Errorf("%s: %s: %w", call.op, n.host, err)
			}
			// Also at the caller's own deadline: for callers with little time, a
			// node that hangs would never be found out otherwise.
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
		// Overload is passed on once: to ask every node would make more of it.
		overloaded = problemCode(&r) == ErrOverloaded.Code
		last = r
	}
	if last.status != 0 {
		return last, nil
	}
	return reply{}, fmt.Errorf("%s: %w", call.op, &unavailableError{errors.Join(failed...)})
}

// choose picks an entry node that was not asked yet: a healthy one, or, if there
// is none and the caller agrees, an unhealthy one.
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
	// The pool holds back the others as unhealthy, but one of them may answer
	// again, and those it prefers have failed just now.
	return c.unasked(asked, ""), balance.Pick{}
}

// unasked is the node of this name, or with no name the first of all, unless
// it was asked already.
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
	w := watch{node: n, patience: p, epoch: c.epoch, begun: time.Since(c.epoch), cancel: cancel}
	w.start()
	defer func() {
		w.stop()
		// What net/http says of a cancelled context differs by where it was.
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
		// An opaque URL goes into the request line as it is: no part of net/url
		// or net/http has a say in how a key is written.
		URL:  &url.URL{Scheme: n.scheme, Host: n.host, Opaque: n.prefix + call.path, RawQuery: call.query},
		Host: n.host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header,
	}).WithContext(ctx)
	if call.body != nil {
		req.ContentLength = int64(len(call.body))
		// A kept connection may turn out to be closed before a byte is written:
		// then net/http sends the body over another one.
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(call.body)), nil }
		req.Body, _ = req.GetBody()
		if len(call.body) == 0 {
			req.Body = http.NoBody // with a length of 0, not without one
		}
	}
	// No http.Client: it would follow redirects, and wrap errors in the URL.
	resp, err := c.connections.RoundTrip(req)
	if err != nil {
		return reply{}, err
	}
	n.heard.Store(int64(time.Since(c.epoch)))
	if h := resp.Header; resp.StatusCode < 400 && !call.operator && first(h, "Kring-Node") == "" && first(h, "Cache-Status") == "" {
		// A captive portal, a redirect, another service on the port: whatever its
		// body is, it is not the key's value, nor was anything written.
		return reply{}, errors.Join(fmt.Errorf("%w: status %d", errNotKring, resp.StatusCode), resp.Body.Close())
	}
	body, err := c.read(resp, call.buffer)
	if err != nil {
		return reply{}, fmt.Errorf("read the answer: %w", err)
	}
	return reply{status: resp.StatusCode, header: resp.Header, body: body}, nil
}

var errNotKring = errors.New("the answer is not a Kring node's")

// read appends a body to dst, and closes it.
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

// mayFollow says whether another node may be asked after a try that ended
// without an answer.
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

// judge says whether another node should be asked for a better answer, and
// whether the node is to blame for this one.
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
	case "": // not Kring's own words: something in front of the node says that it is gone
		return call.repeat == repeatRead || call.repeat == repeatWrite && r.status == http.StatusServiceUnavailable, true
	default:
		return false, false
	}
}

func isProblem(h http.Header) bool {
	return strings.HasPrefix(h.Get("Content-Type"), "application/problem+json")
}

// unavailableError is what became of all tries when none was answered.
type unavailableError struct{ tries error }

func (e *unavailableError) Error() string {
	return "no node answered: " + strings.ReplaceAll(e.tries.Error(), "\n", "; ")
}

func (e *unavailableError) Is(target error) bool { return target == ErrUnavailable }

func (e *unavailableError) Unwrap() error { return e.tries }
