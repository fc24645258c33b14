package balance

// Departed is of how many removed endpoints something is kept.
func Departed(p *Pool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.departed)
}
