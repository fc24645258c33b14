package loadgen

import (
	"math"
	"math/rand/v2"
)

// zipf draws ranks 0…n−1, rank k with a probability proportional to (k+1)^−s,
// for any s > 0, by rejection-inversion (W. Hörmann and G. Derflinger,
// "Rejection-inversion to generate variates from monotone discrete
// distributions", ACM TOMACS 6(3), 1996). It needs no table and fewer than two
// numbers a draw. math/rand's Zipf is the same method, but only for s > 1, and
// cache traces often have less.
type zipf struct {
	s, n    float64
	hFirst  float64 // the numbers are drawn from the area between here …
	hLast   float64 // … and here
	shorten float64 // a candidate this close to its rank needs no second test
}

func newZipf(s float64, n int64) zipf {
	z := zipf{s: s, n: float64(n)}
	z.hFirst = z.integral(1.5) - 1
	z.hLast = z.integral(z.n + 0.5)
	z.shorten = 2 - z.inverse(z.integral(2.5)-z.density(2))
	return z
}

func (z *zipf) rank(r *rand.Rand) int64 {
	for {
		u := z.hLast + r.Float64()*(z.hFirst-z.hLast)
		x := z.inverse(u)
		k := math.Min(math.Max(math.Floor(x+0.5), 1), z.n)
		if k-x <= z.shorten || u >= z.integral(k+0.5)-z.density(k) {
			return int64(k) - 1
		}
	}
}

func (z *zipf) density(x float64) float64 { return math.Exp(-z.s * math.Log(x)) }

// integral is the density's antiderivative, (x^(1−s) − 1) / (1 − s), whose
// limit at s = 1 is log x.
func (z *zipf) integral(x float64) float64 {
	l := math.Log(x)
	return expRatio((1-z.s)*l) * l
}

func (z *zipf) inverse(x float64) float64 {
	// Rounding may lead just outside the range of the integral.
	t := math.Max(x*(1-z.s), -1)
	return math.Exp(logRatio(t) * x)
}

// expRatio is (e^x − 1) / x, also near 0.
func expRatio(x float64) float64 {
	if math.Abs(x) > 1e-8 {
		return math.Expm1(x) / x
	}
	return 1 + x/2*(1+x/3)
}

// logRatio is log(1 + x) / x, also near 0.
func logRatio(x float64) float64 {
	if math.Abs(x) > 1e-8 {
		return math.Log1p(x) / x
	}
	return 1 - x*(0.5-x/3)
}
