package cli

import "testing"

// Whatever the budget, the limit leaves room for the code below the promise of
// 1.5 times the budget and 64 MiB.
func TestMemoryLimitKeepsThePromise(t *testing.T) {
	for budget := int64(1); budget < 1<<42; budget *= 3 {
		promise := budget + budget/2 + 64<<20
		limit := memoryLimit(budget, 0)
		if limit+codeBytes > promise {
			t.Errorf("budget %d: limit %d and the code are more than %d", budget, limit, promise)
		}
		if limit < budget+memoryFloor {
			t.Errorf("budget %d: limit %d leaves no room", budget, limit)
		}
	}
}

func TestMemoryLimitOfAContainer(t *testing.T) {
	const gib = 1 << 30
	if got := memoryLimit(4*gib, gib); got > gib*9/10 || got < gib*8/10 {
		t.Errorf("a container of 1 GiB: limit %d", got)
	}
	if got, want := memoryLimit(gib/4, 64*gib), memoryLimit(gib/4, 0); got != want {
		t.Errorf("a large container: limit %d, want %d", got, want)
	}
}
