package client

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

// Meta is what the headers of an answer say.
type Meta struct {
	Node        string // the node that was asked
	Owner       string // the node that acted for the key
	ETag        string // with its quotes
	ContentType string
	// ContentEncoding is the value's own; nothing decodes it.
	ContentEncoding string
	LastModified    string
	// Age is how old the value is, in whole seconds.
	Age time.Duration
	// CacheStatus is the header as it came; ParseCacheStatus reads it.
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

// first is h.Get for a name that is in canonical form already.
func first(h http.Header, canonical string) string {
	if v := h[canonical]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// Value is the answer to a get.
type Value struct {
	Body []byte
	// NotModified: the value still has the entity tag that the caller holds,
	// and Body is empty.
	NotModified bool
	Meta
}

// GetOptions are the less usual wishes of a get.
type GetOptions struct {
	// IfNoneMatch is the entity tag, with its quotes, of the value that the
	// caller holds already.
	IfNoneMatch string
	// OnlyIfCached asks for what the cluster holds: ErrNotCached otherwise.
	OnlyIfCached bool
	// Buffer is where the body goes if it has room, so that a caller may use
	// one again and again. Its contents are overwritten.
	Buffer []byte
}

// Get asks for a key's value. ErrNotFound: the origin has no such key, or, in
// a group without one, nothing was put.
func (c *Client) Get(ctx context.Context, group, key string) (*Value, error) {
	return c.GetWith(ctx, group, key, GetOptions{})
}

// GetIfNoneMatch asks for a key's value unless its entity tag is this one.
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
