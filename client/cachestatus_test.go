package client_test

import (
	"reflect"
	"testing"
	"time"

	"kring/client"
)

func TestParseCacheStatus(t *testing.T) {
	for header, want := range map[string][]client.CacheStatus{
		"kring-1; hit; ttl=37":              {{Cache: "kring-1", Hit: true, TTL: 37 * time.Second, HasTTL: true}},
		"kring-1; hit; ttl=-2; detail=hot":  {{Cache: "kring-1", Hit: true, TTL: -2 * time.Second, HasTTL: true, Detail: "hot"}},
		"kring-1;fwd=miss;detail=peer:k-2":  {{Cache: "kring-1", Fwd: "miss", Detail: "peer:k-2"}},
		`"a\"b"; hit=?1; detail="x y"`:      {{Cache: `a"b`, Hit: true, Detail: "x y"}},
		"a; hit=?0; fwd=uri-miss":           {{Cache: "a", Fwd: "uri-miss"}},
		"a; fwd=miss; unknown=1; collapsed": {{Cache: "a", Fwd: "miss", Collapsed: true}},
		"kring-2; fwd=miss; fwd-status=200; stored, kring-1 ; fwd=miss ; detail=peer:kring-2": {
			{Cache: "kring-2", Fwd: "miss", FwdStatus: 200, Stored: true},
			{Cache: "kring-1", Fwd: "miss", Detail: "peer:kring-2"},
		},
		"":                  nil,
		"a; ":               nil,
		"a; hit,":           nil,
		"a b":               nil,
		`"open`:             nil,
		"a; ttl=":           nil,
		"a; fwd-status=abc": {{Cache: "a"}},
	} {
		if got := client.ParseCacheStatus(header); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %+v, want %+v", header, got, want)
		}
	}
}

func FuzzParseCacheStatus(f *testing.F) {
	for _, seed := range []string{
		"kring-1; hit; ttl=37", "a; fwd=miss, b; hit", `"a\\"; detail="x"`, "a;;", ",", "a; ttl=99999999999999999999", "\xff",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		for _, s := range client.ParseCacheStatus(header) {
			if s.FwdStatus != 0 && (s.FwdStatus < 100 || s.FwdStatus > 999) || !s.HasTTL && s.TTL != 0 {
				t.Errorf("%q gave %+v", header, s)
			}
			// A quoted member name reads the same.
			quoted := `"` + escapeString(s.Cache) + `"`
			if got := client.ParseCacheStatus(quoted); len(got) != 1 || got[0].Cache != s.Cache {
				t.Errorf("%q: %q is not read back: %+v", header, quoted, got)
			}
		}
	})
}

func escapeString(s string) string {
	var b []byte
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			b = append(b, '\\')
		}
		b = append(b, s[i])
	}
	return string(b)
}
