package httpapi

import (
	"context"
	"time"

	"github.com/gin-gonic/gin"

	"kring/cache"
)

const (
	// uncounted is how long an answer may be, in bytes, that is not charged to
	// the budget: it takes no more than the connection itself does.
	uncounted = 4 << 10
	// stalledAfter is how long a client must have taken nothing before its
	// connection is closed for others.
	stalledAfter = 3 * time.Second
	// smallShare is the part of the budget that large answers leave to small ones,
	// one in so many: 1 MiB of 64 MiB. The kernel takes a small answer whole, also
	// for a client that reads nothing, so few of them are there at a time.
	smallShare = 64
	// reportBytes is what answers to operators may take. They have room of their
	// own: they matter most when clients use up theirs.
	reportBytes = 16 << 20
	// metricsBytes is about what an answer of /metrics takes.
	metricsBytes = 256 << 10
)

// Responses is a node's budget for what is on its way to readers: values, those
// that arrive from other nodes included, and encoded answers. A value is
// charged once, however many read it. When there is no room for another, the
// connections that have taken nothing for longest are closed, and if all make
// progress the newcomer is refused. It is the Room of package peers.
type Responses struct{ budget }

// NewResponses makes a budget of so many bytes.
func NewResponses(bytes int64) *Responses {
	return &Responses{budget{
		max: bytes, reserve: bytes / smallShare, why: "too much is on its way to clients that read slowly",
		quiet: (*connection).stalled, quietAfter: stalledAfter, turnAway: (*connection).cut,
		shares: make(map[*share]struct{}), entries: make(map[*cache.Entry]charge),
	}}
}

// Take charges a value of so many bytes that is about to arrive, unless there
// is no room at once.
func (r *Responses) Take(e *cache.Entry, bytes int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.takeLocked(nil, int64(bytes)) {
		return false
	}
	r.entries[e] = charge{bytes: int64(bytes), refs: 1}
	return true
}

// Wait is Take for a caller that can wait for a moment.
func (r *Responses) Wait(ctx context.Context, e *cache.Entry, bytes int) error {
	if err := r.wait(ctx, nil, int64(bytes)); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries[e] = charge{bytes: int64(bytes), refs: 1}
	return nil
}

// Give ends what Take or Wait began. The value stays charged for as long as
// answers with it are written.
func (r *Responses) Give(e *cache.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropLocked(e)
}

// answering is the share of one answer that is on its way.
type answering struct {
	*share
}

// answering begins an answer that is charged to a budget of answers. Its
// connection is watched until release.
func (r *Responses) answering(c *gin.Context) answering {
	conn := connectionOf(c.Request)
	if conn != nil {
		conn.watched = true
	}
	return answering{r.share(conn)}
}

func (s answering) release() {
	if s.conn != nil {
		s.conn.watched = false
	}
	s.share.release()
}
