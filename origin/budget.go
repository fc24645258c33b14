package origin

import (
	"sync"
	"time"
)

// budget limits second tries, so that an origin in trouble does not get twice
// the load. Ten second tries a second are free, so that a pool with few loads,
// or one that has just begun, can make failures good; on top of that each load
// pays in its share. A second try takes 1 out. The purse begins with what is free
// in ten seconds, and never holds more: a good hour does not pay for a storm.
// (This is the rule of Finagle's RetryBudget and of Linkerd.)
type budget struct {
	share float64 // 0: no second tries at all

	mu   sync.Mutex // guards what follows
	have float64
	paid time.Time // until when what is free has been paid in
}

const (
	freeTries  = 10 // second tries a second
	budgetMost = 10 * freeTries
)

func newBudget(share float64) *budget {
	return &budget{share: share, have: budgetMost, paid: time.Now()}
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
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.have = min(budgetMost, b.have+freeTries*now.Sub(b.paid).Seconds())
	b.paid = now
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
