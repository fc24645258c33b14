package link

import (
	"bufio"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"kring/peers/memnet"
)

// After a pause calls, what gives them up and the link's end are all in the
// socket: what lies behind a write is seen before the write begins.
func TestAWriteBeginsWhenAllThatCameWithItWasRead(t *testing.T) {
	far := theirs(frameCall, 9, askNever)
	for len(far) < 3*ChunkLen { // more than a reader's buffer
		far = append(far, theirs(framePing, 0, make([]byte, 8)...)...)
	}
	cancel := theirs(frameCancel, 1)
	for name, test := range map[string]struct {
		after []byte // a write
		ends  bool
		want  int
	}{
		"nothing":                {nil, false, 1},
		"other calls":            {far, false, 1},
		"half a header":          {cancel[:7], false, 1},
		"its cancel":             {cancel, false, 0},
		"its cancel, far behind": {slices.Concat(far, cancel), false, 0},
		"the link's end":         {nil, true, 0},
		"the end, far behind":    {far, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := memnet.New()
				var o office
				_, conn, _, _ := answering(t, n, &o)
				synctest.Wait()
				n.Hold("n1:1", "n0:1")
				if _, err := conn.Write(append(theirs(frameCall, 1, askChange), test.after...)); err != nil {
					t.Fatal(err)
				}
				if test.ends {
					conn.Close()
				}
				synctest.Wait()
				n.Release("n1:1", "n0:1")
				synctest.Wait()
				o.mu.Lock()
				defer o.mu.Unlock()
				if len(o.changes) != test.want {
					t.Errorf("carried out: %q", o.changes)
				}
			})
		})
	}
}

func TestAWriteOnALinkThatNeverRestsBeginsAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		changed := make(chan struct{})
		_, conn, r, _ := answering(t, memnet.New(), &office{changed: changed})
		var reading sync.WaitGroup
		reading.Go(func() {
			if _, err := io.Copy(io.Discard, r); err != nil && !strings.Contains(err.Error(), "closed") {
				t.Error(err)
			}
		})
		defer reading.Wait()
		defer conn.Close()
		frames, rest := theirs(frameCall, 1, askChange), theirs(frameCancel, 77)
		for len(frames) < 100<<10 {
			frames = append(frames, rest...)
		}
		if _, err := conn.Write(frames); err != nil {
			t.Fatal(err)
		}
		for done := false; !done; {
			select {
			case <-changed:
				done = true
			default:
				if _, err := conn.Write(rest); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

func TestBytesInAReaderUnderneathAreNotOverlooked(t *testing.T) {
	under := bufio.NewReaderSize(strings.NewReader(strings.Repeat("x", 100)), 64)
	f := newFrameReader(under)
	if _, err := under.Peek(1); err != nil {
		t.Fatal(err)
	}
	if n := f.buffered(); n != 64 {
		t.Errorf("%d", n)
	}
	if _, err := f.r.Peek(70); err != nil {
		t.Fatal(err)
	}
	if n := f.buffered(); n != 100 {
		t.Errorf("%d", n)
	}
}
