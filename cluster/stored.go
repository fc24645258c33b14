package peers

import (
	"log/slog"

	"kring/cache"
)

// stored makes the reply to a call that asks for what is stored, and says
// whether it could. It waits for nobody, so the reader of the link calls it:
// most gets need neither a goroutine nor a context.
func (s *served) stored() (ok bool) {
	p := s.in.p
	defer func() {
		if cause := recover(); cause != nil {
			p.log.Error("panic while a peer's call was served", slog.String("peer", s.in.id), slog.Any("panic", cause))
			ok = s.req.Op == OpGetMany // with what it has; a get has its turn on a goroutine
		}
	}()
	agreed := s.view == p.view.Load().Number
	switch {
	case s.req.Op == OpGetMany:
		s.reply.Answer.Node = p.self
		s.reply.Many = make([]cache.Answer, len(s.req.Keys))
		if agreed {
			s.gather()
		}
		return true
	case s.req.Op == cache.OpGet && agreed:
		if s.reply.Answer, ok = p.handler.ServeStored(s.req.Key, s.req.OnlyIfCached, nil); ok {
			s.kind, s.reply.Counted = s.reply.Answer.Kind, true
			s.fit()
		}
		return ok
	}
	return false
}

// gather answers those of many gets whose values are stored and have room in
// one frame.
func (s *served) gather() {
	room := maxMeta
	fits := func(e *cache.Entry) bool {
		return len(e.Value) <= min(s.in.maxValue, chunkLen) && sizeOf(e) <= room
	}
	for i, key := range s.req.Keys {
		a, ok := s.in.p.handler.ServeStored(cache.Key{Group: s.req.Key.Group, Key: key}, false, fits)
		if !ok {
			continue
		}
		room -= sizeOf(a.Entry)
		s.reply.Many[i] = a
	}
}
