package cache

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"
)

// Write is one write of one key, on the node that acts for the key. It has three steps:
// BeginWrite, the confirmations of other nodes (this version needs none), and Commit.
// One write of a key is under way at a time, and the next one waits for its end. Writes
// are never merged.
type Write struct {
	c     *Cache
	g     *group
	h     uint64
	req   *Request
	term  Term
	entry *Entry // of a put
	known bool   // an earlier try with the same id was committed
	turn  turn
}

// CheckWrite says why a write cannot be carried out, and gives it an id if it has
// none. The errors are those of the key, ErrBadTTL, ErrValueTooLarge and ErrDraining.
func (c *Cache) CheckWrite(req *Request) error {
	g := c.groups[req.Key.Group]
	switch {
	case g == nil:
		return ErrUnknownGroup
	case c.Draining():
		return ErrDraining
	}
	req.Key.Group = g.Name // one string for all keys, and not part of the request's buffer
	if err := g.checkKey(req.Key.Key, c.config.MaxKeyBytes); err != nil {
		return err
	}
	for req.ID == 0 {
		req.ID = rand.Uint64()
	}
	switch {
	case req.Op == OpDelete:
		return nil
	case !g.matches(req.Key.Key):
		return ErrBadKey.With("the group has no such keys")
	case req.TTL < 0:
		return ErrBadTTL
	case int64(len(req.Value)) > c.config.MaxValueBytes:
		return ErrValueTooLarge
	}
	return nil
}

// BeginWrite begins a write that CheckWrite has checked: it marks the running load of
// the key. The cache keeps req.Value. Unless there is an error, the caller must call
// Commit or Abandon.
func (c *Cache) BeginWrite(ctx context.Context, req *Request, term Term) (*Write, error) {
	w := &Write{c: c, g: c.groups[req.Key.Group], h: c.store.hash(req.Key.Key), req: req, term: term}
	if req.Op == OpPut {
		w.entry = w.g.dated(req)
		if !c.store.fits(w.h, req.Key, w.entry) {
			return nil, ErrValueTooLarge.With("the value does not fit in the cache")
		}
	}
	s := c.flights(w.h)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.awaitTurnLocked(ctx, req.Key); err != nil {
		return nil, err
	}
	k := s.stateLocked(req.Key)
	if _, w.known = c.writeIDs.find(w.id()); !w.known {
		if _, holds := w.conditionLocked(); !holds {
			s.releaseLocked(req.Key, k)
			return nil, ErrPreconditionFailed
		}
		k.markLocked()
	}
	k.writing = &w.turn
	return w, nil
}

// Commit makes the write visible and ends it.
//
// If ctx has ended, the write has no effect. Its caller has turned to another node by
// then, or has told its client that the write is unconfirmed, and later writes may have
// been acknowledged.
func (w *Write) Commit(ctx context.Context) (Answer, error) {
	c, key := w.c, w.req.Key
	s := c.flights(w.h)
	s.mu.Lock()
	defer s.mu.Unlock()
	defer w.endLocked(s)
	if err := WriteCtxError(ctx); err != nil {
		return Answer{Node: c.node}, err
	}
	a := Answer{Node: c.node, Entry: w.entry, Stored: w.entry != nil}
	if w.known {
		a.Created, _ = c.writeIDs.find(w.id())
		return a, nil
	}
	old, holds := w.conditionLocked() // again: a purge may have dropped the value
	if !holds {
		return Answer{Node: c.node}, ErrPreconditionFailed
	}
	s.keys[key].markLocked()
	s.memory.forgive(key)
	if w.req.Op == OpDelete {
		c.store.remove(w.h, key)
	} else {
		w.entry.Term, w.entry.Version = w.term, c.version()
		c.store.put(w.h, key, w.entry)
		w.g.seen.add(w.h)
		a.Created = old == nil
	}
	c.writeIDs.add(w.id(), a.Created)
	return a, nil
}

// Abandon ends the write without an effect.
func (w *Write) Abandon() {
	s := w.c.flights(w.h)
	s.mu.Lock()
	defer s.mu.Unlock()
	w.endLocked(s)
}

func (w *Write) endLocked(s *flights) { s.endTurnLocked(w.req.Key, &w.turn) }

func (w *Write) id() writeID { return writeID{id: w.req.ID, key: w.req.Key} }

// conditionLocked reports whether the write's conditions hold. Old is the value that is
// there, or nil.
func (w *Write) conditionLocked() (old *Entry, holds bool) {
	old = w.c.store.find(w.h, w.req.Key, w.term)
	if old.state(time.Now()) == dead || old.Negative {
		old = nil
	}
	return old, w.req.holds(old)
}

// PutEntry is the entry that a put stores, without the group's times.
func (req *Request) PutEntry() *Entry {
	e := &Entry{
		Value: exact(req.Value), ContentType: strings.Clone(req.ContentType), ContentEncoding: strings.Clone(req.ContentEncoding),
		ETag: ContentETag(req.Value, req.ContentEncoding), Born: time.Now(),
	}
	if req.TTL > 0 {
		e.Expires = e.Born.Add(req.TTL)
	}
	if e.ContentType == "" {
		e.ContentType = "application/octet-stream"
	}
	return e
}

// dated is a put's entry with its times. A TTL that the request gives is used as it is.
// The group's own is jittered. In a group with an origin a PUT value may be served
// stale, as a loaded one may.
func (g *group) dated(req *Request) *Entry {
	e := req.PutEntry()
	if req.TTL == 0 && g.TTL > 0 {
		e.Expires = e.Born.Add(g.jittered(g.TTL))
	}
	if !g.plain() {
		e.StaleWhileRevalidate, e.StaleIfError = g.StaleWhileRevalidate, g.StaleIfError
	}
	return e
}

// holds reports whether a write's conditions hold for the value that is there (nil: no
// value). If-Match compares strongly, If-None-Match weakly (RFC 9110 §13.1).
func (req *Request) holds(old *Entry) bool {
	if len(req.IfMatch) > 0 && !listed(req.IfMatch, old, false) {
		return false
	}
	return len(req.IfNoneMatch) == 0 || !listed(req.IfNoneMatch, old, true)
}

func listed(tags []string, e *Entry, weak bool) bool {
	if e == nil {
		return false
	}
	for _, t := range tags {
		if weak {
			t = strings.TrimPrefix(t, "W/")
		}
		if t == "*" || t == e.ETag {
			return true
		}
	}
	return false
}
