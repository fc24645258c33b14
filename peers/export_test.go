package peers

import "net/http"

// Speaks has a node speak an older protocol. It must be called before Start.
func (p *Peers) Speaks(version byte) { p.node.Speaks = version }

// ServeHTTP is Accept for a server that has nothing but the peer link.
func (p *Peers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := p.Accept(w, r); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
}
