package httpapi

import (
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"

	"kring/cache"
)

const (
	// maxTags and maxTagBytes bound the tags of one purge, so that they fit
	// into one frame of the peer link.
	maxTags     = 1000
	maxTagBytes = 32 << 10
	// maxPurgeBody is how many bytes they take in JSON: each byte may be escaped as
	// \u00XX.
	maxPurgeBody = 1<<10 + 6*maxTagBytes + 16*maxTags
)

// purge answers DELETE of a group.
func (a *API) purge(c *gin.Context, key cache.Key) error {
	if err := plainRequest(c.Request); err != nil {
		return err
	}
	ctx, cancel := a.writeContext(c.Request)
	defer cancel()
	if err := a.cluster.Purge(ctx, key.Group); err != nil {
		return err
	}
	return a.done(c, http.StatusNoContent)
}

// plainRequest refuses a purge with a query or a condition: a purge has neither.
func plainRequest(r *http.Request) error {
	if err := checkQuery(r.URL.RawQuery); err != nil {
		return err
	}
	return unconditional(r.Header)
}

// purgeTags answers POST of tags: the entries that have them go from the group.
func (a *API) purgeTags(c *gin.Context, key cache.Key) error {
	r := c.Request
	if err := plainRequest(r); err != nil {
		return err
	}
	in, err := a.readList(r, maxPurgeBody)
	if err != nil {
		return err
	}
	defer in.Release()
	tags, err := decodeTags(in)
	if err != nil {
		return err
	}
	ctx, cancel := a.writeContext(r)
	defer cancel()
	if err := a.cluster.PurgeTags(ctx, key.Group, tags); err != nil {
		return err
	}
	return a.done(c, http.StatusNoContent)
}

// decodeTags reads {"tags":[…]}, and nothing else.
func decodeTags(in *listBody) ([]string, error) {
	var tags []string
	total := 0
	_, err := in.list(`{"tags":["…"]}`, []string{"tags"}, func(tag string) error {
		if tag == "" {
			return errBadRequest.With("a tag is empty")
		}
		if total += len(tag); len(tags) == maxTags || total > maxTagBytes {
			return cache.ErrValueTooLarge.With(fmt.Sprintf("a purge has at most %d tags of %d bytes together", maxTags, maxTagBytes))
		}
		tags = append(tags, tag)
		return nil
	})
	if err == nil && len(tags) == 0 {
		err = errBadRequest.With("no tag is given; a DELETE of the group purges all of it")
	}
	return tags, err
}
