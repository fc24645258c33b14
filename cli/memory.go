package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

const (
	// memoryFloor is what a node needs besides its cache: buffers, connections,
	// goroutines.
	memoryFloor = 44 << 20
	// codeBytes is the resident memory of the program's code, which the
	// runtime's limit does not count: 18 MiB measured.
	codeBytes = 18 << 20
	// gcPercent lets the heap grow to three times the live heap while that is
	// far below the limit, which alone bounds the memory. So a node that is not
	// full collects half as often.
	gcPercent = 200
)

// memoryLimit is the soft limit of the Go runtime for a cache of maxBytes. The
// collector lets a heap grow to a multiple of the live heap. The limit makes it
// work harder from 1.4 times the budget on, so that the process with its code
// stays below 1.5 times the budget and 64 MiB. In a container the limit is at
// most 90 % of its memory.
func memoryLimit(maxBytes int64, container uint64) int64 {
	limit := maxBytes + maxBytes/5*2 + memoryFloor
	if c := container / 10 * 9; c > 0 && c < uint64(limit) {
		limit = int64(c)
	}
	return limit
}

// limitMemory sets the limit, unless GOMEMLIMIT is set, and the pace of the
// collector, unless GOGC is set.
func limitMemory(maxBytes int64, log *slog.Logger) {
	container, err := memlimit.FromCgroup()
	if err != nil {
		container = 0
		if !errors.Is(err, memlimit.ErrNoLimit) && !errors.Is(err, memlimit.ErrCgroupsNotSupported) {
			log.Warn("cannot read the cgroup's memory limit", "error", err)
		}
	}
	if problem := tooLittleMemory(maxBytes, availableMemory()); problem != "" {
		log.Warn("too little memory for the cache", "problem", problem)
	}
	if v, ok := os.LookupEnv("GOMEMLIMIT"); ok {
		log.Info("memory limit comes from the environment", "gomemlimit", v)
		return
	}
	limit := memoryLimit(maxBytes, container)
	debug.SetMemoryLimit(limit)
	if _, ok := os.LookupEnv("GOGC"); !ok {
		debug.SetGCPercent(gcPercent)
	}
	log.Debug("memory limit set", "limit_bytes", limit, "container_bytes", container)
}

// availableMemory is the memory of the machine, or of the container if that is
// less; 0: unknown.
func availableMemory() uint64 {
	available := uint64(0)
	for _, limit := range []memlimit.Provider{memlimit.FromSystem, memlimit.FromCgroup} {
		if n, err := limit(); err == nil && n > 0 && (available == 0 || n < available) {
			available = n
		}
	}
	return available
}

// tooLittleMemory says that a cache of maxBytes does not fit, or returns "".
func tooLittleMemory(maxBytes int64, available uint64) string {
	if available == 0 || uint64(maxBytes)+memoryFloor <= available/10*9 {
		return ""
	}
	const mib = 1 << 20
	return fmt.Sprintf("cache.max_bytes: %d (%d MiB) does not fit: there are %d MiB of memory here, and a node needs %d MiB besides the cache",
		maxBytes, maxBytes/mib, available/mib, memoryFloor/mib)
}
