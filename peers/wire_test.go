package peers

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"kring/cache"
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
		"chunk too long":     endFrame(appendHeader(nil, frameChunk, 1, 1, 7), 0, chunkLen+1),
	} {
		if _, err := newFrameReader(bytes.NewReader(b)).header(); !errors.Is(err, errBadFrame) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnAnnouncedLengthMakesNoRoom(t *testing.T) {
	a := assembly{total: 1 << 30}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := a.read(bufio.NewReader(bytes.NewReader(make([]byte, chunkLen))), chunkLen); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
		t.Errorf("%d bytes for a chunk of %d", got, chunkLen)
	}
	a = assembly{total: 10}
	if err := a.read(bufio.NewReader(strings.NewReader("more than it said")), 17); !errors.Is(err, errBadFrame) {
		t.Error(err)
	}
}

func TestBodiesAreReadWholeHoweverTheyArrive(t *testing.T) {
	for _, size := range []int{1, 1000, chunkLen + 1, maxMeta + chunkLen} {
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

func TestRequestsCrossUnchanged(t *testing.T) {
	key := cache.Key{Group: "g", Key: "a\x00b/%2F\xff✓"}
	for _, want := range []Request{
		{Request: cache.Request{Op: cache.OpGet, Key: key, OnlyIfCached: true}, Hop: 1, remaining: time.Second},
		{Request: cache.Request{Op: cache.OpGet, Key: key}, Hop: 2, requestID: strings.Repeat("x", maxRequestID)},
		{Request: cache.Request{Op: cache.OpDelete, Key: key, ID: 1 << 63}, Hop: 2},
		{Request: cache.Request{Op: cache.OpDelete, Key: key, ID: 5, IfMatch: []string{`"a"`, "*"}, IfNoneMatch: []string{`"b"`}}, Hop: 1},
		{Request: cache.Request{
			Op: cache.OpPut, Key: key, Value: []byte("v"), ContentType: "t", ContentEncoding: "e",
			TTL: time.Hour, IfMatch: []string{`"a"`, `"b"`}, IfNoneMatch: []string{"*"}, ID: 5,
		}, Hop: 1},
		{Request: cache.Request{Op: cache.OpPut, Key: key, Value: []byte{}}, Hop: 1},
		{Request: cache.Request{Op: OpPurge, Key: cache.Key{Group: "g"}}, Hop: 1},
		{Request: cache.Request{Op: OpPurgeTags, Key: cache.Key{Group: "g"}}, Hop: 1, Tags: []string{"a", "b c"}},
		{Request: cache.Request{Op: OpCopy, Key: key}, Hop: 1},
		{Request: cache.Request{Op: OpGetMany, Key: cache.Key{Group: "g"}}, Hop: 1, Keys: []string{key.Key, "", "b"}},
	} {
		got, total, err := parseRequest(appendRequest(nil, &want), 100)
		if err != nil || total != len(want.Value) || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %d, %v; want %+v", got, total, err, want)
		}
	}
	long := Request{Request: cache.Request{Op: cache.OpGet, Key: key}, Hop: 1, requestID: strings.Repeat("x", maxRequestID+1)}
	if got, _, err := parseRequest(appendRequest(nil, &long), 100); err != nil || got.requestID != "" {
		t.Errorf("a request id that is too long: %q, %v; want none", got.requestID, err)
	}
	untagged := Request{Request: cache.Request{Op: OpPurgeTags, Key: cache.Key{Group: "g"}}, Hop: 1}
	if _, _, err := parseRequest(appendRequest(nil, &untagged), 100); !errors.Is(err, errBadFrame) {
		t.Errorf("a purge by no tag: %v", err)
	}
	put := Request{Request: cache.Request{Op: cache.OpPut, Key: key, Value: make([]byte, 101)}, Hop: 1}
	if _, _, err := parseRequest(appendRequest(nil, &put), 100); !errors.Is(err, errBadFrame) {
		t.Errorf("a value above the limit: %v", err)
	}
}

func TestRepliesCrossUnchanged(t *testing.T) {
	now := time.Now()
	entry := &cache.Entry{
		Value: []byte("value"), ContentType: "text/plain", ContentEncoding: "gzip", ETag: `"x"`,
		LastModified: "Mon", OriginETag: `W/"y"`,
		Version: cache.Version{View: 1, ViewID: 2, Counter: 3}, Born: now.Add(-3 * time.Second),
		Expires: now.Add(57 * time.Second), StaleWhileRevalidate: time.Second, StaleIfError: time.Hour, NoStore: true,
	}
	forever := &cache.Entry{Value: []byte{}, Born: now}
	negative := &cache.Entry{Value: []byte{}, Negative: true, Expires: now.Add(time.Second), Born: now}
	load := &cache.LastLoad{Endpoint: "a", At: now.Add(-time.Minute), Millis: 1.5, Status: 304, Code: "x", Waited: 7}
	for _, want := range []Reply{
		{Answer: cache.Answer{Entry: entry, Kind: cache.KindLoad, OwnerKind: cache.KindLoad, Node: "n", Status: 200, Stored: true, StaleError: true, StandIn: true}, Counted: true},
		{Answer: cache.Answer{Entry: forever, Kind: cache.KindHit}},
		{Answer: cache.Answer{Entry: negative, Kind: cache.KindHit}, Counted: true},
		{Answer: cache.Answer{Created: true, Node: "n"}},
		{NotOwner: true},
		{cancelled: true, Err: cache.ErrInternal},
		{Err: cache.ErrOriginFailed.With("endpoint a answered 429").Saying(cache.OriginDown, 30*time.Second), Answer: cache.Answer{Status: 429}},
		{Err: cache.ErrOverloaded.With("too many loads"), Answer: cache.Answer{Kind: cache.KindRefused}, Counted: true},
		{Copy: &cache.Copy{Node: "n", Role: "primary", State: "stale", Age: 1.5, TTL: -2, Forever: true, Version: "1.2.3"}},
		{Copy: &cache.Copy{Role: "negative", LastLoad: load}},
		{Answer: cache.Answer{Node: "n"}, Many: []cache.Answer{{}, {Kind: cache.KindHit, Entry: entry}, {Kind: cache.KindStale, Entry: negative}, {}}},
	} {
		got, total, err := parseReply(appendReply(nil, &want, now), 100, now)
		if err != nil || total != len(want.value()) || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %d, %v; want %+v", got, total, err, want)
		}
	}
}

