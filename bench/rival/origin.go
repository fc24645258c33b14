package rival

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"strconv"
	"strings"

	"kring/cache"
)

// spread is the range of the lengths of values, in bytes. Another key's value
// nearly always has another length, and the loader checks lengths.
const spread = 96

// ValueSize is the length of a key's value; it is at least least.
func ValueSize(key string, least int) int {
	return least + int(crc32.ChecksumIEEE([]byte(key))%spread)
}

// newOrigin answers every path with the value of the part after its last slash.
func newOrigin(o Options) (*server, error) {
	text := bytes.Repeat([]byte("Kring is Frisian and Dutch for ring. "), (o.ValueBytes+spread)/37+1)
	return bare(func(w http.ResponseWriter, r *http.Request) {
		key := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
		n := ValueSize(key, o.ValueBytes)
		h := w.Header()
		h["Content-Type"] = []string{"text/plain"}
		h["Content-Length"] = []string{strconv.Itoa(n)}
		h["Cache-Control"] = []string{"max-age=86400"}
		if _, err := w.Write(text[:n]); err != nil {
			panic(http.ErrAbortHandler) // the caller has left
		}
	}, nil), nil
}

// source loads from the origin for servers without a loader of their own.
type source struct {
	url    string
	client *http.Client
}

func newSource(o Options) *source {
	return &source{url: o.Origin, client: &http.Client{Transport: tunedTransport()}}
}

func (s *source) value(ctx context.Context, key string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+key, nil)
	if err != nil {
		return nil, err
	}
	res, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the origin answered %s", res.Status)
	}
	return body, nil
}

// Load implements cache.Loader.
func (s *source) Load(ctx context.Context, l *cache.Load) (cache.Loaded, error) {
	l.Sent.Add(1)
	value, err := s.value(ctx, l.Key.Key)
	if err != nil {
		return cache.Loaded{}, cache.ErrOriginFailed.Because(err)
	}
	return cache.Loaded{
		Entry: &cache.Entry{Value: value, ContentType: "text/plain"}, Status: http.StatusOK,
		Freshness: cache.Freshness{TTL: -1, StaleWhileRevalidate: -1, StaleIfError: -1},
	}, nil
}

// newCache is Kring's cache for contestants that replace the rest of the node.
func newCache(o Options) (*cache.Cache, error) {
	group := cache.DefaultGroupConfig(Group)
	group.Origin = cache.OriginConfig{Pool: "origin", Path: "/{key}"}
	group.TTL, group.Jitter = 0, 0
	cfg := cache.DefaultConfig()
	cfg.MaxBytes = o.budget()
	node := nodeName(1)
	if len(o.Peers) > 0 {
		number, err := o.number()
		if err != nil {
			return nil, err
		}
		node = nodeName(number)
	}
	return cache.New(cache.Options{
		Node: node, Config: cfg, Groups: []cache.GroupConfig{group}, Loader: newSource(o),
	})
}

// get is a get at a node alone, in nobody's books.
func get(ctx context.Context, c *cache.Cache, key string) (cache.Answer, error) {
	g, err := c.Group(Group)
	if err != nil {
		return cache.Answer{}, err
	}
	r := g.Read(key, false)
	return r.Answer(ctx, cache.OwnerTerm)
}
