package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"kring/cache"
)

const (
	// batchChunk is how many keys of a batch are worked on together.
	batchChunk = 128
	// deleteWorkers is how many deletes of a batch run at once.
	deleteWorkers = 16
	// flushBytes is how much of a batch's answer is gathered for one write.
	flushBytes = 64 << 10
	// maxKeptBatch is the largest buffer that is kept for another batch.
	maxKeptBatch = 4 * flushBytes
)

// maxBatchBody bounds a batch's body: each byte of a key may be escaped as
// \u00XX in JSON, and each key has quotes, a comma and some white space.
func maxBatchBody(keys, keyBytes int) int64 { return 1<<10 + int64(keys)*int64(6*keyBytes+16) }

// batch answers POST of a list of keys, each of which is one get or delete.
func (a *API) batch(c *gin.Context, key cache.Key) error {
	r := c.Request
	if err := a.cache.CheckKey(cache.Key{Group: key.Group, Key: "-"}); errors.Is(err, cache.ErrUnknownGroup) {
		return err
	}
	body, err := a.readBody(r, a.maxBatch)
	if err != nil {
		return err
	}
	defer body.release()
	var req batchRequest
	if mediaType(r.Header.Get("Content-Type")) == batchMediaType {
		req, err = decodeBinaryBatch(body.bytes, a.limits.BatchKeys)
	} else {
		req, err = decodeJSONBatch(body.bytes, a.limits.BatchKeys)
	}
	if err != nil {
		return err
	}
	if req.del {
		if err := a.auth.may(c, roleWrite, key.Group); err != nil {
			return err
		}
		if err := unconditional(r.Header); err != nil {
			return err
		}
	}
	ctx := r.Context()
	if req.del {
		var cancel context.CancelFunc
		ctx, cancel = a.writeContext(r)
		defer cancel()
	}
	return a.answerBatch(ctx, c, key.Group, req)
}

func (a *API) answerBatch(ctx context.Context, c *gin.Context, group string, req batchRequest) error {
	var enc batchEncoder = &jsonBatch{}
	accept := c.Request.Header["Accept"]
	if q := weight(accept, batchMediaType); q > 0 && q >= weight(accept, "application/json") {
		enc = &binaryBatch{}
	}
	h := c.Writer.Header()
	h["Content-Type"] = []string{enc.contentType()}
	h["Kring-Node"] = a.nodeValue
	h["X-Content-Type-Options"] = nosniff
	h.Set("Cache-Control", "no-store")
	buffer := batchBuffers.Get().(*[]byte)
	out := enc.begin((*buffer)[:0], len(req.keys))
	defer func() {
		if cap(out) <= maxKeptBatch {
			*buffer = out
			batchBuffers.Put(buffer)
		}
	}()
	ctx = context.WithValue(ctx, cache.RequestIDKey{}, a.requestID(c))
	// What gets may still take: a client that reads slowly does not use it up.
	left := a.limits.RequestTimeout
	for i := 0; i < len(req.keys); i += batchChunk {
		keys := req.keys[i:min(i+batchChunk, len(req.keys))]
		results := make([]cache.Result, len(keys))
		if req.del {
			results = a.deleteMany(ctx, group, keys)
		}
		for done := 0; done < len(keys); {
			if !req.del {
				began := time.Now()
				limited, cancel := context.WithTimeout(ctx, left)
				a.cache.GetMany(limited, group, keys[done:], results[done:])
				cancel()
				left -= time.Since(began)
				if err := c.Request.Context().Err(); err != nil {
					return errClientGone.Because(err)
				}
			}
			now := time.Now()
			for ; done < len(keys) && (req.del || results[done].Answered()); done++ {
				b := newBatchEntry(keys[done], req.del, &results[done], now)
				if b.code == cache.ErrInternal.Code {
					a.logInternal(c, results[done].Err)
				}
				results[done] = cache.Result{} // what is written need not be kept
				out = enc.entry(out, b)
				if len(out) >= flushBytes {
					if _, err := c.Writer.Write(out); err != nil {
						return fmt.Errorf("write a batch's answer: %w", context.Canceled)
					}
					out = out[:0]
				}
			}
		}
	}
	out = enc.end(out)
	if !c.Writer.Written() {
		h["Content-Length"] = []string{strconv.Itoa(len(out))}
	}
	a.write(c, out)
	return nil
}

// batchBuffers are what answers of batches are gathered in.
var batchBuffers = sync.Pool{New: func() any { return new([]byte) }}

// deleteMany deletes keys, a few at a time, and waits for all.
func (a *API) deleteMany(ctx context.Context, group string, keys []string) []cache.Result {
	results := make([]cache.Result, len(keys))
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(deleteWorkers, len(keys)) {
		workers.Go(func() {
			for i := range next {
				results[i].Err = a.deleteOne(ctx, cache.Key{Group: group, Key: keys[i]})
			}
		})
	}
	for i := range keys {
		next <- i
	}
	close(next)
	workers.Wait()
	return results
}

// deleteOne keeps a panic from ending the process: it runs outside of the
// request's own goroutine.
func (a *API) deleteOne(ctx context.Context, key cache.Key) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{value: v, stack: stack()}
		}
	}()
	return a.cache.Delete(ctx, key)
}

// batchRequest is a batch, however it was written.
type batchRequest struct {
	del  bool
	keys []string
}

// batchEntry is what became of one key.
type batchEntry struct {
	key    string
	status int
	code   cache.Code // of the problem, or ""
	age    int64
	entry  *cache.Entry // nil: no value
}

func newBatchEntry(key string, del bool, res *cache.Result, now time.Time) batchEntry {
	b := batchEntry{key: key}
	switch {
	case res.Err != nil:
		b.status, b.code = statusOf(res.Err)
	case del:
		b.status = http.StatusNoContent
	case res.Entry.Negative:
		b.status, b.code = statusOf(errNotFound)
	default:
		b.status, b.entry, b.age = http.StatusOK, res.Entry, seconds(res.Entry.Age(now))
	}
	return b
}

// batchEncoder writes a batch's answer piece by piece: each appends to out.
type batchEncoder interface {
	contentType() string
	begin(out []byte, keys int) []byte
	entry(out []byte, e batchEntry) []byte
	end(out []byte) []byte
}

// decodeJSONBatch reads {"keys":[…]} or {"delete":[…]}.
func decodeJSONBatch(body []byte, maxKeys int) (batchRequest, error) {
	if err := exactJSON(body); err != nil {
		return batchRequest{}, err
	}
	name, list, err := onlyMember(body)
	if err != nil {
		return batchRequest{}, err
	}
	if list == nil {
		return batchRequest{}, errBadRequest.With("one of keys and delete is wanted")
	}
	req := batchRequest{del: name == "delete"}
	if len(list) > maxKeys {
		return batchRequest{}, tooManyKeys(maxKeys)
	}
	req.keys = make([]string, len(list))
	for i, key := range list {
		if key == nil {
			return batchRequest{}, errBadRequest.With("a key is null")
		}
		req.keys[i] = *key
	}
	return req, nil
}

func tooManyKeys(most int) error {
	return cache.ErrValueTooLarge.With(fmt.Sprintf("a batch has at most %d keys", most))
}

// mediaType is a Content-Type without its parameters.
func mediaType(contentType string) string {
	t, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(t))
}
