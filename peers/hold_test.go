package peers

import (
	"bufio"
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"kring/cache"
	"kring/peers/memnet"
)

// noting is a Handler that notes what was to be changed.
type noting struct {
	idle
	mu      sync.Mutex
	changes []string
	changed chan struct{}
}

func (n *noting) note(what string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.changes = append(n.changes, what)
	if n.changed != nil {
		close(n.changed)
		n.changed = nil
	}
}

func (n *noting) Serve(ctx context.Context, req *cache.Request) (cache.Answer, error) {
	if req.Op == cache.OpGet {
		return n.idle.Serve(ctx, req)
	}
	n.note(req.Key.Key)
	return cache.Answer{}, nil
}

func (n *noting) DropGroup(group string)               { n.note(group) }
func (n *noting) DropTags(group string, tags []string) { n.note(group + tags[0]) }

// owned is a key of a member.
func owned(p *Peers, id string) string {
	key := "k"
	for p.View().Ring.Get(key) != id {
		key += "k"
	}
	return key
}

// callFrame is a call as it lies in a socket.
func callFrame(id uint64, op cache.Op, key, value string) []byte {
	req := Request{Request: cache.Request{Op: op, Key: cache.Key{Group: "g", Key: key}, Value: []byte(value), ID: id}, Hop: 1}
	if op == OpPurgeTags {
		req.Tags = []string{"t"}
	}
	return frameOf(frameCall, id, appendRequest(nil, &req))
}

// After a pause calls, what gives them up and the link's end are all in the
// socket: whatever lies behind a write is seen before it begins.
func TestAWriteBeginsWhenAllThatCameWithItWasRead(t *testing.T) {
	far := callFrame(9, cache.OpGet, "x", "")
	for len(far) < 3*chunkLen { // more than a reader's buffer
		far = append(far, frameOf(framePing, 0, make([]byte, 8))...)
	}
	cancel := frameOf(frameCancel, 1, nil)
	for name, test := range map[string]struct {
		after []byte // a write or a purge
		ends  bool
		want  int
	}{
		"nothing":                {nil, false, 1},
		"other calls":            {far, false, 1},
		"half a header":          {cancel[:7], false, 1},
		"its cancel":             {cancel, false, 0},
		"its cancel, far behind": {append(far, cancel...), false, 0},
		"the link's end":         {nil, true, 0},
		"the end, far behind":    {far, true, 0},
	} {
		for op, of := range map[cache.Op]string{cache.OpPut: "put", cache.OpDelete: "delete", OpPurge: "purge", OpPurgeTags: "purge by tag"} {
			t.Run(of+" and "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := memnet.New()
					good, bad := pair(t, n)
					notes := &noting{}
					good.Start(notes)
					defer good.Close()
					serve(t, n, "n0:1", good)
					conn, _ := dialled(t, n, bad)
					defer conn.Close()
					synctest.Wait()
					n.Hold("n1:1", "n0:1")
					value := ""
					if op == cache.OpPut {
						value = "v"
					}
					for _, frame := range stamped(append(callFrame(1, op, owned(good, "n0"), value), test.after...), bad.incarnation) {
						if _, err := conn.Write(frame); err != nil {
							t.Fatal(err)
						}
					}
					if strings.HasPrefix(name, "half") {
						if _, err := conn.Write(test.after); err != nil {
							t.Fatal(err)
						}
					}
					if test.ends {
						conn.Close()
					}
					synctest.Wait()
					n.Release("n1:1", "n0:1")
					synctest.Wait()
					notes.mu.Lock()
					defer notes.mu.Unlock()
					if len(notes.changes) != test.want {
						t.Errorf("carried out: %q", notes.changes)
					}
				})
			})
		}
	}
}

func TestAWriteOnALinkThatNeverRestsBeginsAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		good, bad := pair(t, n)
		changed := make(chan struct{})
		good.Start(&noting{changed: changed})
		defer good.Close()
		serve(t, n, "n0:1", good)
		conn, r := dialled(t, n, bad)
		var reading sync.WaitGroup
		reading.Go(func() {
			if _, err := io.Copy(io.Discard, r); err != nil && !strings.Contains(err.Error(), "closed") {
				t.Error(err)
			}
		})
		defer reading.Wait()
		defer conn.Close()
		rest := frameOf(frameCancel, 77, nil)
		for len(rest) < 100<<10 {
			rest = append(rest, frameOf(frameCancel, 77, nil)...)
		}
		for _, frame := range stamped(append(callFrame(1, cache.OpPut, owned(good, "n0"), "v"), rest...), bad.incarnation) {
			if _, err := conn.Write(frame); err != nil {
				t.Fatal(err)
			}
		}
		for done := false; !done; {
			select {
			case <-changed:
				done = true
			default:
				if _, err := conn.Write(stamped(rest[:headerLen], bad.incarnation)[0]); err != nil {
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
