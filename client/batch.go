package client

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"
	"unicode/utf8"
)

// Item is one key's part of a batch's answer. A key's failure affects no other
// key.
type Item struct {
	Key string
	// Status is the status of a request for this key alone: 200, 204, 404, 503,
	// …
	Status      int
	Body        []byte
	ContentType string
	// ContentEncoding is the value's own. The client does not decode it.
	ContentEncoding string
	ETag            string
	Age             time.Duration
	// Code is the code of the error, if there is one.
	Code Code
}

// Err is the item's error: nil for a status of 2xx, else an *Error.
func (i *Item) Err() error {
	if i.Status/100 == 2 {
		return nil
	}
	return &Error{Op: "batch", Code: i.Code, Status: i.Status, Title: http.StatusText(i.Status)}
}

type batchAnswer struct {
	Entries []struct {
		Key         string  `json:"key"`
		Status      int     `json:"status"`
		ContentType string  `json:"content_type"`
		Encoding    string  `json:"content_encoding"`
		ETag        string  `json:"etag"`
		Age         float64 `json:"age"`
		Value       *string `json:"value"`
		ValueBase64 *string `json:"value_base64"`
		Code        Code    `json:"code"`
	} `json:"entries"`
}

// BatchGet asks for many keys' values. The items are in the order of the keys,
// also where a key occurs twice. An invalid key gives an item with status 400.
// After an error there are no items.
func (c *Client) BatchGet(ctx context.Context, group string, keys []string) ([]Item, error) {
	return c.batch(ctx, "batch get", group, "keys", keys, repeatRead)
}

// BatchDelete removes many keys' values. An item's status is 204, or that of
// its error. After an error, some of the keys may be removed.
func (c *Client) BatchDelete(ctx context.Context, group string, keys []string) ([]Item, error) {
	return c.batch(ctx, "batch delete", group, "delete", keys, repeatWrite)
}

func (c *Client) batch(ctx context.Context, op, group, field string, keys []string, rep repeat) ([]Item, error) {
	path, err := groupPath(op, "/v1/batch/", group)
	if err != nil {
		return nil, err
	}
	header := c.header.Clone()
	header["Content-Type"] = []string{"application/json"}
	items := make([]Item, 0, len(keys))
	for len(keys) > 0 {
		part := keys[:min(len(keys), c.cfg.BatchKeys)]
		keys = keys[len(part):]
		// JSON would turn a key that is not UTF-8 into another key. No node
		// holds such a key.
		sent := slices.DeleteFunc(slices.Clone(part), func(k string) bool { return !utf8.ValidString(k) })
		var answered []Item
		if len(sent) > 0 {
			body, err := json.Marshal(map[string][]string{field: sent})
			if err != nil {
				return nil, fmt.Errorf("%s: %w", op, err)
			}
			r, err := c.do(ctx, &call{op: op, method: http.MethodPost, path: path, header: header, body: body, repeat: rep})
			if err != nil {
				return nil, err
			}
			if r.status != http.StatusOK {
				return nil, failure(op, &r)
			}
			if answered, err = readItems(r.body, sent); err != nil {
				return nil, fmt.Errorf("%s: %w", op, err)
			}
		}
		for _, k := range part {
			if !utf8.ValidString(k) {
				items = append(items, Item{Key: k, Status: http.StatusBadRequest, Code: ErrBadKey.Code})
				continue
			}
			items = append(items, answered[0])
			answered = answered[1:]
		}
	}
	return items, nil
}

// readItems reads the answer to a batch of these keys.
func readItems(body []byte, keys []string) ([]Item, error) {
	var a batchAnswer
	if err := json.Unmarshal(body, &a); err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if len(a.Entries) != len(keys) {
		return nil, fmt.Errorf("the answer has %d entries for %d keys", len(a.Entries), len(keys))
	}
	items := make([]Item, 0, len(keys))
	for i, e := range a.Entries {
		if e.Key != keys[i] {
			return nil, fmt.Errorf("entry %d of the answer is for another key", i)
		}
		item := Item{
			Key: e.Key, Status: e.Status, ContentType: e.ContentType, ContentEncoding: e.Encoding, ETag: e.ETag, Code: e.Code,
			Age: time.Duration(e.Age * float64(time.Second)),
		}
		switch {
		case e.Value != nil:
			item.Body = []byte(*e.Value)
		case e.ValueBase64 != nil:
			b, err := base64.StdEncoding.DecodeString(*e.ValueBase64)
			if err != nil {
				return nil, fmt.Errorf("entry %d of the answer: %w", i, err)
			}
			item.Body = b
		}
		items = append(items, item)
	}
	return items, nil
}
