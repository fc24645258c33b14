package balance_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"kring/balance"
	"kring/internal/testlog"
)

// slots are the slot ranges of the three masters of a Redis Cluster.
var slots = [3][2]int{{0, 5460}, {5461, 10922}, {10923, 16383}}

// startCluster starts a Redis Cluster of three masters.
func startCluster(t *testing.T) (masters [3]*server, addrs []string) {
	t.Helper()
	for i := range masters {
		bus, err := freeAddress()
		if err != nil {
			t.Fatal(err)
		}
		_, port, err := net.SplitHostPort(bus)
		if err != nil {
			t.Fatal(err)
		}
		masters[i] = startRedis(t, "--cluster-enabled", "yes", "--cluster-port", port,
			"--cluster-require-full-coverage", "no", "--cluster-node-timeout", "10000")
		addrs = append(addrs, masters[i].addr)
		do(t, masters[i].client(t), "CLUSTER", "ADDSLOTSRANGE", slots[i][0], slots[i][1])
		do(t, masters[i].client(t), "CLUSTER", "SET-CONFIG-EPOCH", i+1)
	}
	for _, m := range masters[1:] {
		host, port, err := net.SplitHostPort(m.addr)
		if err != nil {
			t.Fatal(err)
		}
		do(t, masters[0].client(t), "CLUSTER", "MEET", host, port, m.args[3])
	}
	for _, m := range masters {
		c := m.client(t)
		eventually(t, "the cluster knows all its slots", func() bool {
			info := fmt.Sprint(do(t, c, "CLUSTER", "INFO"))
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_slots_ok:16384") && strings.Contains(info, "cluster_known_nodes:3")
		})
	}
	return masters, addrs
}

// on finds a pool name whose keys are on the given master, and their slot.
func on(t *testing.T, c *redis.Client, policy string, master int) (name string, slot int64) {
	t.Helper()
	for i := range 1000 {
		name = fmt.Sprint(policy, "-", i)
		slot = do(t, c, "CLUSTER", "KEYSLOT", "kring:{"+name+"}:x").(int64)
		if slot >= int64(slots[master][0]) && slot <= int64(slots[master][1]) {
			return name, slot
		}
	}
	t.Fatal("no name")
	return "", 0
}

// Every script works on one slot. When a master fails, only its own pools are
// degraded.
func TestRedisCluster(t *testing.T) {
	masters, addrs := startCluster(t)
	c := masters[0].client(t)
	r := dialRedis(t, redisConfig(addrs...))
	log := &testlog.Buffer{}
	pools := map[string][3]*balance.Pool{}
	var last int64 // the slot of the last pool
	for _, policy := range []string{"least_assigned", "least_in_flight"} {
		var all [3]*balance.Pool
		for i := range all {
			cfg := config(policy, 2, 1, 1)
			cfg.Name, last = on(t, c, policy, i)
			all[i] = openPool(t, cfg, r, logged(log))
			if policy == "least_in_flight" {
				a := assign(t, all[i])
				if _, err := all[i].Renew(t.Context(), a.ID); err != nil {
					t.Errorf("renew: %v", err)
				}
				complete(t, all[i], a.ID)
				if n := inspected(t, all[i], "a").InFlight; n != 0 {
					t.Errorf("%d in flight, want 0", n)
				}
			}
			before := total(t, all[i])
			names(t, all[i], 8, true)
			if n := total(t, all[i]); n != before+8 {
				t.Errorf("master %d: %d assigned, want %d", i, n, before+8)
			}
			put(t, all[i], "d", cfg.Endpoints[0].URL)
			remove(t, all[i], "c")
			awaitSync(t, all[i])
			if got := names(t, all[i], 8, true); !strings.Contains(got, "d") || strings.Contains(got, "c") {
				t.Errorf("master %d: picks %s, want d and not c", i, got)
			}
			if st := all[i].Status(); st.LocalPicks != 0 {
				t.Errorf("master %d: %+v, want no local picks", i, st)
			}
		}
		pools[policy] = all
	}

	// One node is enough to discover the others.
	for i := range masters {
		cfg := config("least_in_flight", 1, 1, 1)
		cfg.Name, _ = on(t, c, "lone", i)
		p := openPool(t, cfg, dialRedis(t, redisConfig(addrs[0])))
		if got := names(t, p, 6, true); got != "abcabc" || p.Status().LocalPicks != 0 {
			t.Errorf("master %d by the address of the first: picks %s, %+v", i, got, p.Status())
		}
	}

	// A silent seed costs tries: the seeds are asked in random order.
	hung, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer hung.Close()
	late := redisConfig(append([]string{hung.Addr().String()}, addrs...)...)
	late.Timeout = 3 * time.Second
	cfg := config("least_assigned", 1, 1)
	p := openPool(t, cfg, dialRedis(t, late))
	eventually(t, "the pool is shared in spite of the hung seed", func() bool {
		before := p.Status().LocalPicks
		names(t, p, 1, true)
		st := p.Status()
		return !st.Degraded && st.LocalPicks == before
	})

	masters[1].stop() // it is a seed, too
	for policy, all := range pools {
		for i, p := range all {
			names(t, p, 4, true)
			if st := p.Status(); st.Degraded != (i == 1) || i == 1 && st.LocalPicks == 0 {
				t.Errorf("%s on master %d: %+v, while master 1 is down", policy, i, st)
			}
		}
	}
	if n := log.Count("choosing locally"); n != 2 {
		t.Errorf("%d log lines, want one for each pool on the master", n)
	}
	if err := masters[1].run(); err != nil {
		t.Fatal(err)
	}
	for _, all := range pools {
		eventually(t, "the pool is well again", func() bool { return !all[1].Status().Degraded })
		awaitSync(t, all[1])
		local := all[1].Status().LocalPicks
		names(t, all[1], 4, true)
		if n := all[1].Status().LocalPicks; n != local {
			t.Errorf("%d local picks after the master is back", n-local)
		}
	}

	// A slot moves, and its keys are lost on the way.
	moved := pools["least_in_flight"][2]
	do(t, masters[2].client(t), "FLUSHALL")
	id := do(t, c, "CLUSTER", "MYID")
	for _, m := range masters {
		do(t, m.client(t), "CLUSTER", "SETSLOT", last, "NODE", id)
	}
	local := moved.Status().LocalPicks
	names(t, moved, 4, true)
	if n := total(t, moved); n != 4 || moved.Status().LocalPicks != local {
		t.Errorf("%d assigned, %d locally, after the slot moved; want 4 and 0", n, moved.Status().LocalPicks-local)
	}
}
