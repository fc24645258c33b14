package httpserver

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
)

// connections holds the open connections to their limits, altogether and from
// one address. At a limit a new connection takes the place of the one that has
// waited longest for its client. So idle clients, and clients that send a header
// byte by byte, keep nobody out. If every connection is being answered, the new
// one is closed unserved.
type connections struct {
	max        int
	perAddress int
	maxHead    int // bytes of a request's header that the server reads
	explain    func(status int) []byte

	turns atomic.Uint64 // the last turn that was given; see connection.idle

	// mu guards open and from.
	mu   sync.Mutex
	open map[*connection]struct{}
	from map[netip.Addr]int

	refused   atomic.Uint64 // closed unserved
	displaced atomic.Uint64 // closed, while idle, for a new one
}

func newConnections(most, perAddress, maxHead int, explain func(status int) []byte) *connections {
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

// displace closes a connection that was idle a moment ago. If a request has
// arrived since, its client sees what it sees whenever a kept connection ends
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

// removeLocked does nothing the second time: hijacked and displaced connections
// are closed once more later.
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

// changed is the server's ConnState. It runs twice a request, so it must be
// cheap.
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
		// The server does not report a connection as active again when the next
		// request is malformed and was read already.
		c.unanswered = true
		c.turnedAway.Store(false)
		c.waits()
	case http.StateHijacked:
		c.release() // the handler that took it over bounds those
	}
}

// addressOf is the client's address. Clients without one, as in a network in
// memory, count as one client.
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
