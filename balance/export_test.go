package balance

// Departed is the number of removed endpoints whose counts are kept.
func Departed(p *Pool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.departed)
}

// Followed is the number of published changes that a process remembers as
// applied.
func Followed(p *Pool) int {
	p.shared.syncing.Lock()
	defer p.shared.syncing.Unlock()
	return len(p.shared.followed)
}
