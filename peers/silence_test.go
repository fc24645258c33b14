package peers

import (
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kring/internal/sockets"
	"kring/peers/memnet"
)

// tcpPair is the two ends of a real connection.
func tcpPair(t *testing.T) (here, there net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	here, err = net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { here.Close() })
	there, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { there.Close() })
	return here, there
}

// poll waits until a condition about sockets holds, which the kernel sees to.
func poll(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(20 * time.Second); !holds(); <-ticker.C {
		if time.Now().After(deadline) {
			t.Fatal("not within 20 s:", what)
		}
	}
}

// watched is a link that nobody reads, with a call that somebody waits for, and
// a monitor whose time is told to it.
type watched struct {
	p   *Peers
	l   *link
	own selfDoubt
	now int64
}

func watch(t *testing.T, conn net.Conn) *watched {
	t.Helper()
	p, _ := pair(t, memnet.New())
	l := &link{pe: p.others["n1"], conn: conn, w: newWriter(conn, p.stamp), calls: map[uint64]*call{}, waiting: 1}
	for range enoughPongs {
		l.rtt.add(time.Millisecond)
	}
	p.attach(l.pe, l)
	return &watched{p: p, l: l, own: newSelfDoubt(0)}
}

// pass has the monitor come round for a while and says whether the circuit is open.
func (w *watched) pass(d time.Duration) (open bool) {
	for range d / tick {
		w.now += int64(tick)
		w.own.ticked(w.now)
		w.p.watch(w.l.pe, w.now, &w.own)
	}
	open, _ = w.l.pe.state()
	return open
}

func TestWhatThisNodeHasNotReadIsNotTheMembersSilence(t *testing.T) {
	here, there := tcpPair(t)
	if _, err := io.WriteString(there, "a pong that the reader did not get round to"); err != nil {
		t.Fatal(err)
	}
	poll(t, "bytes", func() bool { n, _ := sockets.Unread(here); return n > 0 })
	w := watch(t, here)
	if w.pass(time.Second) {
		t.Error("open, while bytes of the member wait to be read")
	}
	if !w.pass(2 * time.Second) {
		t.Error("a reader that never comes round holds up the callers for ever")
	}

	here, _ = tcpPair(t)
	w = watch(t, here)
	if w.pass(silence) || !w.pass(2*tick) {
		t.Error("an empty socket: not open when it should be")
	}
}

func TestOneLatePongIsNoSilence(t *testing.T) {
	here, _ := tcpPair(t)
	w := watch(t, here)
	w.l.nextPing, w.l.lastPing = int64(time.Second), int64(time.Second) // so that it sends none
	w.l.asked, w.l.unanswered = 1, 1
	if w.pass(900 * time.Millisecond) {
		t.Error("open after one ping without an answer")
	}
	if !w.pass(400 * time.Millisecond) {
		t.Error("not open after several")
	}
}

func TestAPauseOfThisProcessIsNoHabitOfTheMachine(t *testing.T) {
	own := newSelfDoubt(0)
	for _, at := range []time.Duration{50, 100, 5100, 5150, 9150, 9200} {
		own.ticked(int64(at * time.Millisecond))
	}
	if p := own.patience(enoughPongs, time.Millisecond); p != silence {
		t.Errorf("patience %v", p)
	}
	own.ticked(int64(9350 * time.Millisecond))
	if p := own.patience(enoughPongs, time.Millisecond); p != 400*time.Millisecond {
		t.Errorf("patience %v on a busy machine", p)
	}
	if p := own.patience(0, 0); p != newcomer {
		t.Errorf("patience %v with a new link", p)
	}
}

// stuck is a log that takes nothing until it is released.
type stuck struct {
	slog.Handler
	release chan struct{}
}

func (s stuck) Handle(context.Context, slog.Record) error {
	<-s.release
	return nil
}

// What is decided is not held up by the line that tells of it.
func TestNoDecisionWaitsForItsLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		release := make(chan struct{})
		good, bad := pair(t, n)
		good.log = slog.New(stuck{slog.NewTextHandler(io.Discard, nil), release})
		var hangs atomic.Bool
		byHand(t, n, "n1:1", bad, func(h header, body []byte) []byte {
			if h.typ != framePing || hangs.Load() {
				return nil
			}
			return frameOf(framePong, 0, appendPong(nil, binary.BigEndian.Uint64(body), 0, []string{"n0"}))
		})
		good.Start(idle{})
		defer good.Close()
		defer close(release)
		<-time.After(3 * time.Second)
		if ok, reason := good.Ready(); !ok {
			t.Fatal("not ready:", reason)
		}
		hangs.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := good.Call(ctx, "n1", getOf("k")); !NoAnswer(err) {
			t.Errorf("a get of a silent node's key: %v", err)
		}
		if open, _ := good.others["n1"].state(); !open {
			t.Error("its circuit is closed")
		}
	})
}

// Pings that were answered do not count towards the next silence.
func TestAnAnsweredPingIsNotCountedAgain(t *testing.T) {
	here, _ := tcpPair(t)
	w := watch(t, here)
	w.l.nextPing, w.l.lastPing = int64(time.Minute), int64(time.Minute) // so that it sends none
	w.l.asked, w.l.unanswered = 1, 5
	w.l.answeredPing.Store(true)
	w.pass(tick)
	if w.l.asked != 0 || w.l.unanswered != 0 {
		t.Errorf("%d pings count as unanswered, since %d", w.l.unanswered, w.l.asked)
	}
}
