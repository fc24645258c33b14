package peers

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"kring/cache"
	"kring/link"
)

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
	if _, _, err := parseRequest(appendRequest(nil, &untagged), 100); !errors.Is(err, link.ErrBadFrame) {
		t.Errorf("a purge by no tag: %v", err)
	}
	put := Request{Request: cache.Request{Op: cache.OpPut, Key: key, Value: make([]byte, 101)}, Hop: 1}
	if _, _, err := parseRequest(appendRequest(nil, &put), 100); !errors.Is(err, link.ErrBadFrame) {
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

func FuzzRequest(f *testing.F) {
	put := Request{Request: cache.Request{Op: cache.OpPut, Key: cache.Key{Group: "g", Key: "k"}, Value: []byte("v")}, Hop: 1}
	f.Add(appendRequest(nil, &put))
	gets := Request{Request: cache.Request{Op: OpGetMany, Key: cache.Key{Group: "g"}}, Hop: 1, Keys: []string{"a", "b"}}
	f.Add(appendRequest(nil, &gets))
	f.Fuzz(func(t *testing.T, b []byte) {
		q, total, err := parseRequest(b, 1<<20)
		if err == nil {
			again, _, err := parseRequest(appendRequest(nil, &q), 1<<20)
			if total <= link.ChunkLen && (err != nil || !reflect.DeepEqual(again, q)) {
				t.Errorf("%+v became %+v, %v", q, again, err)
			}
		}
	})
}

func FuzzReply(f *testing.F) {
	f.Add(appendReply(nil, &Reply{Answer: cache.Answer{Entry: &cache.Entry{}}}, time.Now()))
	gotten := Reply{Many: []cache.Answer{{Kind: cache.KindHit, Entry: &cache.Entry{Value: []byte("v"), ContentType: "t"}}, {}}}
	f.Add(appendReply(nil, &gotten, time.Now()))
	f.Fuzz(func(t *testing.T, b []byte) {
		now := time.Now()
		r, _, err := parseReply(b, 1<<20, now)
		if err == nil && r.Many != nil {
			again, _, err := parseReply(appendReply(nil, &r, now), 1<<20, now)
			if err != nil || !reflect.DeepEqual(again.Many, r.Many) {
				t.Errorf("%+v became %+v, %v", r, again, err)
			}
		}
	})
}

func FuzzPong(f *testing.F) {
	f.Add(appendPong(nil, 2, []string{"n0", "n1"}))
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := parsePong(b, "n1")
		if err == nil && g.hearsUs && !bytes.Contains(b, []byte("n1")) {
			t.Errorf("%q says that it hears n1", b)
		}
	})
}

func FuzzEntry(f *testing.F) {
	now := time.Now()
	f.Add(appendEntry(nil, &cache.Entry{Value: []byte("v"), Born: now, Expires: now.Add(time.Second)}, now))
	f.Fuzz(func(t *testing.T, b []byte) {
		d := decoder{Decoder: link.Decoder{B: b}}
		e, total := d.entry(1<<20, now)
		if d.End() != nil || total > link.ChunkLen {
			return
		}
		again := decoder{Decoder: link.Decoder{B: appendEntry(nil, e, now)}}
		if got, _ := again.entry(1<<20, now); again.End() != nil || !reflect.DeepEqual(got, e) {
			t.Errorf("%+v became %+v, %v", e, got, again.Err)
		}
	})
}

func TestRepliesThatMakeNoSense(t *testing.T) {
	reply := func(r Reply) []byte { return appendReply(nil, &r, time.Now()) }
	entry := &cache.Entry{Value: []byte("value")}
	copied := reply(Reply{Copy: &cache.Copy{Node: "n", Age: math.NaN()}})
	for name, b := range map[string][]byte{
		"unknown flags":       {0xff, 0xff, 0x03},
		"an unknown kind":     {0, 99, 0, 0, 0},
		"flags of an entry":   {flagEntry, 0, 0, 0, 0, 99},
		"a value cut short":   func() []byte { b := reply(Reply{Answer: cache.Answer{Entry: entry}}); return b[:len(b)-1] }(),
		"a value too large":   reply(Reply{Answer: cache.Answer{Entry: &cache.Entry{Value: make([]byte, 101)}}}),
		"no number":           copied,
		"many of nothing":     reply(Reply{Many: []cache.Answer{}}),
		"many, one too large": reply(Reply{Many: []cache.Answer{{Kind: cache.KindHit, Entry: &cache.Entry{Value: make([]byte, 101)}}}}),
	} {
		if r, _, err := parseReply(b, 100, time.Now()); !errors.Is(err, link.ErrBadFrame) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// The bytes of requests and replies are what older versions of this program sent and
// read.
func TestTheBytesOfRequestsAndRepliesStayTheSame(t *testing.T) {
	now := time.Now()
	put := Request{Request: cache.Request{
		Op: cache.OpPut, Key: cache.Key{Group: "g", Key: "k"}, Value: []byte("v"), ContentType: "t", ID: 5,
		TTL: time.Second, IfMatch: []string{"a"},
	}, Hop: 1, remaining: time.Minute}
	many := Request{Request: cache.Request{Op: OpGetMany, Key: cache.Key{Group: "g"}}, Hop: 1, Keys: []string{"a", "b"}}
	e := &cache.Entry{Value: []byte("v"), ContentType: "t", ETag: "e", Born: now, Expires: now.Add(time.Hour)}
	reply := func(r Reply) []byte { return appendReply(nil, &r, now) }
	for name, test := range map[string]struct {
		got  []byte
		want string
	}{
		"put":      {appendRequest(nil, &put), "02010080b09dc2df010167016b00000000000000050174008094ebdc03010161000176"},
		"many":     {appendRequest(nil, &many), "130100000167000201610162"},
		"answer":   {reply(Reply{Answer: cache.Answer{Entry: e, Kind: cache.KindHit, Node: "n1", Status: 200, Stored: true}, Counted: true}), "310100026e31c80100017400016500000000000000000000000000000000000000000000000000000080c0e285e36800000176"},
		"error":    {reply(Reply{Err: cache.ErrOverloaded.With("d")}), "08000000000a6f7665726c6f61646564016400"},
		"many got": {reply(Reply{Many: []cache.Answer{{}, {Kind: cache.KindHit, Entry: e}}}), "80080000000002000100017400016500000000000000000000000000000000000000000000000000000080c0e285e36800000176"},
		"loading":  {appendLoading(nil, 77, true), "000000000000004d01"},
		"pong":     {appendPong(nil, 7, []string{"n0", "n1"}), "000000000000000702026e30026e31"},
	} {
		if got := hex.EncodeToString(test.got); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}
