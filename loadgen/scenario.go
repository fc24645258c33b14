package loadgen

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"kring/client"
)

// scenarios rehearse the failures that a cache exists to prevent. Each one sets
// the demo origin's behaviour, loads the cluster and judges by counts. Counts
// are right on a slow machine as well. Times are shown, but decide nothing.
var scenarios = map[string]func(context.Context, *stage) error{
	"avalanche":   avalanche,
	"breakdown":   breakdown,
	"penetration": penetration,
	"stampede":    stampede,
}

// Scenarios are the names that RunScenario accepts.
func Scenarios() []string { return slices.Sorted(maps.Keys(scenarios)) }

// Verdict is the result of a scenario.
type Verdict struct {
	Scenario string `json:"scenario"`
	Passed   bool   `json:"passed"`
	// Interrupted says that the scenario did not reach its end, and so has not
	// passed.
	Interrupted bool    `json:"interrupted"`
	Checks      []Check `json:"checks"`
	Phases      []Phase `json:"phases"`
	// Doubts are what a healthy cluster does not do, by phase. They do not fail
	// the scenario.
	Doubts []string `json:"doubts"`
}

// Check is one thing that must hold.
type Check struct {
	What   string `json:"what"`
	Want   string `json:"want"`
	Got    string `json:"got"`
	Passed bool   `json:"passed"` // nothing was found wrong
	// Skipped says that the check was impossible.
	Skipped bool `json:"skipped"`
}

// The result of a check, in words.
const (
	checkPassed  = "ok"
	checkFailed  = "WRONG"
	checkSkipped = "not checked"
)

func (c *Check) word() string {
	switch {
	case c.Skipped:
		return checkSkipped
	case c.Passed:
		return checkPassed
	default:
		return checkFailed
	}
}

// Phase is one run of a scenario.
type Phase struct {
	Name   string  `json:"name"`
	Result *Result `json:"result"`
}

// Err is nil if all checks were made and passed.
func (v *Verdict) Err() error {
	for _, c := range v.Checks {
		if !c.Passed {
			return fmt.Errorf("%w: %s: %s: %s, must be %s", ErrWrong, v.Scenario, c.What, c.Got, c.Want)
		}
	}
	if v.Interrupted {
		return fmt.Errorf("%s was interrupted before all was checked", v.Scenario)
	}
	return nil
}

// stage is what a scenario needs to run.
type stage struct {
	cfg     Config // nodes, group and limits of each of its runs
	prefix  string // of keys that are new to the cluster
	origin  demoOrigin
	verdict *Verdict
	// interrupted reports whether counts are meaningless from now on.
	interrupted func() bool
}

// RunScenario runs a scenario against the cluster and the demo origin behind
// it. It restores the origin's behaviour afterwards. When ctx ends, the verdict
// is about the checks until then. The group must respect the origin's
// Cache-Control. Count and Rate of the configuration, if not 0, change the size
// of the scenario.
func RunScenario(ctx context.Context, name string, cfg Config) (_ *Verdict, err error) {
	play := scenarios[name]
	if play == nil {
		return nil, fmt.Errorf("--scenario: %q: must be one of %s", name, strings.Join(Scenarios(), ", "))
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Origin == "" {
		return nil, errors.New(`--origin: "": a scenario needs the demo origin`)
	}
	plain := &http.Client{Transport: &http.Transport{}}
	defer plain.CloseIdleConnections()
	s := &stage{
		cfg: cfg, prefix: name + "-" + strconv.FormatUint(rand.Uint64(), 36) + "-",
		origin:      demoOrigin{url: cfg.Origin, http: plain},
		verdict:     &Verdict{Scenario: name, Checks: []Check{}, Phases: []Phase{}, Doubts: []string{}},
		interrupted: func() bool { return ctx.Err() != nil },
	}
	before, err := s.origin.control(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.origin.behave(context.WithoutCancel(ctx), before)) }()
	if err := s.behave(ctx, map[string]any{"missing": "^" + s.prefix + "missing-"}); err != nil {
		return nil, err
	}
	if err := s.fits(ctx); err != nil && ctx.Err() == nil {
		return nil, err
	}
	if err := play(ctx, s); err != nil && ctx.Err() == nil {
		return nil, err
	}
	s.verdict.Interrupted = s.interrupted()
	s.books()
	s.doubts()
	s.verdict.Passed = s.verdict.Err() == nil
	return s.verdict, nil
}

