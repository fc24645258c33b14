package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/gin-gonic/gin"

	"kring/cache"
)

const (
	// batchChunk is how many keys of a batch are worked on together.
	batchChunk = 128
	// deleteWorkers is how many deletes of a batch run at once.
	deleteWorkers = 16
	// batchBuffer is the memory in which a batch's answer is encoded, in bytes,
	// flushBytes how much of it is gathered for one write, and batchPiece how
	// much of a value is encoded at a time: JSON makes six bytes of one.
	batchBuffer = 64 << 10
	flushBytes  = 32 << 10
	batchPiece  = 3 << 10 // whole groups of base64
	// smallBatch is how long a batch's answer may be, in bytes, that is not
	// charged to the budget of answers. entryFrame is what an entry has of it
	// besides its texts, escapedByte what each of their bytes may take.
	smallBatch  = 2 * uncounted
	entryFrame  = 160
	escapedByte = 6
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
	room := a.responses.Answer(c.Request)
	defer room.Release()
	out := &batchOut{w: c.Writer, keys: len(req.keys), start: enc.begin}
	defer out.close()
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
			n, err := a.answerSome(ctx, c, room, &left, group, req.del, keys[done:], results[done:], enc, out)
			if err != nil {
				return err
			}
			done += n
		}
	}
	out.begin() // if there is no key
	enc.end(out)
	if !c.Writer.Written() {
		h["Content-Length"] = []string{strconv.Itoa(len(out.buf))}
	}
	out.flush()
	return out.failure()
}

// answerSome gets as many of keys, from the first, as may be in memory at once,
// and encodes them. It returns how many.
func (a *API) answerSome(
	ctx context.Context, c *gin.Context, room *answer, left *time.Duration,
	group string, del bool, keys []string, results []cache.Result, enc batchEncoder, out *batchOut,
) (n int, err error) {
	if !del {
		began := time.Now()
		limited, cancel := context.WithTimeout(ctx, *left)
		defer cancel() // after the last write: what came from other nodes is charged until then
		a.cache.GetMany(limited, group, keys, results)
		*left -= time.Since(began)
		if err := c.Request.Context().Err(); err != nil {
			return 0, errClientGone.Because(err)
		}
	}
	for n < len(results) && (del || results[n].Answered()) {
		n++
	}
	if size := sizeOfBatch(keys[:n], results[:n]); n == out.keys && size <= smallBatch {
		out.buf = make([]byte, 0, size)
	} else if err := a.chargeBatch(ctx, c, room, results[:n]); err != nil {
		return 0, err
	}
	out.begin()
	now := time.Now()
	for i := range results[:n] {
		b := newBatchEntry(keys[i], del, &results[i], now)
		if b.code == cache.ErrInternal.Code {
			a.logInternal(c, results[i].Err)
		}
		results[i] = cache.Result{} // what is written need not be kept
		enc.entry(out, b)
		if b.entry != nil && len(b.entry.Value) > uncounted {
			room.Drop(b.entry)
		}
		out.flushFull()
		if err := out.failure(); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// sizeOfBatch is the most that an answer with these results takes.
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

// chargeBatch charges the values of results, and with the first of them the
// buffer. Without room for them before anything is written, the batch is
// refused; later, the keys whose values are large are.
func (a *API) chargeBatch(ctx context.Context, c *gin.Context, room *answer, results []cache.Result) error {
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
	if err != nil && c.Writer.Written() {
		for _, i := range at {
			results[i] = cache.Result{Err: cache.ErrOverloaded}
		}
		return nil
	}
	return err
}

// batchBuffers are what answers of batches are encoded in.
var batchBuffers = sync.Pool{New: func() any { return new([batchBuffer]byte) }}

// batchOut gathers a batch's answer, and writes what has been gathered whenever
// it is enough.
type batchOut struct {
	w      io.Writer
	keys   int                  // of the whole batch
	start  func(*batchOut, int) // writes what comes first
	memory *[batchBuffer]byte   // nil: the answer is small
	buf    []byte               // in memory, if there is any
	begun  bool
	err    error
}

// begin gets the memory, if there is no buffer, and starts the answer; the second
// time it does nothing. Until there is something to encode, there is no use for it.
func (o *batchOut) begin() {
	if o.begun {
		return
	}
	o.begun = true
	if o.buf == nil {
		o.memory = batchBuffers.Get().(*[batchBuffer]byte)
		o.buf = o.memory[:0]
	}
	o.start(o, o.keys)
}

func (o *batchOut) close() {
	if o.memory != nil {
		batchBuffers.Put(o.memory)
	}
}

func (o *batchOut) flush() {
	if o.err == nil {
		_, o.err = o.w.Write(o.buf)
	}
	o.buf = o.buf[:0]
}

func (o *batchOut) flushFull() {
	if len(o.buf) >= flushBytes {
		o.flush()
	}
}

// failure is the error of the first write that failed. It means that the client
// is gone.
func (o *batchOut) failure() error {
	if o.err != nil {
		return fmt.Errorf("write a batch's answer: %w", context.Canceled)
	}
	return nil
}

// text appends what is short.
func (o *batchOut) text(s string) { o.buf = append(o.buf, s...) }

// writePieces encodes s piece by piece, until the client is gone.
func writePieces[T string | []byte](o *batchOut, s T, encode func(out []byte, piece T) []byte) {
	for len(s) > batchPiece && o.err == nil {
		o.buf = encode(o.buf, s[:batchPiece])
		s = s[batchPiece:]
		o.flushFull()
	}
	if o.err == nil {
		o.buf = encode(o.buf, s)
		o.flushFull()
	}
}

// writeCharacters is writePieces with no piece that ends within a character.
func writeCharacters[T string | []byte](o *batchOut, s T, encode func(out []byte, piece T) []byte) {
	for len(s) > batchPiece && o.err == nil {
		n := batchPiece
		for n > batchPiece-utf8.UTFMax && !utf8.RuneStart(s[n]) {
			n--
		}
		o.buf = encode(o.buf, s[:n])
		s = s[n:]
		o.flushFull()
	}
	if o.err == nil {
		o.buf = encode(o.buf, s)
		o.flushFull()
	}
}

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

// batchEncoder writes a batch's answer piece by piece.
type batchEncoder interface {
	contentType() string
	begin(out *batchOut, keys int)
	entry(out *batchOut, e batchEntry)
	end(out *batchOut)
}

// decodeJSONBatch reads {"keys":[…]} or {"delete":[…]}.
func decodeJSONBatch(in *listBody, maxKeys int) (batchRequest, error) {
	req := batchRequest{keys: []string{}}
	name, err := in.list(`{"keys":[…]} or {"delete":[…]}`, []string{"keys", "delete"}, func(key string) error {
		if len(req.keys) == maxKeys {
			return tooManyKeys(maxKeys)
		}
		req.keys = append(req.keys, key)
		return nil
	})
	req.del = name == "delete"
	return req, err
}

func tooManyKeys(most int) error {
	return cache.ErrValueTooLarge.With(fmt.Sprintf("a batch has at most %d keys", most))
}
