package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// reader can stop reading, and can fail.
type reader struct {
	mu   sync.Mutex // guards the fields below
	text bytes.Buffer
	err  error
	part int           // how much of a line is accepted before err
	wait chan struct{} // closed when it reads
	once string        // a line with this prefix fails once
}

func (r *reader) Write(p []byte) (int, error) {
	r.mu.Lock()
	wait := r.wait
	r.mu.Unlock()
	if wait != nil {
		<-wait
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.once != "" && strings.HasPrefix(string(p), r.once) {
		r.once = ""
		return 0, errors.New("no space again")
	}
	if r.err != nil {
		n, _ := r.text.Write(p[:min(r.part, len(p))])
		return n, r.err
	}
	return r.text.Write(p)
}

func (r *reader) fails(err error, part int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err, r.part = err, part
}

func (r *reader) failsOnce(with string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.once = with
}

func (r *reader) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

func say(t *testing.T, w io.Writer, format string, args ...any) {
	t.Helper()
	text := fmt.Sprintf(format, args...)
	if n, err := io.WriteString(w, text); n != len(text) || err != nil {
		t.Errorf("%q: wrote %d, %v", text, n, err)
	}
}

func TestLinesComeInOrderAndWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r reader
		l := newLineWriter(&r)
		want := ""
		line := []byte("line 000\n")
		for i := range 500 {
			copy(line, fmt.Sprintf("line %03d", i)) // reuse the buffer: Write must have copied it
			if _, err := l.Write(line); err != nil {
				t.Fatal(err)
			}
			want += string(line)
		}
		l.flush()
		if got := r.String(); got != want || l.Dropped() != 0 {
			t.Errorf("%d lines dropped; got %q", l.Dropped(), got)
		}
	})
}

// Lines that do not fit are dropped and counted, and a notice in their place
// reports the number.
func TestLinesThatDoNotFitAreDroppedAndCounted(t *testing.T) {
	for _, row := range []struct {
		name string
		line string
		fit  int
	}{
		{"too many lines", "x\n", mostLines},
		{"too many bytes", strings.Repeat("x", 1<<10-1) + "\n", mostLineBytes >> 10},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := reader{wait: make(chan struct{})}
				l := newLineWriter(&r)
				say(t, l, "first\n")
				synctest.Wait() // the goroutine blocks in Write
				for range row.fit + 7 {
					say(t, l, "%s", row.line)
				}
				if got := l.Dropped(); got != 7 {
					t.Errorf("%d lines dropped, want 7", got)
				}
				close(r.wait)
				synctest.Wait()
				say(t, l, "last\n")
				l.flush()
				want := "first\n" + strings.Repeat(row.line, row.fit) + "kring: 7 lines dropped\nlast\n"
				if got := r.String(); got != want {
					t.Errorf("got …%q", got[max(0, len(got)-200):])
				}
				if got := l.Dropped(); got != 7 {
					t.Errorf("%d lines dropped in the end, want 7", got)
				}
			})
		})
	}
}

// A reader that is slower than the writer gets only a few notices.
func TestFewNoticesWhileLinesKeepComing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		step := make(chan struct{})
		r := &stepper{step: step}
		l := newLineWriter(r)
		for range 10 * mostLines {
			say(t, l, "a\n")
			say(t, l, "b\n")
			synctest.Wait()
			step <- struct{}{}
		}
		close(step)
		l.flush()
		if n := strings.Count(r.text.String(), "dropped"); n < 2 || n > 10 {
			t.Errorf("%d notices", n)
		}
	})
}

// stepper accepts one line a step.
type stepper struct {
	step <-chan struct{}
	text bytes.Buffer
}

func (s *stepper) Write(p []byte) (int, error) {
	<-s.step
	return s.text.Write(p)
}

func TestLinesThatCannotBeWrittenAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r reader
		l := newLineWriter(&r)
		l.setNotice(func(lost uint64) []byte { return fmt.Appendf(nil, "lost %d\n", lost) })
		r.fails(errors.New("no space"), 0)
		for i := range 5 {
			say(t, l, "line %d\n", i)
			l.flush()
		}
		r.fails(errors.New("no space"), 3)
		say(t, l, "torn\n")
		l.flush()
		r.fails(errors.New("no space"), 0)
		say(t, l, "gone\n")
		l.flush()
		r.fails(nil, 0)
		r.failsOnce("lost 7")
		say(t, l, "works\n")
		l.flush()
		say(t, l, "on\n")
		l.flush()
		// A torn line must not spoil the next one.
		if got, want := r.String(), "tor\nworks\non\nlost 7\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := l.Dropped(); got != 7 {
			t.Errorf("%d lines dropped, want 7", got)
		}
	})
}

// flush waits for a slow reader, but not for ever for one that does not read.
func TestFlushWaitsAndGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := reader{wait: make(chan struct{})}
		l := newLineWriter(&r)
		l.flush() // the queue is empty
		say(t, l, "last words\n")
		begun := time.Now()
		l.flush()
		if waited := time.Since(begun); waited != lastWords {
			t.Errorf("waited %v for a reader that does not read", waited)
		}
		time.AfterFunc(lastWords/2, func() { close(r.wait) })
		begun = time.Now()
		l.flush()
		if waited := time.Since(begun); waited != lastWords/2 || r.String() != "last words\n" {
			t.Errorf("waited %v for a slow reader, which has %q", waited, r.String())
		}
	})
}
