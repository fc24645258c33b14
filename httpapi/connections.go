package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"

	"kring/cache"
)

// connections holds the open connections to their limits, altogether and from
// one address. At a limit a new connection takes the place of the one that has
// been waiting longest for its client to say something, so that idle ones, and
// those that send a header byte by byte, keep nobody out. Only when all are
// being answered is the new one closed unserved.
type connections struct {
	max        int
	perAddress int
	maxHead    int // bytes of a request's header that the server reads
	// explain writes the whole answer to a request that cannot be read, or is
	// not even waited for.
	explain func(code cache.Code) []byte

	turns atomic.Uint64 // the last one given; see connection.idle

	// mu guards open and from.
	mu   sync.Mutex
	open map[*connection]struct{}
	from map[netip.Addr]int

	refused   atomic.Uint64 // closed unserved
	displaced atomic.Uint64 // closed, while idle, for a new one
}

func newConnections(most, perAddress, maxHead int, explain func(cache.Code) []byte) *connections {
	return &connections{
		max: most, perAddress: perAddress, maxHead: maxHead, explain: explain,
		open: make(map[*connection]struct{}), from: make(map[netip.Addr]int),
	}
}

// admit counts a new connection, or reports that there is no place for it.
func (s *connections) admit(raw net.Conn) (*connection, bool) {
	c := &connection{Conn: raw, owner: s, addr: addressOf(raw)}
	c.waits()
	s.mu.Lock()
	var victim *connection
	switch {
	case s.from[c.addr] >= s.perAddress:
		victim = s.longestIdleLocked(func(o *connection) bool { return o.addr == c.addr })
	case len(s.open) >= s.max:
		victim = s.longestIdleLocked(func(*connection) bool { return true })
	default:
		s.addLocked(c)
		s.mu.Unlock()
		return c, true
	}
	if victim != nil {
		s.removeLocked(victim)
		s.addLocked(c)
	}
	s.mu.Unlock()
	if victim == nil {
		s.refused.Add(1)
		return nil, false
	}
	s.displace(victim)
	return c, true
}

// displaceIdle closes the connection that has waited longest, if any waits.
func (s *connections) displaceIdle() bool {
	s.mu.Lock()
	victim := s.longestIdleLocked(func(*connection) bool { return true })
	if victim != nil {
		s.removeLocked(victim)
	}
	s.mu.Unlock()
	if victim == nil {
		return false
	}
	s.displace(victim)
	return true
}

// CloseIdle closes the client connection that has waited longest for a
// request, for something that needs its descriptor more. It reports whether
// there was one.
func (a *API) CloseIdle() bool { return a.conns.displaceIdle() }

// displace closes a connection that was idle a moment ago. If a request has
// just arrived, its client sees what it sees whenever a kept connection ends
// between two requests.
func (s *connections) displace(victim *connection) {
	s.displaced.Add(1)
	_ = victim.Conn.Close()
}

func (s *connections) longestIdleLocked(among func(*connection) bool) (found *connection) {
	var since uint64
	for c := range s.open {
		if idle := c.idle.Load(); idle > 0 && (found == nil || idle < since) && among(c) {
			found, since = c, idle
		}
	}
	return found
}

func (s *connections) addLocked(c *connection) {
	s.open[c] = struct{}{}
	s.from[c.addr]++
}

func (s *connections) remove(c *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeLocked(c)
}

// removeLocked does nothing the second time: hijacked connections and victims
// are closed later.
func (s *connections) removeLocked(c *connection) {
	if _, ok := s.open[c]; !ok {
		return
	}
	delete(s.open, c)
	if s.from[c.addr]--; s.from[c.addr] == 0 {
		delete(s.from, c.addr)
	}
}

func (s *connections) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// changed is the server's ConnState. It runs twice a request, so it does no
// more than give it its turn.
func (s *connections) changed(raw net.Conn, state http.ConnState) {
	c, ok := raw.(*connection)
	if !ok {
		return
	}
	switch state {
	case http.StateActive:
		c.works()
		c.begin()
	case http.StateIdle:
		// The server does not say that a connection is active again when a
		// malformed request follows that it had read already.
		c.unanswered = true
		c.turnedAway.Store(false)
		c.waits()
	case http.StateHijacked:
		// Another node's link: the peers bound those.
		c.release()
	}
}

// addressOf is the client's address. Those that have none, as in a network in
// memory, count as one.
func addressOf(c net.Conn) netip.Addr {
	if c.RemoteAddr() == nil {
		return netip.Addr{}
	}
	ap, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap()
}
