package link

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
)

func frame(typ frameType, id uint64, body ...byte) []byte {
	b := appendHeader(nil, typ, id, 1, 7)
	return endFrame(append(b, body...), 0, 0)
}

func TestAHeaderIsCheckedBeforeRoomIsMade(t *testing.T) {
	change := func(b []byte, at int, to byte) []byte { b[at] = to; return b }
	for name, b := range map[string][]byte{
		"unknown type":       frame(99, 1),
		"type zero":          frame(0, 1),
		"reserved byte":      change(frame(frameCancel, 1), 6, 1),
		"huge length":        change(frame(frameCall, 1, 1), 0, 0xff),
		"length too small":   change(frame(frameCancel, 1), 3, 3),
		"cancel with a body": frame(frameCancel, 1, 1),
		"call without":       frame(frameCall, 1),
		"short ping":         frame(framePing, 0, 1, 2, 3),
		"chunk too long":     endFrame(appendHeader(nil, frameChunk, 1, 1, 7), 0, ChunkLen+1),
	} {
		if _, err := newFrameReader(bytes.NewReader(b)).header(); !errors.Is(err, ErrBadFrame) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnAnnouncedLengthMakesNoRoom(t *testing.T) {
	a := assembly{total: 1 << 30}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := a.read(bufio.NewReader(bytes.NewReader(make([]byte, ChunkLen))), ChunkLen); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
		t.Errorf("%d bytes for a chunk of %d", got, ChunkLen)
	}
	a = assembly{total: 10}
	if err := a.read(bufio.NewReader(strings.NewReader("more than it said")), 17); !errors.Is(err, ErrBadFrame) {
		t.Error(err)
	}
}

func TestBodiesAreReadWholeHoweverTheyArrive(t *testing.T) {
	for _, size := range []int{1, 1000, ChunkLen + 1, MaxMeta + ChunkLen} {
		body := bytes.Repeat([]byte("k"), size)
		stream := append(frame(frameAnswer, 3, body...), frame(frameLoading, 4)...)
		r := newFrameReader(iotest.HalfReader(bytes.NewReader(stream)))
		h, err := r.header()
		if err != nil || h.id != 3 || h.view != 1 || h.incarnation != 7 {
			t.Fatalf("%+v, %v", h, err)
		}
		err = r.body(h, func(b []byte) error {
			if !bytes.Equal(b, body) {
				t.Errorf("body of %d bytes arrived changed", size)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if h, err := r.header(); err != nil || h.typ != frameLoading {
			t.Errorf("after %d bytes: %+v, %v", size, h, err)
		}
	}
}

func TestAProofIsGoodForOneRoleAndOneLink(t *testing.T) {
	a, b, node := []byte("hello a"), []byte("hello b"), []byte("about")
	want := proof("s", roleDialler, a, b, node)
	for name, other := range map[string][]byte{
		"other role":   proof("s", roleListener, a, b, node),
		"other order":  proof("s", roleDialler, b, a, node),
		"other secret": proof("t", roleDialler, a, b, node),
		"other split":  proof("s", roleDialler, []byte("hello ah"), []byte("ello b"), node),
		"other hello":  proof("s", roleDialler, a, []byte("hello c"), node),
		"other node":   proof("s", roleDialler, a, b, []byte("abouu")),
	} {
		if bytes.Equal(want, other) {
			t.Errorf("%s, same proof", name)
		}
	}
}

func FuzzFrames(f *testing.F) {
	f.Add(frame(frameCall, 1, 1, 2, 3))
	f.Add(frame(framePong, 0, make([]byte, 20)...))
	f.Add(append(frame(frameChunk, 1, 1, 2, 3), frame(frameCancel, 1)...))
	f.Add(append(frame(frameLoading, 1), frame(frameAnswer, 1, make([]byte, 100)...)...))
	f.Fuzz(func(t *testing.T, stream []byte) {
		r := newFrameReader(bytes.NewReader(stream))
		for {
			h, err := r.header()
			if err != nil {
				return
			}
			if kind := kinds[h.typ]; h.body < kind.least || h.body > kind.most || kind.incoming == nil && kind.outgoing == nil {
				t.Fatalf("%+v", h)
			}
			if h.body > len(stream) {
				return // it would wait for more
			}
			if r.body(h, func(b []byte) error { return parseAny(t, h, b) }) != nil {
				return
			}
		}
	})
}

// parseAny reads a body as fields, and writes the frame again.
func parseAny(t *testing.T, h header, b []byte) error {
	again := endFrame(append(appendHeader(nil, h.typ, h.id, h.view, h.incarnation), b...), 0, 0)
	if h2, err := parseHeader(again); err != nil || h2 != h {
		t.Errorf("%+v became %+v, %v", h, h2, err)
	}
	d := Decoder{B: b}
	texts := d.Texts()
	if d.Err == nil {
		d := Decoder{B: AppendStrings(nil, texts)}
		if got := d.Texts(); d.End() != nil || len(got) != len(texts) {
			t.Errorf("%q became %q, %v", texts, got, d.Err)
		}
	}
	return d.Err
}

func FuzzHello(f *testing.F) {
	node := about{Cluster: "kring", Ring: "r", Incarnation: 1}
	f.Add((&hello{MinProtocol: 1, MaxProtocol: 1, ID: "n0", Target: "n1"}).appendTo(nil))
	f.Add(node.appendTo(AppendString(nil, "proof")))
	f.Add((&Refusal{CauseRing, "r"}).appendTo(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if mac, covered, a, err := parseProof(b); err == nil {
			m, c, again, err := parseProof(a.appendTo(AppendString(nil, string(mac))))
			if err != nil || again != a || !bytes.Equal(m, mac) || len(c) > len(covered) {
				t.Errorf("%+v became %+v, %v", a, again, err)
			}
		}
		if r := AsRefusal(parseRefusal(b)); r == nil || r.Cause >= CauseMalformed || len(r.Reason) > maxReason+len("…") {
			t.Errorf("%+v", r)
		}
		h, err := parseHello(b)
		if err != nil || h.MinProtocol > Protocol {
			return
		}
		if again, err := parseHello(h.appendTo(nil)); err != nil || again != h {
			t.Errorf("%+v became %+v, %v", h, again, err)
		}
		whole := binary.BigEndian.AppendUint32(nil, uint32(len(b)))
		if got, err := hear(bytes.NewReader(append(append(whole, sayHello), b...)), sayHello); len(b) <= maxHandshake && (err != nil || !bytes.Equal(got, b)) {
			t.Errorf("heard %q, %v", got, err)
		}
	})
}

func TestBodiesThatAreNot(t *testing.T) {
	for name, read := range map[string]func(d *Decoder){
		"bytes left over":     func(*Decoder) {},
		"too short a byte":    func(d *Decoder) { d.B = nil; d.Byte() },
		"too short a number":  func(d *Decoder) { d.Uint64() },
		"an endless number":   func(d *Decoder) { d.B = bytes.Repeat([]byte{0xff}, 20); d.Uvarint() },
		"a number too large":  func(d *Decoder) { d.Length(2) },
		"more than there is":  func(d *Decoder) { d.Bytes() },
		"texts that are few":  func(d *Decoder) { d.B = []byte{2, 1, 'x', 9}; d.Texts() },
		"a name that is long": func(d *Decoder) { d.B = AppendString(nil, strings.Repeat("x", MaxName+1)); d.name() },
	} {
		d := Decoder{B: []byte{3, 1}}
		if read(&d); !errors.Is(d.End(), ErrBadFrame) {
			t.Errorf("%s: %v", name, d.End())
		}
		if d.Byte() != 0 || d.Uint64() != 0 || d.Text() != "" || d.Texts() != nil {
			t.Errorf("%s: it yields more than zeros after its error", name)
		}
	}
}

// A frame that breaks off is an error, not a body.
func TestABodyThatBreaksOff(t *testing.T) {
	for _, size := range []int{10, MaxMeta + ChunkLen} {
		whole := frame(frameAnswer, 3, make([]byte, size)...)
		r := newFrameReader(bytes.NewReader(whole[:len(whole)-1]))
		h, err := r.header()
		if err != nil {
			t.Fatal(err)
		}
		if err := r.body(h, func([]byte) error { t.Error("it has a body"); return nil }); err == nil {
			t.Errorf("no error of %d bytes less one", size)
		}
	}
	if err := (&assembly{total: 1}).skip(bufio.NewReader(strings.NewReader("ab")), 2); !errors.Is(err, ErrBadFrame) {
		t.Errorf("more was skipped than there is: %v", err)
	}
}

// The bytes on a link are what older versions of this program sent and read.
func TestTheBytesOfALinkStayTheSame(t *testing.T) {
	n := &Node{Incarnation: 0x0102030405060708, View: func() (number, id uint64) { return 3, 0 }}
	frame := func(typ frameType, id uint64, body ...byte) []byte {
		return endFrame(append(n.stamp(nil, typ, id), body...), 0, 0)
	}
	var said bytes.Buffer
	if err := say(&said, sayProof, []byte("xy")); err != nil {
		t.Fatal(err)
	}
	h := hello{MinProtocol: 1, MaxProtocol: 2, secret: true, ID: "n0", Target: "n1"}
	a := about{Cluster: "kring", Ring: "r", Incarnation: 1, View: 2, ViewID: 3, MaxValue: 4, MaxCalls: 5}
	for name, test := range map[string]struct {
		got  []byte
		want string
	}{
		"ping":    {frame(framePing, 0, 0, 0, 0, 0, 0, 0, 1, 2), "00000024060000000000000000000000000000000000000301020304050607080000000000000102"},
		"pong":    {frame(framePong, 0, 0, 0, 0, 0, 0, 0, 1, 2), "00000024070000000000000000000000000000000000000301020304050607080000000000000102"},
		"cancel":  {frame(frameCancel, 9), "0000001c05000000000000000000000900000000000000030102030405060708"},
		"loading": {frame(frameLoading, 9, 7), "0000001d0400000000000000000000090000000000000003010203040506070807"},
		"call":    {frame(frameCall, 9, 7), "0000001d0100000000000000000000090000000000000003010203040506070807"},
		"answer":  {frame(frameAnswer, 9, 7), "0000001d0300000000000000000000090000000000000003010203040506070807"},
		"chunk":   {frame(frameChunk, 9, 7), "0000001d0200000000000000000000090000000000000003010203040506070807"},
		"hello":   {h.appendTo(nil), "010201026e30026e31" + strings.Repeat("00", nonceLen)},
		"about":   {a.appendTo(nil), "056b72696e67017200000000000000010000000000000002000000000000000300000000000000040000000000000005"},
		"proof":   {proof("secret", roleDialler, []byte("a"), []byte("b"), []byte("c")), "fbe2c5c3139936d626e0941bc6c1e7b8845523d1975fb1331d031dd42bcd0a08"},
		"refusal": {(&Refusal{CauseRing, "r"}).appendTo(nil), "0472"},
		"message": {said.Bytes(), "00000002027879"},
	} {
		if got := hex.EncodeToString(test.got); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}