func TestOnlySafeErrorsLeaveANode(t *testing.T) {
	for _, test := range []struct {
		err    error
		code   cache.Code
		detail string
		later  time.Duration
	}{
		{cache.ErrOverloaded.With("d").Because(errors.New("secret")), "overloaded", "d", 0},
		{cache.ErrOriginFailed.With("a\nb"), "origin-failed", "", 0},
		{cache.ErrOriginFailed.With("d").Saying(cache.OriginRefuses, time.Second), "origin-failed", "d", time.Second},
		{errors.New("secret"), "internal", "", 0},
		{&cache.Error{Code: "made-up"}, "internal", "", 0},
	} {
		if code, detail, later := errorCode(test.err); code != test.code || detail != test.detail || later != test.later {
			t.Errorf("%v: %q, %q, %v", test.err, code, detail, later)
		}
	}
	if err := errorOf("made-up", "x", time.Second); !errors.Is(err, cache.ErrInternal) {
		t.Error(err)
	}
	if err := errorOf("overloaded", "a\nb", 0); err != error(cache.ErrOverloaded) {
		t.Error(err)
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
	put := Request{Request: cache.Request{Op: cache.OpPut, Key: cache.Key{Group: "g", Key: "k"}, Value: []byte("v")}, Hop: 1}
	f.Add(frame(frameCall, 1, appendRequest(nil, &put)...))
	f.Add(frame(frameAnswer, 1, appendReply(nil, &Reply{Answer: cache.Answer{Entry: &cache.Entry{}}}, time.Now())...))
	f.Add(frame(framePong, 0, appendPong(nil, 1, 2, []string{"n0", "n1"})...))
	f.Add(append(frame(frameChunk, 1, 1, 2, 3), frame(frameCancel, 1)...))
	gets := Request{Request: cache.Request{Op: OpGetMany, Key: cache.Key{Group: "g"}}, Hop: 1, Keys: []string{"a", "b"}}
	f.Add(frame(frameCall, 1, appendRequest(nil, &gets)...))
	gotten := Reply{Many: []cache.Answer{{Kind: cache.KindHit, Entry: &cache.Entry{Value: []byte("v"), ContentType: "t"}}, {}}}
	f.Add(frame(frameAnswer, 1, appendReply(nil, &gotten, time.Now())...))
	f.Fuzz(func(t *testing.T, stream []byte) {
		r := newFrameReader(bytes.NewReader(stream))
		for {
			h, err := r.header()
			if err != nil {
				return
			}
			if h.body > len(stream) {
				return // it would wait for more
			}
			if r.body(h, func(b []byte) error { return parseAny(t, h.typ, b) }) != nil {
				return
			}
		}
	})
}

func parseAny(t *testing.T, typ frameType, b []byte) error {
	switch typ {
	case frameCall:
		q, total, err := parseRequest(b, 1<<20)
		if err == nil {
			again, _, err := parseRequest(appendRequest(nil, &q), 1<<20)
			if total <= chunkLen && (err != nil || !reflect.DeepEqual(again, q)) {
				t.Errorf("%+v became %+v, %v", q, again, err)
			}
		}
		return err
	case frameAnswer:
		now := time.Now()
		r, _, err := parseReply(b, 1<<20, now)
		if err == nil && r.Many != nil {
			again, _, err := parseReply(appendReply(nil, &r, now), 1<<20, now)
			if err != nil || !reflect.DeepEqual(again.Many, r.Many) {
				t.Errorf("%+v became %+v, %v", r, again, err)
			}
		}
		return err
	case framePong:
		_, err := parsePong(b, "n1")
		return err
	}
	return nil
}

func FuzzEntry(f *testing.F) {
	now := time.Now()
	f.Add(appendEntry(nil, &cache.Entry{Value: []byte("v"), Born: now, Expires: now.Add(time.Second)}, now))
	f.Fuzz(func(t *testing.T, b []byte) {
		d := decoder{b: b}
		e, total := d.entry(1<<20, now)
		if d.end() != nil || total > chunkLen {
			return
		}
		again := decoder{b: appendEntry(nil, e, now)}
		if got, _ := again.entry(1<<20, now); again.end() != nil || !reflect.DeepEqual(got, e) {
			t.Errorf("%+v became %+v, %v", e, got, again.err)
		}
	})
}

func FuzzHello(f *testing.F) {
	node := about{cluster: "kring", ring: "r", incarnation: 1}
	f.Add((&hello{minProtocol: 1, maxProtocol: 1, id: "n0", target: "n1"}).appendTo(nil))
	f.Add(node.appendTo(appendString(nil, "proof")))
	f.Add((&refusal{causeRing, "r"}).appendTo(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if mac, covered, a, err := parseProof(b); err == nil {
			m, c, again, err := parseProof(a.appendTo(appendString(nil, string(mac))))
			if err != nil || again != a || !bytes.Equal(m, mac) || len(c) > len(covered) {
				t.Errorf("%+v became %+v, %v", a, again, err)
			}
		}
		if r := asRefusal(parseRefusal(b)); r == nil || r.cause >= causeRefusals || len(r.reason) > maxReason+len("…") {
			t.Errorf("%+v", r)
		}
		h, err := parseHello(b)
		if err != nil || h.minProtocol > protocol {
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
