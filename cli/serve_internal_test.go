package cli

import (
	"context"
	"encoding/json"
	"log"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kring/config"
	"kring/node"
)

// Log lines of libraries are records like all others. The notice about dropped
// lines is logged at every level.
func TestLogOfLibrariesAndNoticesFollowTheFormat(t *testing.T) {
	before, writer := slog.Default(), log.Writer()
	defer func() { slog.SetDefault(before); log.SetOutput(writer) }()
	synctest.Test(t, func(t *testing.T) {
		cfg := node.DefaultConfig()
		cfg.Log = node.LogConfig{Level: "error", Format: "json"}
		r := reader{wait: make(chan struct{})}
		errs := newLineWriter(&r)
		s := &server{loaded: &config.Loaded{Config: cfg}}
		if err := s.startLog(errs); err != nil {
			t.Fatal(err)
		}
		s.level.Set(slog.LevelInfo)
		log.Print("a library")
		s.level.Set(slog.LevelError)
		s.log.Warn("not at this level")
		for range mostLines + 1 {
			s.log.Error("x")
		}
		close(r.wait)
		errs.flush()
		messages := map[string]int{}
		for line := range strings.Lines(r.String()) {
			var record struct{ Msg string }
			if err := json.Unmarshal([]byte(line), &record); err != nil {
				t.Errorf("%q: %v", line, err)
			}
			messages[record.Msg]++
		}
		dropped := 0
		for msg, n := range messages {
			if strings.HasSuffix(msg, " lines dropped") {
				dropped += n
			}
		}
		if messages["a library"] != 1 || messages["not at this level"] != 0 || dropped != 1 {
			t.Errorf("lines %v", messages)
		}
	})
}

// lastLine is a stderr that runs a function at the last line.
type lastLine struct{ then func() }

func (l lastLine) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "msg=stopped") {
		l.then()
	}
	return len(p), nil
}

// A slow reader of stdout gets the ready line before the end.
func TestTheEndWaitsForTheReaderOfStdout(t *testing.T) {
	before, writer := slog.Default(), log.Writer()
	defer func() { slog.SetDefault(before); log.SetOutput(writer) }()
	cfg := node.DefaultConfig()
	cfg.Node.Listen = "127.0.0.1:0"
	stdout := reader{wait: make(chan struct{})}
	stderr := lastLine{func() { time.AfterFunc(20*time.Millisecond, func() { close(stdout.wait) }) }}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := &server{loaded: &config.Loaded{Config: cfg}}
	if err := s.run(ctx, &stdout, stderr); err != nil {
		t.Fatal(err)
	}
	if got := stdout.String(); !strings.HasPrefix(got, "kring ready: http://127.0.0.1:") {
		t.Errorf("stdout %q", got)
	}
}
