package link

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// parcel is a frame with a value.
type parcel struct {
	w     *writer
	id    uint64
	value []byte // in chunks, if it is long
	told  chan bool
}

func (p *parcel) requestID() uint64 { return p.id }
func (p *parcel) written(ok bool)   { p.told <- ok }

func (p *parcel) appendTo(b []byte) []byte {
	start := len(b)
	b = p.w.stamp(b, frameCall, p.id)
	if p.bulk() == nil {
		b = append(b, p.value...)
	}
	return endFrame(append(b, 0), start, 0)
}

func (p *parcel) bulk() []byte {
	if len(p.value) > ChunkLen {
		return p.value
	}
	return nil
}

func stampTest(b []byte, typ frameType, id uint64) []byte { return appendHeader(b, typ, id, 1, 7) }

// sending starts a writer on one end of a connection that nobody reads yet.
func sending(t *testing.T) (w *writer, far net.Conn, post func(id uint64, size int) *parcel) {
	near, far := net.Pipe()
	w = newWriter(near, stampTest)
	var running sync.WaitGroup
	running.Go(w.run)
	t.Cleanup(func() { w.close(ErrClosed); far.Close(); running.Wait() })
	return w, far, func(id uint64, size int) *parcel {
		return &parcel{w: w, id: id, value: make([]byte, size), told: make(chan bool, 2)}
	}
}

func TestASmallFrameOvertakesABigValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, far, post := sending(t)
		big, small := post(1, 1<<20), post(2, 10)
		for _, p := range []*parcel{big, small} {
			if err := w.send(t.Context(), p, nil); err != nil {
				t.Fatal(err)
			}
		}
		w.urgent(framePing, func(b []byte) []byte { return append(b, make([]byte, 8)...) })
		synctest.Wait()
		r := newFrameReader(far)
		chunks, bytes := 0, 0
		for bytes < 1<<20 {
			h, err := r.header()
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case h.typ == frameChunk:
				chunks, bytes = chunks+1, bytes+h.body
			case h.id == 2 && chunks > 2, h.typ == framePing && chunks > 2:
				t.Errorf("type %d came after %d chunks", h.typ, chunks)
			}
			if _, err := r.r.Discard(h.body); err != nil {
				t.Fatal(err)
			}
		}
		if ok := <-big.told; !ok || !<-small.told {
			t.Error("not told that it is out")
		}
	})
}

// However many senders of big values wait for room, a small frame does not.
func TestASmallFrameNeedsNoRoomOfBigValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, post := sending(t)
		ctx, cancel := context.WithCancel(t.Context())
		var senders sync.WaitGroup
		for id := range uint64(100) {
			senders.Go(func() { _ = w.send(ctx, post(id, maxUnsent/2), nil) })
		}
		synctest.Wait()
		if w.trySend(post(100, maxUnsent/2)) {
			t.Error("there was room for one more big value")
		}
		began := time.Now()
		if err := w.send(t.Context(), post(101, 10), nil); err != nil || time.Since(began) != 0 {
			t.Errorf("a small frame: %v, after %v", err, time.Since(began))
		}
		if !w.trySend(post(102, 10)) {
			t.Error("a small frame that cannot wait was not queued")
		}
		small := 0
		for ; small < 1000 && w.trySend(post(103, ChunkLen)); small++ {
		}
		if small*ChunkLen > maxSmall+ChunkLen {
			t.Errorf("%d bytes of small frames were queued", small*ChunkLen)
		}
		cancel()
		senders.Wait()
	})
}

func TestWhatIsUnsentIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, far, post := sending(t)
		queued := 0
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var err error
		for ; err == nil && queued < 1000; queued++ {
			err = w.send(ctx, post(uint64(queued), ChunkLen), nil)
		}
		if !errors.Is(err, context.DeadlineExceeded) || queued*ChunkLen > maxUnsent+2*ChunkLen {
			t.Errorf("%d frames, then %v", queued, err)
		}
		stop := make(chan struct{})
		time.AfterFunc(time.Second, func() { close(stop) })
		if err := w.send(t.Context(), post(1, 1), stop); !errors.Is(err, errStopped) {
			t.Error(err)
		}
		sent := make(chan error)
		go func() { sent <- w.send(t.Context(), post(2, 1), nil) }()
		synctest.Wait()
		go func() { // somebody reads, and there is room again
			b := make([]byte, ChunkLen)
			for {
				if _, err := far.Read(b); err != nil {
					return
				}
			}
		}()
		if err := <-sent; err != nil {
			t.Error(err)
		}
	})
}

func TestWhoNeverReadsIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, flood := range map[string]func(w *writer){
			"pings": func(w *writer) {
				w.urgent(framePong, func(b []byte) []byte { return append(b, make([]byte, 1000)...) })
			},
			"orders": func(w *writer) { w.order(frameLoading, 1) },
		} {
			w, _, post := sending(t)
			n := 0
			for ; !w.ended.Load() && n < 1<<20; n++ {
				flood(w)
			}
			if err := w.send(t.Context(), post(1, 1), nil); !errors.Is(err, errTooMuch) {
				t.Errorf("%s: %v after %d", name, err, n)
			}
		}
	})
}

func TestAnEndedLinkTellsEveryFrameOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, post := sending(t)
		parcels := []*parcel{post(1, 10), post(2, 1<<20), post(3, 10), post(4, 1<<20)}
		for _, p := range parcels {
			if err := w.send(t.Context(), p, nil); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait() // the writer is in a write, and takes nothing more
		waits := post(5, 1)
		failed := make(chan error)
		for range maxUnsent / ChunkLen {
			p := post(9, ChunkLen)
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			if w.send(ctx, p, nil) != nil {
				break
			}
		}
		go func() { failed <- w.send(t.Context(), waits, nil) }()
		synctest.Wait()
		w.close(ErrClosed)
		if err := <-failed; !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		synctest.Wait()
		for _, p := range parcels {
			if len(p.told) != 1 || <-p.told {
				t.Errorf("frame %d was not told once that it is lost", p.id)
			}
		}
		if len(waits.told) != 0 {
			t.Error("a frame that was not taken was told")
		}
	})
}

func TestAFrameThatIsTooBigIsRefusedAloneAndLeavesNoTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, far, post := sending(t)
		near := &oversized{parcel: post(1, 1)}
		if err := w.send(t.Context(), near, nil); !errors.Is(err, ErrFrameSize) {
			t.Error(err)
		}
		if err := w.send(t.Context(), post(2, 1), nil); err != nil {
			t.Error(err)
		}
		if h, err := newFrameReader(far).header(); err != nil || h.id != 2 {
			t.Errorf("%+v, %v", h, err)
		}
	})
}

type oversized struct{ *parcel }

func (o *oversized) appendTo(b []byte) []byte {
	return append(b, make([]byte, headerLen+MaxMeta+ChunkLen+1)...)
}