// ErrUnfit says that a scenario needs another kind of group.
var ErrUnfit = errors.New("a scenario needs a group whose values come from --origin")

// fits reads one key, and refuses a group whose values are not the demo
// origin's.
func (s *stage) fits(ctx context.Context) error {
	c, err := s.cfg.client()
	if err != nil {
		return err
	}
	defer c.Close()
	key := s.prefix + "probe"
	_, got := c.Get(ctx, s.cfg.Group, key)
	if flag := hopelessFlag(got); flag != "" {
		return fmt.Errorf("%s: %w", flag, got)
	}
	switch loads, err := s.loadsOf(ctx, key); {
	case err != nil:
		return err
	case loads > 0:
		return nil
	case got == nil, errors.Is(got, client.ErrNotFound):
		return fmt.Errorf("--group: %q: %w, %s, and this one's do not", s.cfg.Group, ErrUnfit, s.cfg.Origin)
	default:
		return fmt.Errorf("ask for a first key: %w", got)
	}
}

// behave sets the origin's behaviour. What change does not name gets its
// default.
func (s *stage) behave(ctx context.Context, change map[string]any) error {
	all := map[string]any{"latency": "0s", "jitter": "0s", "error_rate": 0, "cache_control": "max-age=3600"}
	maps.Copy(all, change)
	b, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("tell the origin how to behave: %w", err)
	}
	return s.origin.behave(ctx, b)
}

