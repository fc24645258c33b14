package peers

// Speaks has a node speak an older protocol. It must be called before Start.
func (p *Peers) Speaks(version byte) { p.node.Speaks = version }
