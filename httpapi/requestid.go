package httpapi

import (
	"crypto/rand"
	"strconv"
	"sync/atomic"

	"github.com/gin-gonic/gin"
)

const (
	requestIDIn  = "X-Request-Id" // as package http spells it
	requestIDOut = "X-Request-ID"
)

// requestIDs makes ids that do not repeat. An id is a random word of this process
// and a counter.
type requestIDs struct {
	word string
	last atomic.Uint64
}

func newRequestIDs() *requestIDs { return &requestIDs{word: rand.Text()[:10] + "-"} }

func (s *requestIDs) next() string {
	var b [32]byte
	return string(strconv.AppendUint(append(b[:0], s.word...), s.last.Add(1), 36))
}

// requestID is the client's own id of its request if it is fit for logs, or else a
// new id. The header of the answer keeps it.
func (a *API) requestID(c *gin.Context) string {
	h := c.Writer.Header()
	//lint:ignore SA1008 the name is spelt X-Request-ID, which canonicalisation would change
	if v := h[requestIDOut]; len(v) > 0 {
		return v[0]
	}
	v := c.Request.Header[requestIDIn]
	if len(v) == 0 || !saneID(v[0]) {
		v = []string{a.ids.next()}
	}
	h[requestIDOut] = v[:1]
	return v[0]
}

func saneID(id string) bool {
	for i := range len(id) {
		if c := id[i]; c <= ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' {
			return false
		}
	}
	return id != "" && len(id) <= 128
}
