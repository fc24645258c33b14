package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
	"unicode/utf8"
)

// PutOptions are the options of a put.
type PutOptions struct {
	// ContentType is the value's media type. Default: empty,
	// application/octet-stream.
	ContentType string
	// TTL is how long the value is fresh. Default: 0, the group's TTL.
	TTL time.Duration
	// IfMatch is the entity tag, with its quotes, that the current value must
	// have, or "*" for any value. Otherwise the error is ErrPreconditionFailed.
	// Default: empty, no condition.
	IfMatch string
	// IfAbsent puts only if the key has no value. Otherwise the error is
	// ErrPreconditionFailed.
	IfAbsent bool
}

// Written is the answer to a put.
type Written struct {
	// Created says that the key had no value before.
	Created bool
	Meta
}

// Put sets a key's value. After it has returned without an error, no node
// answers a later request with an older value. After ErrWriteUnconfirmed, a
// time-out or a broken connection the value may be set, now or later.
func (c *Client) Put(ctx context.Context, group, key string, value []byte, o PutOptions) (*Written, error) {
	path, err := keyPath("put", group, key)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(checkHeader("put", "Content-Type", o.ContentType), checkHeader("put", "If-Match", o.IfMatch)); err != nil {
		return nil, err
	}
	if value == nil {
		value = []byte{}
	}
	call := &call{op: "put", method: http.MethodPut, path: path, body: value, repeat: repeatWrite}
	call.header = c.header.Clone()
	if o.ContentType == "" {
		o.ContentType = "application/octet-stream"
	}
	call.header["Content-Type"] = []string{o.ContentType}
	if o.TTL != 0 {
		call.query = url.Values{"ttl": {o.TTL.String()}}.Encode()
	}
	if o.IfMatch != "" {
		call.header["If-Match"] = []string{o.IfMatch}
		call.repeat = repeatRefused
	}
	if o.IfAbsent {
		call.header["If-None-Match"] = []string{"*"}
		call.repeat = repeatRefused
	}
	r, err := c.do(ctx, call)
	if err != nil {
		return nil, err
	}
	switch r.status {
	case http.StatusCreated, http.StatusNoContent:
		return &Written{Created: r.status == http.StatusCreated, Meta: metaOf(r.header)}, nil
	default:
		return nil, failure("put", &r)
	}
}

// Delete removes a key's value, if there is one. Its errors mean the same as
// Put's.
func (c *Client) Delete(ctx context.Context, group, key string) (Meta, error) {
	path, err := keyPath("delete", group, key)
	if err != nil {
		return Meta{}, err
	}
	return c.remove(ctx, "delete", path)
}

// Purge removes a whole group on every node. The *Error of ErrWriteUnconfirmed
// names the nodes that did not confirm it.
func (c *Client) Purge(ctx context.Context, group string) error {
	path, err := groupPath("purge", "/v1/cache/", group)
	if err != nil {
		return err
	}
	_, err = c.remove(ctx, "purge", path)
	return err
}

// PurgeTags removes, on every node, the entries of a group that have one of the
// tags. Its errors mean the same as Purge's.
func (c *Client) PurgeTags(ctx context.Context, group string, tags ...string) error {
	path, err := groupPath("purge", "/v1/purge/", group)
	if err != nil {
		return err
	}
	for _, t := range tags {
		if t == "" || !utf8.ValidString(t) {
			// JSON would turn it into another tag.
			return &Error{Op: "purge", Code: ErrBadRequest.Code, Status: 400, Detail: "a tag is empty or not UTF-8"}
		}
	}
	body, err := json.Marshal(map[string][]string{"tags": tags})
	if err != nil {
		return fmt.Errorf("purge: %w", err)
	}
	header := c.header.Clone()
	header["Content-Type"] = []string{"application/json"}
	r, err := c.do(ctx, &call{op: "purge", method: http.MethodPost, path: path, header: header, body: body, repeat: repeatWrite})
	if err != nil {
		return err
	}
	if r.status != http.StatusNoContent {
		return failure("purge", &r)
	}
	return nil
}

func (c *Client) remove(ctx context.Context, op, path string) (Meta, error) {
	r, err := c.do(ctx, &call{op: op, method: http.MethodDelete, path: path, repeat: repeatWrite})
	if err != nil {
		return Meta{}, err
	}
	if r.status != http.StatusNoContent {
		return Meta{}, failure(op, &r)
	}
	return metaOf(r.header), nil
}
