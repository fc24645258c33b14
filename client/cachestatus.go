package client

import (
	"strconv"
	"strings"
	"time"
)

// CacheStatus is how one cache made an answer: a member of the header
// Cache-Status (RFC 9211). Kring lists the node that acted for the key first,
// and the node that was asked last.
type CacheStatus struct {
	Cache     string
	Hit       bool
	Fwd       string // why the cache forwarded the request: "miss", "stale", …
	FwdStatus int    // the status of the forwarded request; 0: not given
	TTL       time.Duration
	HasTTL    bool
	Stored    bool
	Collapsed bool   // waited for another request's answer
	Detail    string // Kring's: "hot", "stale", "negative", "peer:NODE", "stand-in", "cut-off"
}

// ParseCacheStatus reads a Cache-Status header. It drops unknown parameters. A
// malformed header has no members.
func ParseCacheStatus(header string) []CacheStatus {
	var all []CacheStatus
	p := parser{header}
	for {
		p.space()
		name, ok := p.item()
		if !ok {
			return nil
		}
		s := CacheStatus{Cache: name}
		for p.next(';') {
			p.space()
			key := p.token()
			if key == "" {
				return nil
			}
			value, has := "", false
			if p.take('=') {
				if value, has = p.item(); !has {
					return nil
				}
			}
			s.set(key, value, has)
		}
		all = append(all, s)
		p.space()
		if p.rest == "" {
			return all
		}
		if !p.take(',') {
			return nil
		}
	}
}

func (s *CacheStatus) set(key, value string, has bool) {
	yes := !has || value == "?1"
	switch key {
	case "hit":
		s.Hit = yes
	case "stored":
		s.Stored = yes
	case "collapsed":
		s.Collapsed = yes
	case "fwd":
		s.Fwd = value
	case "detail":
		s.Detail = value
	case "fwd-status":
		if n, err := strconv.Atoi(value); err == nil && n >= 100 && n <= 999 {
			s.FwdStatus = n
		}
	case "ttl":
		// Structured integers have at most 15 digits. A number beyond a century
		// of seconds is nonsense.
		if n, err := strconv.ParseInt(value, 10, 64); err == nil && n > -3e9 && n < 3e9 {
			s.TTL, s.HasTTL = time.Duration(n)*time.Second, true
		}
	}
}

// parser reads the part of structured fields (RFC 9651) that the header needs:
// tokens, numbers, booleans, strings.
type parser struct{ rest string }

func (p *parser) space() { p.rest = strings.TrimLeft(p.rest, " \t") }

func (p *parser) take(c byte) bool {
	if p.rest == "" || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

// next skips blanks, then takes c.
func (p *parser) next(c byte) bool {
	old := p.rest
	p.space()
	if p.take(c) {
		return true
	}
	p.rest = old
	return false
}

// token takes the characters of a token, a number or a boolean.
func (p *parser) token() string {
	i := 0
	for i < len(p.rest) && (p.rest[i] > ' ' && p.rest[i] < 0x7f && strings.IndexByte(`;,="()[]{}\`, p.rest[i]) < 0) {
		i++
	}
	t := p.rest[:i]
	p.rest = p.rest[i:]
	return t
}

// item takes a token or a string.
func (p *parser) item() (string, bool) {
	if !p.take('"') {
		t := p.token()
		return t, t != ""
	}
	var b strings.Builder
	for i := 0; i < len(p.rest); i++ {
		switch c := p.rest[i]; {
		case c == '"':
			p.rest = p.rest[i+1:]
			return b.String(), true
		case c == '\\':
			if i++; i == len(p.rest) || p.rest[i] != '"' && p.rest[i] != '\\' {
				return "", false
			}
			b.WriteByte(p.rest[i])
		case c < ' ' || c > '~':
			return "", false
		default:
			b.WriteByte(c)
		}
	}
	return "", false
}
