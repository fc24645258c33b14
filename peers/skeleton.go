package peers

import (
	"context"
	"kring/cache"
	"net/http"
)

func (p *Peers) Start(h Handler) {}
func (p *Peers) Close() error    { return nil }
func (p *Peers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(http.StatusServiceUnavailable)
}
func (p *Peers) Forward(ctx context.Context, req *cache.Request) (cache.Answer, error) {
	return cache.Answer{}, cache.ErrActHere
}
func (p *Peers) Purge(ctx context.Context, group string) (unconfirmed []string) { return nil }
func (p *Peers) Ready() (ok bool, reason string)                                { return true, "" }
func (p *Peers) Explain(ctx context.Context, key cache.Key) Explanation         { return Explanation{} }
func (p *Peers) Stats() Stats                                                   { return Stats{} }
