package peers

import (
	"errors"
	"sync"
	"time"
)

// run reads until the link ends, and says why it did.
func (l *link) run() error {
	var writing sync.WaitGroup
	writing.Go(l.w.run)
	err := l.read()
	l.w.close(errLinkClosed)
	writing.Wait()

	l.mu.Lock()
	l.err = errLinkClosed
	for id, c := range l.calls {
		if !c.left {
			l.leaveLocked(c, errLinkClosed)
		}
		l.abandonValue(c)
		delete(l.calls, id)
		if !c.waits {
			<-l.slots
		}
	}
	l.mu.Unlock()
	return err
}

func (l *link) read() error {
	p := l.pe.p
	for {
		h, err := l.reader.header()
		if err != nil {
			return err
		}
		l.heard.Store(p.clock())
		if h.incarnation != l.incarnation {
			return errBadFrame
		}
		switch h.typ {
		case frameAnswer:
			err = l.reader.body(h, func(b []byte) error { return l.answered(h.id, b) })
		case frameChunk:
			err = l.chunk(h)
		case framePong:
			err = l.reader.body(h, l.pong)
		case frameLoading:
			err = l.reader.body(h, func(b []byte) error { return l.loading(h.id, b) })
		default:
			return errBadFrame
		}
		if err != nil {
			return err
		}
	}
}

func (l *link) answered(id uint64, b []byte) error {
	c, waits := l.find(id)
	if c == nil || c.partial.total != 0 {
		return errBadFrame
	}
	r, total, err := parseReply(b, l.pe.p.maxValue, time.Now())
	if err != nil {
		return err
	}
	if len(r.Many) > 0 && len(r.Many) != len(c.req.Keys) {
		return errBadFrame
	}
	c.reply = r
	if total > chunkLen {
		c.partial.total = total
		if waits {
			l.charge(c, total)
		}
		return nil
	}
	l.final(c)
	return nil
}

func (l *link) chunk(h header) error {
	c, waits := l.find(h.id)
	if c == nil || c.partial.total == 0 {
		return errBadFrame
	}
	take := c.partial.read
	if !waits {
		l.abandonValue(c)
		take = c.partial.skip
	}
	if err := take(l.reader.r, h.body); err != nil {
		return err
	}
	if c.partial.missing() == 0 {
		c.reply.Answer.Entry.Value = c.partial.value
		l.final(c)
	}
	return nil
}

// final hands a complete answer to who waits for it, and keeps the books of
// one that came too late.
func (l *link) final(c *call) {
	wanted, own := l.finish(c)
	counted := c.req.counted(&c.reply)
	l.counted.Add(counted)
	if !own {
		l.abandonValue(c) // the gets that share it charge it themselves
		l.pe.p.abandoned.Add(-int64(counted))
	}
	if !wanted {
		return
	}
	if c.shared != nil {
		l.pe.p.sharing.end(c.shared, c.reply, c.othersError(time.Now()))
	}
	close(c.done)
}

// brokenFrames says whether a link ended because of what it carried.
func brokenFrames(err error) bool {
	return errors.Is(err, errBadFrame)
}
