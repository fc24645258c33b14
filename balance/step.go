package balance

// maxStep bounds what one assignment adds to a score.
const maxStep = 1 << 31

// steps are what one assignment costs an endpoint of each weight: the least
// common multiple of all weights divided by its own. So an endpoint of weight 5
// is chosen five times until it has cost as much as one choice of weight 1.
// Where the multiple is beyond maxStep the steps are rounded. A weight of 0 has
// no step.
func steps(weights []int64) []int64 {
	multiple := int64(1)
	for _, w := range weights {
		if w > 0 {
			multiple = min(multiple/gcd(multiple, w)*w, maxStep)
		}
	}
	all := make([]int64, len(weights))
	common := int64(0)
	for i, w := range weights {
		if w > 0 {
			all[i] = max(1, (multiple+w/2)/w)
			common = gcd(all[i], common)
		}
	}
	for i := range all {
		if common > 1 {
			all[i] /= common // equal weights all cost 1
		}
	}
	return all
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
