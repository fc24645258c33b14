package client

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

// Meta is the headers of an answer.
type Meta struct {
	Node        string // the node that was asked
	Owner       string // the node that acted for the key
	ETag        string // with its quotes
	ContentType string
	// ContentEncoding is the value's own. The client does not decode it.
	ContentEncoding string
	LastModified    string
	// Age is how old the value is, in whole seconds.
	Age time.Duration
	// CacheStatus is the unparsed header; ParseCacheStatus reads it.
	CacheStatus string
}

func metaOf(h http.Header) Meta {
	m := Meta{
		Node: first(h, "Kring-Node"), Owner: first(h, "Kring-Owner"), ETag: first(h, "Etag"),
		ContentType: first(h, "Content-Type"), ContentEncoding: first(h, "Content-Encoding"),
		LastModified: first(h, "Last-Modified"), CacheStatus: first(h, "Cache-Status"),
	}
	if s, err := strconv.ParseInt(first(h, "Age"), 10, 32); err == nil && s > 0 {
		m.Age = time.Duration(s) * time.Second
	}
	return m
}

// first is h.Get for a name in canonical form.
func first(h http.Header, canonical string) string {
	if v := h[canonical]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// Value is the answer to a get.
type Value struct {
	Body []byte
	// NotModified says that the value still has the caller's entity tag. Body
	// is then empty.
	NotModified bool
	Meta
}

// GetOptions are the rarer options of a get.
type GetOptions struct {
	// IfNoneMatch is the entity tag, with its quotes, of the value that the
	// caller already has. Default: empty, no condition.
	IfNoneMatch string
	// OnlyIfCached gets a value only if the cluster has it, else ErrNotCached.
	OnlyIfCached bool
	// Buffer receives the body if it is large enough, so that a caller may
	// reuse one buffer. Its contents are overwritten. Default: nil, a new
	// buffer.
	Buffer []byte
}

// Get asks for a key's value. ErrNotFound means that the origin has no such key
// or, in a group without an origin, that no value was put.
func (c *Client) Get(ctx context.Context, group, key string) (*Value, error) {
	return c.GetWith(ctx, group, key, GetOptions{})
}

// GetIfNoneMatch asks for a key's value unless its entity tag is etag.
func (c *Client) GetIfNoneMatch(ctx context.Context, group, key, etag string) (*Value, error) {
	return c.GetWith(ctx, group, key, GetOptions{IfNoneMatch: etag})
}

// GetWith is Get with options.
func (c *Client) GetWith(ctx context.Context, group, key string, o GetOptions) (*Value, error) {
	path, err := keyPath("get", group, key)
	if err != nil {
		return nil, err
	}
	if err := checkHeader("get", "If-None-Match", o.IfNoneMatch); err != nil {
		return nil, err
	}
	call := &call{op: "get", method: http.MethodGet, path: path, buffer: o.Buffer[:0]}
	if o.IfNoneMatch != "" || o.OnlyIfCached {
		call.header = c.header.Clone()
		if o.IfNoneMatch != "" {
			call.header["If-None-Match"] = []string{o.IfNoneMatch}
		}
		if o.OnlyIfCached {
			call.header["Cache-Control"] = []string{"only-if-cached"}
		}
	}
	r, err := c.do(ctx, call)
	if err != nil {
		return nil, err
	}
	switch {
	case r.status == http.StatusOK:
		return &Value{Body: r.body, Meta: metaOf(r.header)}, nil
	case r.status == http.StatusNotModified && o.IfNoneMatch != "":
		return &Value{NotModified: true, Meta: metaOf(r.header)}, nil
	default:
		return nil, failure("get", &r)
	}
}
