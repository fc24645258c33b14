package balance_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"kring/balance"
)

// workerEnv turns this test binary into a worker process.
const workerEnv = "KRING_TEST_WORKER"

// work is the task of a worker process.
type work struct {
	Redis balance.RedisConfig
	Pool  balance.Config
	Picks int  // how many to make
	Hold  bool // leave them unfinished
}

func runWorker(text string) int {
	if err := doWork(text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func doWork(text string) error {
	var w work
	if err := json.Unmarshal([]byte(text), &w); err != nil {
		return err
	}
	r, err := balance.DialRedis(w.Redis, nil)
	if err != nil {
		return err
	}
	p, err := balance.Open(w.Pool, balance.Options{Redis: r})
	if err != nil {
		return err
	}
	if err := makePicks(p, w.Picks, w.Hold); err != nil {
		return err
	}
	if n := p.Status().LocalPicks; n != 0 {
		return fmt.Errorf("%d local picks", n)
	}
	fmt.Println("done")
	if w.Hold {
		select {} // until it is killed
	}
	p.Close()
	return r.Close()
}

// makePicks makes n picks, many at a time.
func makePicks(p *balance.Pool, n int, hold bool) error {
	const at = 8
	errs := make(chan error, at)
	for i := range at {
		share := n / at
		if i == 0 {
			share += n % at
		}
		go func() {
			for range share {
				got, err := p.Pick(context.Background())
				if err != nil {
					errs <- err
					return
				}
				if !hold {
					got.Done(balance.Success)
				}
			}
			errs <- nil
		}()
	}
	for range at {
		if err := <-errs; err != nil {
			return err
		}
	}
	return nil
}

// startWorker runs w in another process, and returns after it has made its
// picks.
func startWorker(t *testing.T, w work) (wait func() error, kill func()) {
	t.Helper()
	text, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), workerEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	kill = func() {
		once.Do(func() {
			_ = cmd.Process.Kill() // it may have ended
			_ = cmd.Wait()         // reports the kill
		})
	}
	t.Cleanup(kill)
	return func() error {
		line, err := bufio.NewReader(out).ReadString('\n')
		if line != "done\n" {
			return fmt.Errorf("the worker said %q: %w", line, err)
		}
		return nil
	}, kill
}

// Two nodes and a worker process share one pool: no endpoint is ever two
// assignments ahead of another.
func TestProcessesShareAPool(t *testing.T) {
	cfg, rc := shared(t, "least_assigned", 1, 1, 1)
	cfg.State = "redis"
	const each = 200_000 / 3
	wait, _ := startWorker(t, work{Redis: rc, Pool: cfg, Picks: each})
	var nodes sync.WaitGroup
	var pools []*balance.Pool
	for range 2 {
		p := openPool(t, cfg, dialRedis(t, rc))
		pools = append(pools, p)
		nodes.Go(func() {
			if err := makePicks(p, each, false); err != nil {
				t.Error(err)
			}
		})
	}
	nodes.Wait()
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	st := pools[0].Inspect(t.Context())
	least, most, sum := int64(1<<40), int64(0), int64(0)
	for _, e := range st.Endpoints {
		least, most, sum = min(least, e.Assigned), max(most, e.Assigned), sum+e.Assigned
	}
	if sum != 3*each || most-least > 1 || pools[0].Status().LocalPicks+pools[1].Status().LocalPicks != 0 {
		t.Errorf("%d assigned, %d to %d each; want %d, at most 1 apart: %+v", sum, least, most, 3*each, st)
	}
}

// A worker's leases last while it lives, even when none of its requests is long
// enough to need a renewal. One lease after kill -9 they are gone.
func TestKilledWorker(t *testing.T) {
	t.Parallel() // it waits most of the time
	cfg, rc := shared(t, "least_in_flight", 1, 1)
	cfg.State, cfg.Lease = "redis", busyLease
	p := openPool(t, cfg, dialRedis(t, rc))
	wait, kill := startWorker(t, work{Redis: rc, Pool: cfg, Picks: 6, Hold: true})
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	held := func() [2]int64 { return [2]int64{inspected(t, p, "a").InFlight, inspected(t, p, "b").InFlight} }
	lasts := time.After(cfg.Lease + cfg.Lease/2)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for over := false; !over; {
		if got := held(); got != [2]int64{3, 3} {
			t.Fatalf("%v in flight while the worker lives, want 3 and 3", got)
		}
		select {
		case <-tick.C:
		case <-lasts:
			over = true
		}
	}
	kill()
	eventually(t, "the leases lapse", func() bool { return held() == [2]int64{} })
}
