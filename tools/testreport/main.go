// Command testreport reads the output of go test -json, prints a line for each
// package and what failing tests have written, and counts. Every test and
// subtest counts as one; so does a package that fails without a failing test
// (it does not build, or its TestMain fails), and a test that never ended.
//
//	go test -json ./... | testreport -totals FILE
//
// FILE then holds one line: passed, failed and skipped, separated by spaces.
// The exit code is 1 if anything failed or if nothing ran at all.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// event is one line of go test -json; see go doc test2json.
type event struct {
	Action     string
	Package    string
	ImportPath string // of a build-output event
	Test       string
	Elapsed    float64
	Output     string
}

// totals counts tests by how they ended.
type totals struct{ passed, failed, skipped int }

func main() {
	file := flag.String("totals", "", "write the counts to this file")
	flag.Parse()
	sum, err := report(os.Stdin, os.Stdout)
	if err == nil && *file != "" {
		err = os.WriteFile(*file, fmt.Appendf(nil, "%d %d %d\n", sum.passed, sum.failed, sum.skipped), 0o644)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "testreport: %v\n", err)
		os.Exit(1)
	}
	if sum.failed > 0 || sum.passed == 0 {
		os.Exit(1)
	}
}

// pkg is a package whose tests are under way.
type pkg struct {
	totals
	running map[string]bool
	output  map[string][]string // by test; "" is the package's own
}

// report copies what matters of the events in r to w. Lines that are no events
// are copied as they are: go prints some errors that way.
func report(r io.Reader, w io.Writer) (totals, error) {
	var sum totals
	pkgs := map[string]*pkg{}
	in := bufio.NewReader(r)
	for {
		line, readErr := in.ReadString('\n')
		if strings.TrimSpace(line) != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
				fmt.Fprintln(w, strings.TrimRight(line, "\n"))
			} else {
				take(pkgs, e, &sum, w)
			}
		}
		if readErr == io.EOF {
			break
		}
		if readErr != nil {
			return sum, fmt.Errorf("read events: %w", readErr)
		}
	}
	for name, p := range pkgs { // the go command itself was ended
		sum.failed += 1 + len(p.running)
		sum.passed += p.passed
		sum.skipped += p.skipped
		fmt.Fprintf(w, "FAIL  %s: no result\n", name)
	}
	return sum, nil
}

func take(pkgs map[string]*pkg, e event, sum *totals, w io.Writer) {
	if e.Action == "build-output" || e.Action == "build-fail" {
		fmt.Fprint(w, e.Output)
		return
	}
	p := pkgs[e.Package]
	if p == nil {
		p = &pkg{running: map[string]bool{}, output: map[string][]string{}}
		pkgs[e.Package] = p
	}
	switch {
	case e.Action == "run":
		p.running[e.Test] = true
	case e.Action == "output":
		p.output[e.Test] = append(p.output[e.Test], e.Output)
	case e.Test != "":
		p.end(e, w)
	case e.Action == "pass" || e.Action == "fail" || e.Action == "skip":
		delete(pkgs, e.Package)
		p.finish(e, w)
		sum.passed += p.passed
		sum.failed += p.failed
		sum.skipped += p.skipped
	}
}

// end takes the end of one test.
func (p *pkg) end(e event, w io.Writer) {
	switch e.Action {
	case "pass":
		p.passed++
	case "skip":
		p.skipped++
		fmt.Fprintf(w, "SKIP  %s %s\n", e.Package, e.Test)
	case "fail":
		p.failed++
		fmt.Fprint(w, strings.Join(p.output[e.Test], ""))
	default: // pause, cont, bench, start, attr
		return
	}
	delete(p.running, e.Test)
	delete(p.output, e.Test)
}

// finish takes the end of the package.
func (p *pkg) finish(e event, w io.Writer) {
	unended := make([]string, 0, len(p.running))
	for test := range p.running {
		unended = append(unended, test)
	}
	slices.Sort(unended)
	for _, test := range unended { // a panic, os.Exit or the time-out came first
		p.failed++
		fmt.Fprint(w, strings.Join(p.output[test], ""))
		fmt.Fprintf(w, "FAIL  %s %s: never ended\n", e.Package, test)
	}
	if e.Action == "fail" {
		fmt.Fprint(w, strings.Join(p.output[""], ""))
		if p.failed == 0 {
			p.failed = 1
		}
	}
	if p.passed+p.failed+p.skipped == 0 {
		return // no test files
	}
	mark := "ok  "
	if p.failed > 0 {
		mark = "FAIL"
	}
	fmt.Fprintf(w, "%s  %s  %d passed, %d failed  %.1fs\n", mark, e.Package, p.passed, p.failed, e.Elapsed)
}
