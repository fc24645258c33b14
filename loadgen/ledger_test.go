package loadgen

import (
	"errors"
	"fmt"
	"testing"
)

// Two puts and a read of one key in all orders: the values that the read may
// see.
func TestLedger(t *testing.T) {
	type moment struct {
		l     *ledger
		floor int64 // at the read's begin
		a, b  string
	}
	const k = "key"
	begin := func(m *moment) func(v *string) (end func()) {
		return func(v *string) func() {
			version, begun := m.l.put(k)
			*v = version
			return func() { m.l.acknowledged(k, begun) }
		}
	}
	for _, tt := range []struct {
		name       string
		story      func(m *moment)
		badA, badB error
	}{
		{name: "one after the other, then the read", badA: errOld, story: func(m *moment) {
			put := begin(m)
			put(&m.a)()
			put(&m.b)()
			m.floor = m.l.floor(k)
		}},
		{name: "the read begins before the second is acknowledged", story: func(m *moment) {
			put := begin(m)
			put(&m.a)()
			end := put(&m.b)
			m.floor = m.l.floor(k)
			end()
		}},
		{name: "both at once have no order", story: func(m *moment) {
			put := begin(m)
			endA := put(&m.a)
			endB := put(&m.b)
			endA()
			endB()
			m.floor = m.l.floor(k)
		}},
		{name: "a write that began first and is acknowledged last takes nothing back", badA: errOld, story: func(m *moment) {
			put := begin(m)
			var other string
			endOther := put(&other)
			put(&m.a)()
			put(&m.b)()
			endOther()
			m.floor = m.l.floor(k)
		}},
		{name: "the first was never acknowledged and may still happen", story: func(m *moment) {
			put := begin(m)
			put(&m.a)
			put(&m.b)()
			m.floor = m.l.floor(k)
		}},
		{name: "a delete makes both old", badA: errOld, badB: errOld, story: func(m *moment) {
			put := begin(m)
			put(&m.a)()
			put(&m.b)()
			m.l.acknowledged(k, m.l.remove())
			m.floor = m.l.floor(k)
		}},
		{name: "a delete that failed makes nothing old", story: func(m *moment) {
			put := begin(m)
			put(&m.a)()
			m.l.remove()
			end := put(&m.b)
			m.floor = m.l.floor(k)
			end()
		}},
		{name: "long forgotten", badA: errOld, story: func(m *moment) {
			put := begin(m)
			put(&m.a)()
			for range 3 * maxRemember {
				put(&m.b)()
			}
			m.floor = m.l.floor(k)
		}},
		{name: "forgotten while the read was under way", story: func(m *moment) {
			put := begin(m)
			put(&m.a)()
			m.floor = m.l.floor(k)
			for range 3 * maxRemember {
				put(&m.b)()
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := &moment{l: newLedger("run")}
			tt.story(m)
			for name, row := range map[string]struct {
				version string
				want    error
			}{"first": {m.a, tt.badA}, "second": {m.b, tt.badB}, "the origin's": {"7", nil}, "another run's": {"w-other-1", nil}} {
				if row.version == "" {
					continue
				}
				if err := m.l.seen(k, row.version, m.floor); !errors.Is(err, row.want) {
					t.Errorf("%s: got %v, want %v", name, err, row.want)
				}
			}
		})
	}
}

func TestLedgerKnowsItsOwn(t *testing.T) {
	l := newLedger("run")
	version, begun := l.put("a")
	l.acknowledged("a", begun)
	l.put("b")
	for _, row := range []struct {
		key, version string
		want         error
	}{
		{"a", version, nil},
		{"b", version, errNotOurs},
		{"c", version, errNotOurs},
		{"a", "w-run-99", errNotOurs},
		{"a", "w-run-x", errMalformed},
	} {
		if err := l.seen(row.key, row.version, 0); !errors.Is(err, row.want) {
			t.Errorf("%s %s: got %v, want %v", row.key, row.version, err, row.want)
		}
	}
}

func TestLedgerForgetsWhatIsOld(t *testing.T) {
	l := newLedger("run")
	for range 10 * maxRemember {
		_, begun := l.put("a")
		l.acknowledged("a", begun)
	}
	if n := len(l.shard("a").keys["a"].ends); n > maxRemember {
		t.Errorf("%d puts of one key are remembered, want at most %d", n, maxRemember)
	}
}

func TestDocuments(t *testing.T) {
	body, err := newDocument("a \"b\" <&> \u2028 😀", "v\n1", 1000)
	if err != nil {
		t.Fatal(err)
	}
	d, err := checkDocument("a \"b\" <&> \u2028 😀", body)
	if err != nil || d.Version != "v\n1" || len(d.Pad) != 1000 {
		t.Errorf("got %+v, %v", d, err)
	}
	if _, err := checkDocument("a", body); err == nil {
		t.Error("another key's document was accepted")
	}
	for i := range body {
		bad := []byte(string(body))
		bad[i] ^= 1
		if d2, err := checkDocument(d.Key, bad); err == nil && fmt.Sprint(d2) != fmt.Sprint(d) {
			t.Errorf("byte %d was changed unnoticed: %q", i, bad)
		}
		if _, err := checkDocument(d.Key, body[:i]); err == nil {
			t.Errorf("the first %d bytes were accepted", i)
		}
	}
}
