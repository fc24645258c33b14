package loadgen

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Outcome is the judgement of a run.
type Outcome string

const (
	// Well: every request was answered, and nothing was unusual.
	Well Outcome = "well"
	// Doubtful: every request was answered, but something was unusual.
	Doubtful Outcome = "doubtful"
	// Wrong: requests failed, answers were wrong, or the books do not balance.
	Wrong Outcome = "wrong"
)

const (
	// slowFactor times the median makes an answer an outlier.
	slowFactor = 20
	// slowLeast keeps the pauses of a busy machine from being outliers.
	slowLeast = 100 * time.Millisecond
	// slowSample is how many answers percentile 99.9 needs to mean anything.
	slowSample = 1000
	// rateReached is the share of an open loop's rate that counts as reached.
	rateReached = 0.95
)

// ErrWrong is wrapped in the error of Result.Err.
var ErrWrong = errors.New("something was wrong")

// Err is nil unless requests failed, bodies were wrong, or the books do not
// balance. It names all three.
func (r *Result) Err() error {
	if wrong := r.wrong(); len(wrong) > 0 {
		return fmt.Errorf("%w: %s", ErrWrong, strings.Join(wrong, "; "))
	}
	return nil
}

// judge sets the outcome.
func (r *Result) judge() {
	wrong, doubts := r.wrong(), r.doubts()
	if skipped := r.Books.skipped(); len(skipped) > 0 {
		doubts = append(doubts, "the books were not checked: "+strings.Join(skipped, ", "))
	}
	r.Findings = slices.Concat([]string{}, wrong, doubts)
	switch {
	case len(wrong) > 0:
		r.Outcome = Wrong
	case len(doubts) > 0:
		r.Outcome = Doubtful
	default:
		r.Outcome = Well
	}
}

// verdict is the outcome in words, with all findings.
func (r *Result) verdict() string {
	switch findings := strings.Join(r.Findings, "; "); r.Outcome {
	case Well:
		return r.wellInWords()
	case Doubtful:
		return "no request failed, but: " + findings
	default:
		return "something was wrong: " + findings
	}
}

func (r *Result) wellInWords() string {
	if r.Interrupted {
		return "all was well until the interruption"
	}
	return "all was well"
}

// wrong lists what must never happen.
func (r *Result) wrong() []string {
	var f findings
	f.add(r.VerifyFailed > 0, "%d of %d verified answers failed", r.VerifyFailed, r.Verified)
	f.add(r.Errors > 0, "%d of %d requests failed", r.Errors, r.Requests)
	f.add(r.Requests == 0, "not one request was answered")
	if len(r.Books.Wrong) > 0 {
		f.add(true, "the books do not balance: %s", r.Books.Wrong[0])
	}
	return f
}

// doubts lists what a healthy cluster does not do, though it breaks no promise.
// Books.skipped does this for the books.
func (r *Result) doubts() []string {
	var f findings
	f.add(len(r.Books.Silent) > 0, "did not answer: %s", strings.Join(r.Books.Silent, ", "))
	f.add(r.Retries > 0, "requests sent again to another node: %d", r.Retries)
	for _, mark := range slices.Sorted(maps.Keys(r.Marked)) {
		f.add(r.Marked[mark] > 0, "answers marked %s: %d", mark, r.Marked[mark])
	}
	f.add(r.slow(), "slow answers: the p99.9 of those that waited for no load is %s ms, their median %s ms", round(r.Unwaited.P999), round(r.Unwaited.P50))
	f.add(r.tooFew(), "the rate was not reached: %.0f of %g requests a second", r.RPS, r.Setup.Rate)
	return f
}

type findings []string

func (f *findings) add(found bool, format string, args ...any) {
	if found {
		*f = append(*f, fmt.Sprintf(format, args...))
	}
}

// slow reports whether some answers took far longer than the run's median
// without a load to wait for.
func (r *Result) slow() bool {
	u := r.Unwaited
	return u.Count >= slowSample && u.P999 >= float64(slowLeast.Milliseconds()) && u.P999 > slowFactor*u.P50
}

// tooFew reports whether an open loop fell behind its rate. The wait of an
// interrupted run for its last answers does not count.
func (r *Result) tooFew() bool {
	if r.Setup.Rate == 0 || r.Requests == 0 {
		return false
	}
	seconds := r.Seconds
	if r.Interrupted && r.sending > 0 {
		seconds = r.sending.Seconds()
	}
	return float64(r.Requests) < rateReached*r.Setup.Rate*seconds
}
