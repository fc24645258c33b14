package httpapi

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"kring/cache"
)

const (
	// batchChunk is how many deletes of a batch are worked on together.
	batchChunk = 128
	// deleteWorkers is how many deletes of a batch run at once.
	deleteWorkers = 16
	// batchBuffer is the memory in which a batch's answer is encoded, in bytes.
	// flushBytes is how much of it is gathered for one write. batchPiece is how
	// much of a value is encoded at a time: JSON may make six bytes of one.
	batchBuffer = 64 << 10
	flushBytes  = 32 << 10
	batchPiece  = 3 << 10 // whole groups of base64
	// smallBatch is how many bytes a batch's answer may have that is not charged to
	// the budget of answers. entryFrame is how many bytes an entry takes besides
	// its texts, and escapedByte how many each byte of a text may take.
	smallBatch  = 2 * uncounted
	entryFrame  = 160
	escapedByte = 6
)

// batch answers POST of a list of keys. Each key is a get or a delete.
func (a *API) batch(c *gin.Context, key cache.Key) error {
	r := c.Request
	if err := a.cluster.CheckKey(cache.Key{Group: key.Group, Key: "-"}); errors.Is(err, cache.ErrUnknownGroup) {
		return err
	}
	in, err := a.readList(r, a.maxBatch)
	if err != nil {
		return err
	}
	defer in.Release()
	var req batchRequest
	if mediaType(r.Header.Get("Content-Type")) == batchMediaType {
		req, err = decodeBinaryBatch(in, a.limits.BatchKeys)
	} else {
		req, err = decodeJSONBatch(in, a.limits.BatchKeys)
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
	return a.answerBatch(c, key.Group, req)
}

// batchAnswer is the answer to one batch, as it is written.
type batchAnswer struct {
	a    *API
	c    *gin.Context
	ctx  context.Context //nolint:containedctx // of the one request that it is a part of
	del  bool
	room *answerRoom
	enc  batchEncoder
	out  *batchOut
}

func (a *API) answerBatch(c *gin.Context, group string, req batchRequest) error {
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
	room := a.responses.Answer(c.Request)
	defer room.Release()
	out := &batchOut{w: c.Writer, keys: len(req.keys), start: enc.begin}
	defer out.close()
	ctx := context.WithValue(c.Request.Context(), cache.RequestIDKey{}, a.requestID(c))
	b := &batchAnswer{a: a, c: c, ctx: ctx, del: req.del, room: room, enc: enc, out: out}
	answer := b.gets
	if req.del {
		answer = b.deletes
	}
	if err := answer(group, req.keys); err != nil {
		return err
	}
	out.begin() // if there is no key
	enc.end(out)
	if !c.Writer.Written() {
		h["Content-Length"] = []string{strconv.Itoa(len(out.buf))}
	}
	out.flush()
	return out.failure()
}

// gets answers a batch of gets. A client that reads slowly takes nothing of their
// time.
func (b *batchAnswer) gets(group string, keys []string) error {
	for at, results := range b.a.cluster.GetMany(b.ctx, group, keys, b.a.limits.RequestTimeout) {
		if err := b.ctx.Err(); err != nil {
			return errClientGone.Because(err)
		}
		if err := b.entries(keys[at:at+len(results)], results); err != nil {
			return err
		}
	}
	return nil
}

// deletes answers a batch of deletes.
func (b *batchAnswer) deletes(group string, keys []string) error {
	ctx, cancel := b.a.writeContext(b.c.Request)
	defer cancel()
	for part := range slices.Chunk(keys, batchChunk) {
		if err := b.entries(part, b.a.deleteMany(ctx, group, part)); err != nil {
			return err
		}
	}
	return nil
}

// entries encodes the results of keys.
func (b *batchAnswer) entries(keys []string, results []cache.Result) error {
	out := b.out
	if size := sizeOfBatch(keys, results); len(keys) == out.keys && size <= smallBatch {
		out.buf = make([]byte, 0, size)
	} else if err := b.charge(results); err != nil {
		return err
	}
	out.begin()
	now := time.Now()
	for i := range results {
		e := newBatchEntry(keys[i], b.del, &results[i], now)
		if e.code == cache.ErrInternal.Code {
			b.a.logInternal(b.c, results[i].Err)
		}
		results[i] = cache.Result{} // frees the value
		b.enc.entry(out, e)
		if e.entry != nil && len(e.entry.Value) > uncounted {
			b.room.Drop(e.entry)
		}
		out.flushFull()
		if err := out.failure(); err != nil {
			return err
		}
	}
	return nil
}

// sizeOfBatch is the most bytes that an answer with these results takes.
func sizeOfBatch(keys []string, results []cache.Result) int {
	size := entryFrame
	for i, key := range keys {
		size += entryFrame + (escapedByte+2)*len(key) // and once more in base64
		if e := results[i].Entry; e != nil {
			size += escapedByte * (len(e.Value) + len(e.ContentType) + len(e.ContentEncoding) + len(e.ETag))
		}
	}
	return size
}

// charge charges the values of results, and with the first of them the buffer.
// Without room for them before anything is written, the batch is refused. Later, the
// keys whose values are large are refused.
func (b *batchAnswer) charge(results []cache.Result) error {
	ctx, room := b.ctx, b.room
	small := int64(batchBuffer)
	var at []int
	for i := range results {
		switch e := results[i].Entry; {
		case e == nil:
		case len(e.Value) > uncounted:
			at = append(at, i)
		default:
			small += int64(len(e.Value))
		}
	}
	err := error(nil)
	if more := small - room.Taken(); more > 0 {
		err = room.Take(ctx, more)
	}
	if len(at) > 0 && err == nil {
		large := make([]*cache.Entry, len(at))
		for n, i := range at {
			large[n], results[i].Entry = results[i].Entry, nil
		}
		err = room.Hold(ctx, large)
		for n, i := range at {
			if results[i].Entry = large[n]; large[n] == nil && err == nil {
				results[i].Err = cache.ErrOverloaded
			}
		}
	}
	if err != nil && b.c.Writer.Written() {
		for _, i := range at {
			results[i] = cache.Result{Err: cache.ErrOverloaded}
		}
		return nil
	}
	return err
}

// deleteMany deletes keys, 16 at a time, and waits for all.
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

// deleteOne turns a panic into an error: outside of the request's own goroutine a
// panic would end the process.
func (a *API) deleteOne(ctx context.Context, key cache.Key) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{value: v, stack: stack()}
		}
	}()
	return a.cluster.Delete(ctx, key)
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
