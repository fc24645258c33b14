package main

import (
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	for _, c := range []struct {
		name   string
		events string
		want   totals
		prints []string
		hides  []string
	}{
		{
			name: "tests and subtests count, passing output stays out",
			events: `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"A"}
{"Action":"run","Package":"p","Test":"A/one"}
{"Action":"output","Package":"p","Test":"A/one","Output":"noise\n"}
{"Action":"pass","Package":"p","Test":"A/one"}
{"Action":"pass","Package":"p","Test":"A"}
{"Action":"pass","Package":"p","Elapsed":1.5}
`,
			want:   totals{passed: 2},
			prints: []string{"ok    p  2 passed, 0 failed  1.5s"},
			hides:  []string{"noise"},
		},
		{
			name: "a failing test shows what it wrote",
			events: `{"Action":"run","Package":"p","Test":"A"}
{"Action":"output","Package":"p","Test":"A","Output":"got 1, want 2\n"}
{"Action":"fail","Package":"p","Test":"A"}
{"Action":"fail","Package":"p"}
`,
			want:   totals{failed: 1},
			prints: []string{"got 1, want 2", "FAIL  p  0 passed, 1 failed"},
		},
		{
			name: "a test that never ended has failed",
			events: `{"Action":"run","Package":"p","Test":"A"}
{"Action":"output","Package":"p","Test":"A","Output":"panic: boom\n"}
{"Action":"fail","Package":"p"}
`,
			want:   totals{failed: 1},
			prints: []string{"panic: boom", "p A: never ended"},
		},
		{
			name: "a package that fails without a test counts once",
			events: `{"Action":"build-output","ImportPath":"p","Output":"x.go:1: syntax error\n"}
{"Action":"fail","Package":"p"}
`,
			want:   totals{failed: 1},
			prints: []string{"syntax error"},
		},
		{
			name: "a passing test does not hide that its package failed",
			events: `{"Action":"run","Package":"p","Test":"A"}
{"Action":"pass","Package":"p","Test":"A"}
{"Action":"output","Package":"p","Output":"goleak: found 1 goroutine\n"}
{"Action":"fail","Package":"p"}
`,
			want:   totals{passed: 1, failed: 1},
			prints: []string{"goleak: found 1 goroutine"},
		},
		{
			name: "skipped tests are named",
			events: `{"Action":"run","Package":"p","Test":"A"}
{"Action":"skip","Package":"p","Test":"A"}
{"Action":"pass","Package":"p"}
`,
			want:   totals{skipped: 1},
			prints: []string{"SKIP  p A"},
		},
		{
			name:   "a package without tests is silent",
			events: `{"Action":"skip","Package":"p"}` + "\n",
			hides:  []string{"p"},
		},
		{
			name: "a run that was cut off has failed, and other text is kept",
			events: `go: cannot find module
{"Action":"run","Package":"p","Test":"A"}
`,
			want:   totals{failed: 2},
			prints: []string{"go: cannot find module", "FAIL  p: no result"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			got, err := report(strings.NewReader(c.events), &out)
			if err != nil {
				t.Fatal(err)
			}
			if got != c.want {
				t.Errorf("counted %+v, want %+v", got, c.want)
			}
			for _, s := range c.prints {
				if !strings.Contains(out.String(), s) {
					t.Errorf("does not print %q but\n%s", s, out.String())
				}
			}
			for _, s := range c.hides {
				if strings.Contains(out.String(), s) {
					t.Errorf("prints %q:\n%s", s, out.String())
				}
			}
		})
	}
}
