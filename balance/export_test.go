package balance

// Departed is of how many removed endpoints something is kept.
func Departed(p *Pool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.departed)
}

// Followed is how many published changes a process remembers to have made.
func Followed(p *Pool) int {
	p.shared.syncing.Lock()
	defer p.shared.syncing.Unlock()
	return len(p.shared.followed)
}
