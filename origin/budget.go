package origin

import (
	"sync"
	"time"
)

// budget limits second tries to a share of the loads, so that an origin in
// trouble does not get twice the load. Each load pays its share in, a second
// try takes 1 out. So that a single failure can be made good even when loads
// are few, the purse begins with 1 and gets another 1 every 10 seconds; so
// that a good hour does not pay for a storm, it holds at most 10.
// (the idea is Finagle's RetryBudget)
type budget struct {
	share float64

	mu   sync.Mutex // guards what follows
	have float64
	paid time.Time
}

const (
	budgetMost  = 10
	budgetEvery = 10 * time.Second
)

func newBudget(share float64) *budget {
	return &budget{share: share, have: 1, paid: time.Now()}
}

// load pays in for one load.
func (b *budget) load() {
	b.mu.Lock()
	b.have = min(budgetMost, b.have+b.share)
	b.mu.Unlock()
}

// spend reports whether a second try may be made, and takes it out.
func (b *budget) spend() bool {
	if b.share == 0 {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := time.Since(b.paid) / budgetEvery; n > 0 {
		b.have = min(budgetMost, b.have+float64(n))
		b.paid = b.paid.Add(n * budgetEvery)
	}
	// What floating point makes of ten shares of 0.1 is still 1.
	if b.have < 1-1e-9 {
		return false
	}
	b.have--
	return true
}

// refund gives back a try that was not made.
func (b *budget) refund() {
	b.mu.Lock()
	b.have = min(budgetMost, b.have+1)
	b.mu.Unlock()
}
