package loadgen

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
)

// keySpec is a parsed Config.Keys: one of the three forms.
type keySpec struct {
	n    int64   // uniform and zipf: how many keys
	s    float64 // zipf's exponent; 0 is uniform
	file string
}

// maxKeys keeps a rank exact in a float64.
const maxKeys = 1 << 40

func parseKeys(spec string) (keySpec, error) {
	bad := func(why string) (keySpec, error) {
		return keySpec{}, fmt.Errorf("--keys: %q: %s", spec, why)
	}
	kind, rest, found := strings.Cut(spec, ":")
	if spec == "" {
		return bad("must be uniform:N, zipf:S:N or a file")
	}
	switch {
	case found && kind == "uniform":
		n, err := parseN(rest)
		if err != nil {
			return bad(err.Error())
		}
		return keySpec{n: n}, nil
	case found && kind == "zipf":
		exponent, count, _ := strings.Cut(rest, ":")
		s, err := strconv.ParseFloat(exponent, 64)
		if err != nil || math.IsNaN(s) || s <= 0 || s > 20 {
			return bad("the exponent must be a number above 0, at most 20: zipf:1.1:100000")
		}
		n, err := parseN(count)
		if err != nil {
			return bad(err.Error())
		}
		return keySpec{n: n, s: s}, nil
	default:
		return keySpec{file: spec}, nil
	}
}

func parseN(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1 || n > maxKeys {
		return 0, fmt.Errorf("the number of keys must be from 1 to %d", int64(maxKeys))
	}
	return n, nil
}

// picker chooses keys for one worker. It is not safe for concurrent use.
type picker interface {
	// next is the next key, and the size of the value to put (-1: the
	// configured size). ok is false after the last key.
	next() (key string, size int, ok bool)
}

// ranked picks among keys that are numbered from 0, the most popular first.
type ranked struct {
	prefix string
	rank   func() int64
	text   []byte
}

// newRanked makes the picker of a spec without a file.
func newRanked(spec keySpec, r *rand.Rand) *ranked {
	if spec.s == 0 {
		return &ranked{prefix: "key-", rank: func() int64 { return r.Int64N(spec.n) }}
	}
	z := newZipf(spec.s, spec.n)
	return &ranked{prefix: "key-", rank: func() int64 { return z.rank(r) }}
}

func (p *ranked) next() (string, int, bool) {
	p.text = strconv.AppendInt(append(p.text[:0], p.prefix...), p.rank(), 10)
	return string(p.text), -1, true
}

// inTurn picks prefix0, prefix1, …, prefixN−1 and then begins anew. All workers
// share the turn.
type inTurn struct {
	prefix string
	n      int64
	at     *atomic.Int64
}

func newInTurn(prefix string, n int64) func(*rand.Rand) picker {
	at := new(atomic.Int64)
	return func(*rand.Rand) picker { return &inTurn{prefix: prefix, n: n, at: at} }
}

func (p *inTurn) next() (string, int, bool) {
	return p.prefix + strconv.FormatInt((p.at.Add(1)-1)%p.n, 10), -1, true
}
