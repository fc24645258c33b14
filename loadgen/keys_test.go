package loadgen

import (
	"compress/gzip"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParseKeys(t *testing.T) {
	for spec, want := range map[string]keySpec{
		"uniform:100":    {n: 100},
		"zipf:1.1:1000":  {n: 1000, s: 1.1},
		"zipf:0.8:1":     {n: 1, s: 0.8},
		"web07.keys.gz":  {file: "web07.keys.gz"},
		"dir/uniform":    {file: "dir/uniform"},
		"other:1:2.keys": {file: "other:1:2.keys"},
	} {
		if got, err := parseKeys(spec); err != nil || got != want {
			t.Errorf("%s: got %+v, %v; want %+v", spec, got, err, want)
		}
	}
	for _, spec := range []string{"", "uniform:", "uniform:0", "uniform:x", "zipf:1.1", "zipf:0:5", "zipf:-1:5", "zipf:NaN:5", "zipf:1:0", "zipf::5"} {
		if got, err := parseKeys(spec); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", spec)) {
			t.Errorf("%q: got %+v, %v; want an error that names it", spec, got, err)
		}
	}
}

// The draws have the frequencies of Zipf's law for s below, at and above 1.
func TestZipfFrequencies(t *testing.T) {
	const draws = 400_000
	for _, tt := range []struct {
		s float64
		n int64
	}{{0.1, 5}, {0.7, 100}, {0.99, 50}, {1, 1}, {1, 2}, {1, 30}, {1.0000001, 30}, {1.2, 1000}, {3, 10}} {
		r := rand.New(rand.NewPCG(1, 2))
		z := newZipf(tt.s, tt.n)
		seen := make([]float64, tt.n)
		for range draws {
			k := z.rank(r)
			if k < 0 || k >= tt.n {
				t.Fatalf("zipf(%v, %d) gave rank %d", tt.s, tt.n, k)
			}
			seen[k]++
		}
		var norm float64
		for k := range tt.n {
			norm += math.Pow(float64(k+1), -tt.s)
		}
		for k := range tt.n {
			p := math.Pow(float64(k+1), -tt.s) / norm
			want, sigma := p*draws, math.Sqrt(draws*p*(1-p))
			if math.Abs(seen[k]-want) > 5*sigma+1 {
				t.Errorf("zipf(%v, %d): rank %d was drawn %v times, want %.0f ± %.0f", tt.s, tt.n, k, seen[k], want, sigma)
			}
		}
	}
}

func TestZipfOfManyKeysStaysInRange(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, s := range []float64{0.01, 0.5, 1, 1.5, 20} {
		z := newZipf(s, maxKeys)
		for range 10_000 {
			if k := z.rank(r); k < 0 || k >= maxKeys {
				t.Fatalf("zipf(%v) gave rank %d", s, k)
			}
		}
	}
}

func TestUniformReachesAllKeysAlike(t *testing.T) {
	p := newRanked(keySpec{n: 10}, rand.New(rand.NewPCG(5, 6)))
	seen := map[string]int{}
	for range 10_000 {
		key, size, ok := p.next()
		if !ok || size != -1 {
			t.Fatalf("got %q, %d, %v", key, size, ok)
		}
		seen[key]++
	}
	for i := range 10 {
		if n := seen[fmt.Sprintf("key-%d", i)]; n < 800 || n > 1200 {
			t.Errorf("key-%d came %d times of 10000", i, n)
		}
	}
}

func writeTrace(t *testing.T, name, text string) string {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(name, ".gz") {
		z := gzip.NewWriter(f)
		if _, err := z.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
	} else if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestTrace(t *testing.T) {
	const text = "a\nb b\t70\n\n  c\r\n/d/\t0"
	want := []traceLine{{"a", -1}, {"b b", 70}, {"  c\r", -1}, {"/d/", 0}}
	for _, name := range []string{"t.keys", "t.keys.gz"} {
		for _, again := range []bool{false, true} {
			tr, err := openTrace(t.Context(), writeTrace(t, name, text), again)
			if err != nil {
				t.Fatal(err)
			}
			for i := range 3 * len(want) {
				key, size, ok := tr.next()
				if i >= len(want) && !again {
					if ok {
						t.Errorf("%s went on with %q", name, key)
					}
					break
				}
				if w := want[i%len(want)]; !ok || key != w.key || size != w.size {
					t.Errorf("%s: line %d is %q, %d, %v; want %+v", name, i, key, size, ok, w)
				}
			}
			if err := tr.close(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestBadTraces(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"size", "a\tx\n", `line 1: "x" is not a size`},
		{"minus", "a\n\na\t-1\n", `line 3: "-1" is not a size`},
		{"no key", "\t5\n", "line 1: the key is empty"},
		{"empty", "\n\n", "the file has no keys"},
		{"long", "a\n" + strings.Repeat("x", maxLine+1), "line 2: longer than 65536 bytes"},
	} {
		tr, err := openTrace(t.Context(), writeTrace(t, "t.keys", tt.text), true)
		if err != nil {
			t.Fatal(err)
		}
		for {
			if _, _, ok := tr.next(); !ok {
				break
			}
		}
		if err := tr.close(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
	tr, err := openTrace(t.Context(), writeTrace(t, "t.keys.gz", "x")+"", false)
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.close(); err != nil {
		t.Errorf("closed before its end: %v", err)
	}
	if _, err := openTrace(t.Context(), filepath.Join(t.TempDir(), "none"), false); err == nil {
		t.Error("a file that is not there was opened")
	}
}

func FuzzParseLine(f *testing.F) {
	for _, seed := range []string{"a", "a\t1", "a\tb\tc", "\t", "\xff\t12 "} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		l, err := parseLine(line)
		if err != nil {
			return
		}
		key, _, found := strings.Cut(string(line), "\t")
		if l.key == "" || l.key != key || l.size < -1 || found != (l.size >= 0) {
			t.Errorf("%q was read as %+v", line, l)
		}
	})
}

func BenchmarkZipf(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	z := newZipf(0.9, 1_000_000)
	for b.Loop() {
		z.rank(r)
	}
}
