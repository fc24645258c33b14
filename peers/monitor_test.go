package peers

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"kring/link"
	"kring/peers/memnet"
)

func TestALateLoopDoubtsItself(t *testing.T) {
	own := newSelfDoubt(0)
	for _, step := range []struct {
		at    time.Duration
		late  bool
		awake time.Duration
	}{{50, false, 50}, {100, false, 50}, {240, false, 75}, {400, true, 75}, {450, false, 50}, {10450, true, 75}, {10500, false, 50}} {
		round, late := own.next(int64(step.at * time.Millisecond))
		if late != step.late || round.Awake != step.awake*time.Millisecond {
			t.Errorf("at %d ms: late %v, awake for %v", step.at, late, round.Awake)
		}
	}
	if own.doubtless != int64(10450*time.Millisecond) {
		t.Errorf("silence counts from %d", own.doubtless)
	}
}

func TestAPauseOfThisProcessIsNoHabitOfTheMachine(t *testing.T) {
	own := newSelfDoubt(0)
	var round link.Round
	for _, at := range []time.Duration{50, 100, 5100, 5150, 9150, 9200} {
		round, _ = own.next(int64(at * time.Millisecond))
	}
	if p := round.Patience(link.EnoughPongs, time.Millisecond); p != link.MinPatience {
		t.Errorf("patience %v", p)
	}
	round, _ = own.next(int64(9350 * time.Millisecond))
	if p := round.Patience(link.EnoughPongs, time.Millisecond); p != 400*time.Millisecond {
		t.Errorf("patience %v on a busy machine", p)
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
		byHand(t, n, "n1:1", bad, hand{pong: hears("n0")})
		good.Start(idle{})
		defer good.Close()
		defer close(release)
		<-time.After(3 * time.Second)
		if ok, reason := good.Ready(); !ok {
			t.Fatal("not ready:", reason)
		}
		n.Hold("n1:1", "n0:1")
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := good.Call(ctx, "n1", getOf("k"))
		if !NoAnswer(err) {
			t.Errorf("a get of a silent node's key: %v", err)
		}
		if open, _ := good.others["n1"].state(); !open {
			t.Error("its circuit is closed")
		}
	})
}
