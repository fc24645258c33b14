package httpapi

import (
	"math/rand/v2"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"kring/cache"
)

// maxContentType bounds the Content-Type that is kept with a value, in bytes.
const maxContentType = 256

// put answers PUT of a key.
func (a *API) put(c *gin.Context, key cache.Key) error {
	r := c.Request
	if err := a.cluster.CheckKey(key); err != nil {
		return err
	}
	req := &cache.Request{Op: cache.OpPut, Key: key, ID: rand.Uint64() | 1}
	if err := readDescription(r.Header, req); err != nil {
		return err
	}
	var err error
	if req.TTL, err = queryTTL(r.URL.RawQuery); err != nil {
		return err
	}
	if err := conditions(r.Header, req); err != nil {
		return err
	}
	room := a.values.Share(r)
	defer room.Release()
	if req.Value, err = room.ReadBody(r, a.maxValue); err != nil {
		return err
	}

	ctx, cancel := a.writeContext(r)
	defer cancel()
	ans, err := a.cluster.Put(ctx, req)
	if err != nil {
		return err
	}
	h := c.Writer.Header()
	if ans.Entry != nil {
		h["ETag"] = []string{ans.Entry.ETag}
	}
	a.nameOwner(h, ans.Node)
	if ans.Created {
		h["Content-Length"] = []string{"0"}
		return a.done(c, http.StatusCreated)
	}
	return a.done(c, http.StatusNoContent)
}

// readDescription reads the headers of a PUT that describe the value.
func readDescription(header http.Header, req *cache.Request) error {
	if len(header["Content-Type"]) > 1 {
		return errBadRequest.With("Content-Type is given twice")
	}
	req.ContentType = header.Get("Content-Type")
	// A list may be split over several fields (RFC 9110 §8.4, §5.3).
	req.ContentEncoding = strings.Join(header["Content-Encoding"], ", ")
	if len(req.ContentType) > maxContentType || len(req.ContentEncoding) > maxContentType {
		return errBadRequest.With("Content-Type or Content-Encoding is too long")
	}
	if req.ContentType == "" {
		req.ContentType = "application/octet-stream"
	}
	if header.Get("Content-Range") != "" {
		return errBadRequest.With("a PUT replaces the whole value, so it has no Content-Range")
	}
	return nil
}

// delete answers DELETE of a key.
func (a *API) delete(c *gin.Context, key cache.Key) error {
	r := c.Request
	if err := a.cluster.CheckKey(key); err != nil {
		return err
	}
	if err := checkQuery(r.URL.RawQuery); err != nil {
		return err
	}
	req := &cache.Request{Op: cache.OpDelete, Key: key}
	if err := conditions(r.Header, req); err != nil {
		return err
	}
	ctx, cancel := a.writeContext(c.Request)
	defer cancel()
	if err := a.cluster.DeleteIf(ctx, req); err != nil {
		return err
	}
	return a.done(c, http.StatusNoContent)
}
