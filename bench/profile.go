//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"kring/bench/drive"
)

// profileTime is how long a lane is profiled.
const profileTime = 5 * time.Second

// profile lets each of Kring's nodes record a CPU profile while a lane runs
// once more, unmeasured. `go tool pprof` reads the files.
func (b *bench) profile(ctx context.Context, l lane, cfg drive.Config, work string) error {
	if b.profiles == "" || l.team.name != kring {
		return nil
	}
	cfg.Duration = profileTime + time.Second
	errs := make([]error, len(l.team.addrs))
	var wait sync.WaitGroup
	for i, addr := range l.team.addrs {
		wait.Go(func() { errs[i] = b.profileNode(ctx, addr, fmt.Sprintf("%s %s %d", work, l.name, i+1)) })
	}
	_, err := b.drive(ctx, l, cfg)
	wait.Wait()
	return errors.Join(append(errs, err)...)
}

func (b *bench) profileNode(ctx context.Context, addr, name string) error {
	url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", addr, int(profileTime.Seconds()))
	a, err := fetch(ctx, http.MethodGet, url, "", nil)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	return os.WriteFile(filepath.Join(b.profiles, fileName(name)+".pprof"), a.body, 0o644)
}
