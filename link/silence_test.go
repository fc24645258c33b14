package link

import (
	"bufio"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"kring/internal/sockets"
	"kring/peers/memnet"
)

// tick is the period of the loop that watches links.
const tick = 50 * time.Millisecond

func TestTheSlowestPingsOfALinkSetItsPatience(t *testing.T) {
	var r Recent
	if p := r.Percentile99(); p != 0 {
		t.Errorf("without a sample: %v", p)
	}
	for range 300 {
		r.Add(time.Millisecond)
	}
	r.Add(200 * time.Millisecond)
	r.Add(300 * time.Millisecond)
	if p := r.Percentile99(); p != 200*time.Millisecond {
		t.Errorf("p99 %v", p)
	}
	for range len(r.samples) {
		r.Add(time.Millisecond)
	}
	if p := r.Percentile99(); p != time.Millisecond {
		t.Errorf("old samples stay: %v", p)
	}
	for name, test := range map[string]struct {
		round Round
		pongs int
		rtt   time.Duration
		want  time.Duration
	}{
		"a quick link":           {Round{}, EnoughPongs, time.Millisecond, MinPatience},
		"a slow link":            {Round{}, EnoughPongs, 100 * time.Millisecond, 400 * time.Millisecond},
		"a link that crawls":     {Round{}, EnoughPongs, time.Minute, maxPatience},
		"a busy machine":         {Round{Lateness: 100 * time.Millisecond}, EnoughPongs, time.Millisecond, 400 * time.Millisecond},
		"a new link":             {Round{}, EnoughPongs - 1, time.Millisecond, newcomer},
		"a new link that crawls": {Round{}, 1, time.Minute, maxPatience},
	} {
		if got := test.round.Patience(test.pongs, test.rtt); got != test.want {
			t.Errorf("%s: patience %v, want %v", name, got, test.want)
		}
	}
}

// tcp is the two ends of a real connection.
func tcp(t *testing.T) (here, there net.Conn) {
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

// watched is a link that nobody reads, with a call that somebody waits for, and
// whose time is told to it.
type watched struct {
	*Outgoing
	friend
	now int64
}

func watch(conn net.Conn) *watched {
	w := &watched{}
	w.Outgoing = NewOutgoing(thatNode(), &Claim{}, conn, bufio.NewReader(conn), w)
	w.heard.Store(0)
	w.waiting = 1
	for range EnoughPongs {
		w.RTT.Add(time.Millisecond)
	}
	return w
}

// pass has the loop come round for a while, and says whether the link was found
// silent meanwhile.
func (w *watched) pass(d time.Duration) bool {
	w.silent = 0
	for range d / tick {
		w.now += int64(tick)
		w.Watch(Round{Now: w.now, Awake: tick})
	}
	return w.silent > 0
}

func TestBytesThatThisNodeHasNotReadAreNotTheOthersSilence(t *testing.T) {
	here, there := tcp(t)
	if _, err := io.WriteString(there, "a pong that the reader has not come to"); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		if n, _ := sockets.Unread(here); n > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no bytes within 20 s")
		}
	}
	w := watch(here)
	if w.pass(time.Second) {
		t.Error("silent, while bytes of the other node wait to be read")
	}
	if !w.pass(2 * time.Second) {
		t.Error("a reader that never comes round holds up the callers for ever")
	}

	here, _ = tcp(t)
	w = watch(here)
	if w.pass(MinPatience) || !w.pass(2*tick) {
		t.Error("an empty socket: not silent when it should be")
	}
}

func TestOneLatePongIsNoSilence(t *testing.T) {
	here, _ := net.Pipe()
	w := watch(here)
	s := &w.silence
	s.nextPing, s.lastPing = int64(time.Second), int64(time.Second) // so that it sends none
	s.asked, s.unanswered = 1, 1
	if w.pass(900 * time.Millisecond) {
		t.Error("silent after one ping without an answer")
	}
	if !w.pass(400 * time.Millisecond) {
		t.Error("not silent after several")
	}
}

