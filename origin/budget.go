package origin

import (
	"sync"
	"time"
)

// budget limits second tries. When an origin fails, a second try for each load
// would double the load on it just when it can bear least. Ten second tries a
// second are free, so that a pool with few loads, or a new one, can make
// failures good. Each load pays in its share on top. A second try takes out 1.
// The budget begins with the free tries of ten seconds and never holds more, so
// that a good hour does not pay for a storm. (This is the rule of Finagle's
// RetryBudget and of Linkerd.)
type budget struct {
	share float64 // 0: no second tries

	mu   sync.Mutex // guards the fields below
	have float64
	paid time.Time // free tries are paid in until here
}

const (
	freeTries  = 10 // second tries a second
	budgetMost = 10 * freeTries
)

func newBudget(share float64) *budget {
	return &budget{share: share, have: budgetMost, paid: time.Now()}
}

// load pays in the share of one load.
func (b *budget) load() {
	b.mu.Lock()
	b.have = min(budgetMost, b.have+b.share)
	b.mu.Unlock()
}

// spend takes out one second try, and reports whether there was one.
func (b *budget) spend() bool {
	if b.share == 0 {
		return false
	}
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.have = min(budgetMost, b.have+freeTries*now.Sub(b.paid).Seconds())
	b.paid = now
	// In floating point ten shares of 0.1 may be a little less than 1.
	if b.have < 1-1e-9 {
		return false
	}
	b.have--
	return true
}

// refund returns a second try that was not made.
func (b *budget) refund() {
	b.mu.Lock()
	b.have = min(budgetMost, b.have+1)
	b.mu.Unlock()
}
