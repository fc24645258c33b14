package cli

import "testing"

// For every budget the limit leaves room for the code below 1.5 times the
// budget and 64 MiB.
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

func TestTooLittleMemoryIsSaid(t *testing.T) {
	const gib = 1 << 30
	for _, row := range []struct {
		name      string
		budget    int64
		available uint64
		fits      bool
	}{
		{"much", gib / 4, 8 * gib, true},
		{"all of it", 8 * gib, 8 * gib, false},
		{"more than there is", 100 * gib, 23 * gib, false},
		{"just", 9*gib - memoryFloor - 16, 10 * gib, true},
		{"just not", 9*gib - memoryFloor + 16, 10 * gib, false},
		{"unknown", 100 * gib, 0, true},
		{"a petabyte", 1 << 50, gib, false},
	} {
		if problem := tooLittleMemory(row.budget, row.available); (problem == "") != row.fits {
			t.Errorf("%s: %q", row.name, problem)
		}
	}
	want := "cache.max_bytes: 107374182400 (102400 MiB) does not fit: there are 23552 MiB of memory here, and a node needs 44 MiB besides the cache"
	if got := tooLittleMemory(100*gib, 23*gib); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAvailableMemoryIsKnown(t *testing.T) {
	if n := availableMemory(); n < 64<<20 || n > 1<<50 {
		t.Errorf("this machine has %d bytes of memory", n)
	}
}
