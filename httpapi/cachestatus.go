package httpapi

import (
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"kring/cache"
)

// statuses writes the header Cache-Status (RFC 9211) of one node's answers.
type statuses struct {
	node     string
	self     string // node as a structured-field item
	hit      numbered
	forever  []string
	negative []string
	stale    []string
}

func newStatuses(node string) *statuses {
	self := sfItem(node)
	return &statuses{
		node:     node,
		self:     self,
		hit:      numbered{prefix: self + "; hit; ttl="},
		forever:  []string{self + "; hit"},
		negative: []string{self + "; hit; detail=negative"},
		stale:    []string{self + "; hit; detail=stale"},
	}
}

// values is the header's value for an answer: first the node that acted for the
// key, then this node if it was another.
func (s *statuses) values(ans *cache.Answer, now time.Time) []string {
	if ans.Kind == cache.KindHit && !ans.StandIn {
		switch e := ans.Entry; {
		case e.Negative:
			return s.negative
		case e.Forever():
			return s.forever
		default:
			return s.hit.values(seconds(e.Left(now)))
		}
	}
	if ans.Kind == cache.KindStale && !ans.StandIn {
		return s.stale
	}
	b := make([]byte, 0, 128)
	// This get shares the answer that another get of this node had from the node
	// that acted.
	shared := ans.Kind == cache.KindJoined && ans.Node != "" && ans.Node != s.node
	if ans.Kind != cache.KindPeer && !shared {
		b = appendStatus(b, s.self, ans.Kind, ans, now)
		return []string{string(b)}
	}
	b = appendStatus(b, sfItem(ans.Node), ans.OwnerKind, ans, now)
	b = append(b, ", "...)
	b = append(b, s.self...)
	b = append(b, "; fwd=miss"...)
	if shared {
		b = append(b, "; collapsed"...)
	}
	b = append(b, "; detail="...)
	b = append(b, sfItem("peer:"+ans.Node)...)
	return []string{string(b)}
}

// appendStatus appends one member of the list: how a node came to its answer.
func appendStatus(b []byte, node string, kind cache.Kind, ans *cache.Answer, now time.Time) []byte {
	e := ans.Entry
	b = append(b, node...)
	detail := ""
	switch kind {
	case cache.KindHit:
		b = append(b, "; hit"...)
		switch {
		case e.Negative:
			detail = "negative"
		case !e.Forever():
			b = append(b, "; ttl="...)
			b = strconv.AppendInt(b, seconds(e.Left(now)), 10)
		}
	case cache.KindStale:
		b = append(b, "; hit"...)
		detail = "stale"
	default:
		// After a 304 the node had the value already: stale, not missing.
		fwd := "; fwd=miss"
		if ans.Status == 304 {
			fwd = "; fwd=stale"
		}
		b = append(b, fwd...)
		if ans.Status > 0 {
			b = append(b, "; fwd-status="...)
			b = strconv.AppendInt(b, int64(ans.Status), 10)
		}
		if ans.Stored {
			b = append(b, "; stored"...)
		}
		if kind == cache.KindJoined {
			b = append(b, "; collapsed"...)
		}
	}
	if ans.StandIn {
		detail = "stand-in"
	}
	if detail != "" {
		b = append(b, "; detail="...)
		b = append(b, detail...)
	}
	return b
}

// failed is the header's value for an error. A node without fwd has asked no
// other. The detail is the problem's code unless there is an origin's status.
func (s *statuses) failed(ans *cache.Answer, err error) []string {
	e, _ := known(err)
	b := make([]byte, 0, 128)
	if ans.Kind != cache.KindPeer {
		b = appendFailure(b, s.self, ans.Kind, ans, e.Code)
		return []string{string(b)}
	}
	if ans.Node == "" { // no other node has answered
		b = append(append(b, s.self...), "; fwd=miss; detail="...)
		return []string{string(append(b, e.Code...))}
	}
	b = appendFailure(b, sfItem(ans.Node), ans.OwnerKind, ans, e.Code)
	b = append(append(append(b, ", "...), s.self...), "; fwd=miss; detail="...)
	return []string{string(append(b, sfItem("peer:"+ans.Node)...))}
}

// appendFailure is appendStatus for a failure.
func appendFailure(b []byte, node string, kind cache.Kind, ans *cache.Answer, code cache.Code) []byte {
	b = append(b, node...)
	if kind == cache.KindLoad || kind == cache.KindJoined {
		b = append(b, "; fwd=miss"...)
		if ans.Status > 0 {
			b = append(b, "; fwd-status="...)
			b = strconv.AppendInt(b, int64(ans.Status), 10)
		}
	}
	if kind == cache.KindJoined {
		b = append(b, "; collapsed"...)
	}
	switch {
	case ans.StandIn:
		b = append(b, "; detail=stand-in"...)
	case ans.Status == 0:
		b = append(append(b, "; detail="...), code...)
	}
	return b
}

// seconds rounds down, so that no value is promised for longer than it lasts.
func seconds(d time.Duration) int64 {
	if d < 0 {
		return -int64((-d + time.Second - 1) / time.Second)
	}
	return int64(d / time.Second)
}

// sfItem writes a name as a token of a structured field, or else as a string of
// one (RFC 9651 §3.3.3, §3.3.4). A byte that a string cannot hold becomes _.
func sfItem(name string) string {
	if isToken(name) {
		return name
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(name) {
		switch c := name[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c > '~':
			b.WriteByte('_')
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		switch {
		case letter || c == '*':
		case i > 0 && ('0' <= c && c <= '9' || strings.IndexByte("!#$%&'+-.^_`|~:/", c) >= 0):
		default:
			return false
		}
	}
	return s != ""
}

// numbered makes header values that differ by one number. It keeps the values of
// small numbers: a hit would spend a tenth of its time on them otherwise.
type numbered struct {
	prefix string
	kept   [4096]atomic.Pointer[[]string]
}

// values is the header's value for n. It is shared: nobody may write to it.
func (s *numbered) values(n int64) []string {
	if n < 0 || n >= int64(len(s.kept)) {
		return []string{s.prefix + strconv.FormatInt(n, 10)}
	}
	if v := s.kept[n].Load(); v != nil {
		return *v
	}
	v := []string{s.prefix + strconv.FormatInt(n, 10)}
	s.kept[n].Store(&v)
	return v
}