// load is one run of count requests, or of a duration if count is 0.
func (s *stage) load(ctx context.Context, name string, l load) (*Result, error) {
	s.say(name)
	cfg := s.config(l)
	cfg.Progress, cfg.Terminal = s.cfg.Progress, s.cfg.Terminal
	results, err := runTogether(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	s.add(name, results[0])
	return results[0], nil
}

// load is the settings of one run of a scenario.
type load struct {
	keys        func(*rand.Rand) picker
	concurrency int
	count       int64
	duration    time.Duration
	rate        float64
}

func (s *stage) config(l load) Config {
	c := s.cfg
	c.pick, c.Concurrency, c.Count, c.Duration, c.Rate = l.keys, l.concurrency, l.count, l.duration, l.rate
	c.Write, c.Delete, c.Progress = 0, 0, nil
	return c
}

// say shows the name of the phase that begins.
func (s *stage) say(phase string) {
	if s.cfg.Progress != nil {
		fmt.Fprintf(s.cfg.Progress, "%s: %s\n", s.verdict.Scenario, phase)
	}
}

func (s *stage) add(name string, r *Result) {
	s.verdict.Phases = append(s.verdict.Phases, Phase{Name: name, Result: r})
}

// at is a load of one key by a number of clients, once each, all at once.
func (s *stage) at(key string, clients int) load {
	return load{keys: one(key), concurrency: clients, count: int64(clients)}
}

// one always picks the same key.
func one(key string) func(*rand.Rand) picker {
	return func(*rand.Rand) picker { return &only{key} }
}

type only struct{ key string }

func (p *only) next() (string, int, bool) { return p.key, -1, true }

// check records a check and its result.
func (s *stage) check(ok bool, what, want, format string, args ...any) {
	if s.interrupted() {
		return
	}
	s.note(ok, what, want, format, args...)
}

// within checks a count that may exceed most by the number of strayed reads.
func (s *stage) within(r *Result, got, least, most int64, what, want string) {
	strayed := r.strayed()
	if strayed > 0 {
		want += fmt.Sprintf(", and %d for reads that strayed", strayed)
	}
	s.check(least <= got && got <= most+strayed, what, want, "%d", got)
}

func (s *stage) note(ok bool, what, want, format string, args ...any) {
	s.verdict.Checks = append(s.verdict.Checks, Check{What: what, Want: want, Got: fmt.Sprintf(format, args...), Passed: ok})
}

// books checks the books of all phases.
func (s *stage) books() {
	var wrong, skipped []string
	for _, p := range s.verdict.Phases {
		for _, w := range p.Result.Books.Wrong {
			wrong = append(wrong, p.Name+": "+w)
		}
		for _, w := range p.Result.Books.skipped() {
			skipped = append(skipped, p.Name+": "+w)
		}
	}
	const what = "books of the nodes and the origin"
	switch {
	case len(s.verdict.Phases) == 0: // interrupted before the first one
	case len(wrong) > 0:
		s.note(false, what, "balanced", "not balanced: %s", strings.Join(wrong, "; "))
	case len(skipped) > 0:
		s.note(true, what, "balanced", "%s", strings.Join(skipped, "; "))
		s.verdict.Checks[len(s.verdict.Checks)-1].Skipped = true
	default:
		s.note(true, what, "balanced", "balanced")
	}
}

// doubts collects the doubts of all phases.
func (s *stage) doubts() {
	for _, p := range s.verdict.Phases {
		for _, d := range p.Result.doubts() {
			s.verdict.Doubts = append(s.verdict.Doubts, p.Name+": "+d)
		}
	}
}

// noErrors checks that all requests of a run were answered.
func (s *stage) noErrors(what string, r *Result) {
	s.check(r.Errors == 0 && r.VerifyFailed == 0, what+": errors", "0", "%d (%s) of %d", r.Errors+r.VerifyFailed, counts(r.ErrorsByCode), r.Requests)
}

// waited is how many reads waited for a load, their own or another's. It does
// not count marked loads: a stand-in makes no promise about them.
func (r *Result) waited() int64 {
	return r.Answers["load"] + r.Answers["joined"] + r.Behind["load"] + r.Behind["joined"] - r.standIns
}

// strayed is how many reads may have reached a node that does not act for their
// key, and so made a load of their own: the client, or the node that forwarded,
// took the acting node for hung.
func (r *Result) strayed() int64 {
	n := r.Retries
	for _, marked := range r.Marked {
		n += marked
	}
	return n
}

// loadsOf is the origin's loads of a key.
func (s *stage) loadsOf(ctx context.Context, key string) (int64, error) {
	k, err := s.origin.keyStats(ctx, key)
	return k.Loads, err
}

// WriteText writes the verdict and its figures for people.
func (v *Verdict) WriteText(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "scenario %s\n", v.Scenario)
	for _, p := range v.Phases {
		r := p.Result
		fmt.Fprintf(&b, "  %s: %d requests in %.1f s\n", p.Name, r.Requests, r.Seconds)
		fmt.Fprintf(&b, "    answers %s; behind peer %s; origin loads %s\n", counts(r.Answers), counts(r.Behind), loadsText(r))
		if len(r.Marked) > 0 {
			fmt.Fprintf(&b, "    marked %s\n", counts(r.Marked))
		}
		fmt.Fprintf(&b, "    latency ms %s\n", r.Latency.text())
	}
	for _, c := range v.Checks {
		must := ""
		if c.word() == checkFailed {
			must = " (must be " + c.Want + ")"
		}
		fmt.Fprintf(&b, "  %-5s %s: %s%s\n", c.word(), c.What, c.Got, must)
	}
	for _, d := range v.Doubts {
		fmt.Fprintf(&b, "  but   %s\n", d)
	}
	fmt.Fprintf(&b, "verdict %s\n", v.word())
	if _, err := io.WriteString(out, b.String()); err != nil {
		return fmt.Errorf("write the verdict: %w", err)
	}
	return nil
}

// word is the verdict in words.
func (v *Verdict) word() string {
	switch {
	case v.Passed && len(v.Doubts) > 0:
		return "passed, with doubts"
	case v.Passed:
		return "passed"
	case v.Interrupted && !errors.Is(v.Err(), ErrWrong):
		return "interrupted"
	default:
		return "FAILED"
	}
}

func loadsText(r *Result) string {
	if r.OriginLoads == nil {
		return "unknown"
	}
	return strconv.FormatInt(*r.OriginLoads, 10)
}
