package cluster

// ForwardMany asks the nodes that act for keys for what they have stored; see
// cache.BatchRouter.
func (p *Peers) ForwardMany(ctx context.Context, group string, keys []string) []cache.Answer {
	answers := make([]cache.Answer, len(keys))
	var begun []*gathering
	for id, at := range p.byActing(keys) {
		for len(at) > 0 {
			g := &gathering{pe: p.others[id]}
			at = g.take(keys, at)
			if g.begin(ctx, group) {
				begun = append(begun, g)
			}
		}
	}
	for _, g := range begun {
		r, err := g.link.wait(ctx, g.call)
		if NoAnswer(err) {
			g.pe.failed.Add(1)
		}
		if err != nil {
			continue
		}
		for n, a := range r.Many {
			if a.Entry != nil {
				a.Node, a.OwnerKind, a.Kind = r.Answer.Node, a.Kind, cache.KindPeer
				answers[g.at[n]] = a
			}
		}
	}
	return answers
}

// byActing sorts keys by the other members that act for them: their indices.
func (p *Peers) byActing(keys []string) map[string][]int {
	v := p.view.Load()
	acting := make(map[string][]int, len(p.others))
	for i, key := range keys {
		if id, _ := p.acting(v, key, nil); id != p.self {
			acting[id] = append(acting[id], i)
		}
	}
	return acting
}

// gathering is one call for many keys.
type gathering struct {
	pe   *peer
	link *link
	call *call
	keys []string
	at   []int // their places among all that are wanted
}

// take takes as many of the keys at places as one call may have, and returns
// the other places.
func (g *gathering) take(keys []string, places []int) (rest []int) {
	bytes := 0
	g.keys, g.at = make([]string, 0, len(places)), make([]int, 0, len(places))
	for n, i := range places {
		bytes += len(keys[i])
		if n > 0 && bytes > maxManyBytes || n == maxMany {
			return places[n:]
		}
		g.keys, g.at = append(g.keys, keys[i]), append(g.at, i)
	}
	return nil
}

// begin sends the call, unless there is no link: who asks for one key after the
// other waits for that, or finds out who else acts.
func (g *gathering) begin(ctx context.Context, group string) bool {
	g.link = g.pe.link.Load()
	if g.link == nil || g.link.w.ended.Load() {
		return false
	}
	g.pe.calls.Add(1)
	var err error
	g.call, err = g.link.begin(ctx, &Request{
		Request: cache.Request{Op: OpGetMany, Key: cache.Key{Group: group}}, Hop: 1, Keys: g.keys,
	})
	if NoAnswer(err) {
		g.pe.failed.Add(1)
	}
	return err == nil
}

