package cache

// The fence keeps what a load brings from before a write from being served
// after it:
//
//	load  asks the origin, which answers the old value
//	PUT   stores the new value and is acknowledged
//	load  would now store the old value
//
// A write marks the load that runs. A marked load answers those who already
// waited, whose requests overlap the write, and is not stored. Who comes later
// waits for the next load, which begins when the marked one has ended, and
// looks in the store first.
//
// Marking a flight, joining it and storing its result all happen under the
// lock of the key's stripe, as does all of a write: a write of one key is one
// step, and begins and becomes visible in it.

// fenceLocked marks the key's running load.
func (s *stripe) fenceLocked(key Key) {
	if l := s.lanes[key]; l != nil {
		markLocked(l.running)
	}
}

func markLocked(f *flight) {
	f.marked = true
	if f.waiters == 0 {
		f.cancel()
	}
}

// fenceGroup marks all running loads of a group, and forgets its failures: what
// the origins say from now on counts.
func (c *Cache) fenceGroup(group string) {
	if c.groups[group] == nil {
		return // another node's, of another configuration
	}
	for i := range c.stripes {
		s := &c.stripes[i]
		s.mu.Lock()
		for key, l := range s.lanes {
			if key.Group == group {
				markLocked(l.running)
			}
		}
		s.memory.forgiveAll(group)
		s.mu.Unlock()
	}
}
