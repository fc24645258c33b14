package httpapi_test

import (
	"bufio"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func itoa(n int) string { return strconv.Itoa(n) }

// TestText plays testdata/*.http, each against a server of its own. A file is
// a row of exchanges:
//
//	# a comment
//	PUT /v1/cache/kv/a?ttl=30s      the request; then its header lines
//	Content-Type: text/plain
//	| a line of the body            (several are joined by line breaks)
//	< 201                           the answer's status
//	< ETag: "[0-9a-f]{32}"          a header, as an expression for its whole value
//	< !Retry-After                  a header that must not be there
//	= a line of the answer's body, as it is
//	~ an expression that the answer's body must match somewhere
//
// {a*1025} stands for 1025 times a.
func TestText(t *testing.T) {
	files, err := filepath.Glob("testdata/*.http")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 5 {
		t.Fatalf("found only %d files", len(files))
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".http"), func(t *testing.T) {
			s := serve(t, func(c *setup) {
				c.options.Limits.BatchKeys = 3
				c.options.MaxValueBytes = 1000
			})
			for _, e := range exchanges(t, name) {
				e.play(t, s, name)
			}
		})
	}
}

// textExchange is one request and what is expected of its answer.
type textExchange struct {
	line   int
	first  string
	header []string
	body   []string
	status string
	wants  []string // expected headers
	exact  []string
	match  []string
}

var (
	methodLine = regexp.MustCompile(`^[A-Z]+ /`)
	repeated   = regexp.MustCompile(`\{(.)\*(\d+)\}`)
)

func exchanges(t *testing.T, name string) []*textExchange {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, f)
	var all []*textExchange
	var e *textExchange
	sc := bufio.NewScanner(f)
	for n := 1; sc.Scan(); n++ {
		line := repeated.ReplaceAllStringFunc(sc.Text(), func(s string) string {
			m := repeated.FindStringSubmatch(s)
			times, err := strconv.Atoi(m[2])
			if err != nil {
				t.Fatal(err)
			}
			return strings.Repeat(m[1], times)
		})
		rest := strings.TrimPrefix(line[min(1, len(line)):], " ")
		switch {
		case line == "" || line[0] == '#':
		case methodLine.MatchString(line):
			e = &textExchange{line: n, first: line}
			all = append(all, e)
		case e == nil:
			t.Fatalf("%s:%d: no request yet", name, n)
		case line[0] == '|':
			e.body = append(e.body, rest)
		case line[0] == '<' && e.status == "":
			e.status = rest
		case line[0] == '<':
			e.wants = append(e.wants, rest)
		case line[0] == '=':
			e.exact = append(e.exact, rest)
		case line[0] == '~':
			e.match = append(e.match, rest)
		default:
			e.header = append(e.header, line)
		}
	}
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

func (e *textExchange) play(t *testing.T, s *server, name string) {
	t.Helper()
	got := s.raw(t, request(e.first, e.header, strings.Join(e.body, "\n")))
	bad := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s:%d: %.80s\n"+format, append([]any{name, e.line, e.first}, args...)...)
	}
	if itoa(got.StatusCode) != e.status {
		bad("status %d, want %s; body %q", got.StatusCode, e.status, got.body)
	}
	for _, want := range e.wants {
		if absent, ok := strings.CutPrefix(want, "!"); ok {
			if v := got.Header.Values(absent); len(v) > 0 {
				bad("has %s: %q", absent, v)
			}
			continue
		}
		field, pattern, _ := strings.Cut(want, ": ")
		value := strings.Join(got.Header.Values(field), ", ")
		if field == "Connection" && got.Close {
			value = "close" // ReadResponse takes the header away
		}
		if !regexp.MustCompile(`\A(?:` + pattern + `)\z`).MatchString(value) {
			bad("%s: %q, want %q", field, value, pattern)
		}
	}
	if want := strings.Join(e.exact, "\n"); len(e.exact) > 0 && strings.TrimSuffix(got.body, "\n") != want {
		bad("body %q, want %q", got.body, want)
	}
	for _, pattern := range e.match {
		if !regexp.MustCompile(pattern).MatchString(got.body) {
			bad("body %q does not match %q", got.body, pattern)
		}
	}
}