func TestAnIdleLinkHasFourTimesAsLong(t *testing.T) {
	here, _ := net.Pipe()
	w := watch(here)
	w.waiting = 0
	if w.pass(4 * MinPatience) {
		t.Error("silent too early")
	}
	if !w.pass(2*tick + PingIdle) {
		t.Error("not silent")
	}
}

// What this node slept through is not the other's silence.
func TestAPauseIsNoSilence(t *testing.T) {
	here, _ := net.Pipe()
	w := watch(here)
	w.pass(2 * tick)
	w.now += int64(5 * time.Second)
	w.silent = 0
	w.Watch(Round{Now: w.now, Awake: tick + tick/2})
	if w.silent > 0 {
		t.Error("silent after a pause, by what it was not awake for")
	}
	w.now += int64(tick)
	w.Watch(Round{Now: w.now, Awake: tick, Doubtless: w.now - int64(tick)})
	if w.silence.quiet > tick {
		t.Errorf("silence of %v, and it counts for %v", w.silence.quiet, tick)
	}
}

// Pings that were answered do not count towards the next silence.
func TestAnAnsweredPingIsNotCountedAgain(t *testing.T) {
	here, _ := net.Pipe()
	w := watch(here)
	s := &w.silence
	s.nextPing, s.lastPing = int64(time.Minute), int64(time.Minute) // so that it sends none
	s.asked, s.unanswered = 1, 5
	s.answeredPing.Store(true)
	w.pass(tick)
	if s.asked != 0 || s.unanswered != 0 {
		t.Errorf("%d pings count as unanswered, since %d", s.unanswered, s.asked)
	}
}

func TestALinkThatStaysSilentIsClosed(t *testing.T) {
	near, _ := net.Pipe()
	w := watch(near)
	if w.pass(closeAfter); w.Ended() {
		t.Error("closed too early")
	}
	if w.pass(tick); !w.Ended() {
		t.Error("not closed")
	}
	in := NewIncoming(thisNode(), &Claim{}, near, bufio.NewReader(near), &office{})
	in.Watch(Round{Now: int64(closeIncomingAfter)})
	if in.w.ended.Load() {
		t.Error("an incoming link was closed too early")
	}
	in.Watch(Round{Now: in.heard.Load() + int64(closeIncomingAfter) + 1})
	if !in.w.ended.Load() {
		t.Error("an incoming link was not closed")
	}
}

// hearing is a Peer that keeps what pongs say.
type hearing struct {
	friend
	said chan string
}

var errDeaf = errors.New("what it says is too much")

func (h *hearing) Pong(_ int64, says []byte) error {
	h.said <- string(says)
	if len(h.said) == cap(h.said) {
		return errDeaf
	}
	return nil
}

func TestPingsAreAnsweredByTheReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node, far := thatNode(), thisNode()
		near, there := shaken(t, memnet.New(), node, far)
		h := &hearing{said: make(chan string, 2)}
		l := NewOutgoing(node, near.claim, near.conn, near.r, h)
		in := NewIncoming(far, there.claim, there.conn, there.r, &office{})
		running := make(chan error, 2)
		go func() { running <- l.Run() }()
		go func() { running <- in.Run(t.Context()) }()
		if err := l.Begin(t.Context(), &letter{body: []byte{askNever}}); err != nil {
			t.Fatal(err)
		}
		<-time.After(tick)
		l.Ping()
		synctest.Wait()
		if said := <-h.said; said != "pong" || !l.silence.answeredPing.Load() || l.Heard() == 0 {
			t.Errorf("%q, answered %v, heard at %d", said, l.silence.answeredPing.Load(), l.Heard())
		}
		h.said <- "full"
		l.Ping()
		if ends := errors.Join(<-running, <-running); !errors.Is(ends, errDeaf) {
			t.Error(ends)
		}
	})
}
