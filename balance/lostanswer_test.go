package balance_test

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"kring/balance"
)

// deaf is a connection to Redis. After lose is set, it closes in place of the
// answer to the next pick.
type deaf struct {
	net.Conn
	lose   *atomic.Bool
	digest []byte      // of the script that picks
	deaf   atomic.Bool // ignores what follows
}

func (d *deaf) Write(b []byte) (int, error) {
	if bytes.Contains(b, d.digest) && d.lose.CompareAndSwap(true, false) {
		d.deaf.Store(true)
	}
	return d.Conn.Write(b)
}

func (d *deaf) Read(b []byte) (int, error) {
	n, err := d.Conn.Read(b)
	if err == nil && d.deaf.Load() {
		return 0, io.EOF
	}
	return n, err
}

func TestAScriptWhoseAnswerIsLostIsNotRunAgain(t *testing.T) {
	masters, addrs := startCluster(t)
	for name, addresses := range map[string][]string{"server": {commonRedis(t).addr}, "cluster": addrs} {
		t.Run(name, func(t *testing.T) {
			var lose atomic.Bool
			digest := sha1.Sum([]byte(lua(t, "leastassigned.lua")))
			r, err := balance.DialRedis(redisConfig(addresses...), func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := new(net.Dialer).DialContext(ctx, network, address)
				if err != nil {
					return nil, err
				}
				return &deaf{Conn: conn, lose: &lose, digest: []byte(hex.EncodeToString(digest[:]))}, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := r.Close(); err != nil {
					t.Error(err)
				}
			})
			cfg := config("least_assigned", 1, 1)
			cfg.Name, _ = on(t, masters[0].client(t), "lost-"+name, 1)
			p := openPool(t, cfg, r)
			names(t, p, 4, true)
			before := total(t, p)
			lose.Store(true)
			names(t, p, 1, true)
			if lose.Load() {
				t.Fatal("no answer was lost")
			}
			if n := p.Status().LocalPicks; n != 1 {
				t.Errorf("%d local picks after the loss, want 1", n)
			}
			eventually(t, "the pool is well again", func() bool { return !p.Status().Degraded })
			if n := total(t, p); n != before+1 {
				t.Errorf("%d assigned before the loss and %d after it, want one more: the script ran once", before, n)
			}
		})
	}
}
