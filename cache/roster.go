package cache

// roster lists the items of one group, in the order in which they were added.
type roster struct {
	oldest, newest *item
	usage
}

func (r *roster) add(it *item) {
	it.old = r.newest
	if r.newest != nil {
		r.newest.newer = it
	} else {
		r.oldest = it
	}
	r.newest = it
	r.bytes += it.size
	r.entries++
}

func (r *roster) remove(it *item) {
	if it.old != nil {
		it.old.newer = it.newer
	} else {
		r.oldest = it.newer
	}
	if it.newer != nil {
		it.newer.old = it.old
	} else {
		r.newest = it.old
	}
	it.newer, it.old = nil, nil
	r.bytes -= it.size
	r.entries--
}
