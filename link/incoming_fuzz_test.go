package link

import (
	"io"
	"testing"
	"testing/synctest"

	"kring/peers/memnet"
)

// FuzzIncoming has a node that is past the handshake send frames that are well formed
// and in any order: calls, parts of values, cancels and pings, of few ids. The link
// ends when that node hangs up, nothing is left running, and each answer that was made
// is counted once as written or lost.
func FuzzIncoming(f *testing.F) {
	// Each step is a type, an id, a length, and as many bytes of a body.
	step := func(typ frameType, id byte, body ...byte) []byte {
		return append([]byte{byte(typ), id, byte(len(body))}, body...)
	}
	f.Add(step(frameCall, 1, askSoon))
	f.Add(step(frameCall, 1, askAtOnce))
	f.Add(append(step(frameCall, 1, askNever), step(frameCancel, 1)...))
	f.Add(append(append(step(frameCall, 1, bring(ChunkLen+100)...), step(frameCall, 2, askChange)...), step(frameChunk, 1, make([]byte, 100)...)...))
	f.Add(append(step(frameCall, 1, askNever), step(frameCall, 1, askNever)...))
	f.Add(step(frameCall, 1, askValue, 0xff, 0xff, 0x0f))
	f.Add(step(frameCall, 1, askHuge))
	f.Add(step(framePing, 0, make([]byte, 8)...))
	f.Add(step(frameAnswer, 1, make([]byte, 5)...))
	f.Fuzz(func(t *testing.T, script []byte) {
		synctest.Test(t, func(t *testing.T) {
			var o office
			in, conn, r, ended := answering(t, memnet.New(), &o)
			heard := make(chan struct{})
			go func() {
				defer close(heard)
				_, _ = io.Copy(io.Discard, r) // until the link ends, however it does
			}()
			for steps := 0; len(script) >= 3 && steps < 64; steps++ {
				length := min(int(script[2]), len(script)-3)
				if _, err := conn.Write(theirs(frameType(script[0]), uint64(script[1]), script[3:3+length]...)); err != nil {
					break // it has had enough
				}
				script = script[3+length:]
			}
			synctest.Wait()
			conn.Close()
			<-heard
			<-ended
			if o.running != 0 || len(in.waits) != 0 {
				t.Errorf("%d calls are at work, %d wait", o.running, len(in.waits))
			}
			if o.made != o.written {
				t.Errorf("%d answers were made, the fate of %d is known", o.made, o.written)
			}
			if o.longest > 1<<20 {
				t.Errorf("a value of %d bytes", o.longest)
			}
		})
	})
}
