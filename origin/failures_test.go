package origin_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"kring/balance"
	"kring/cache"
	"kring/origin"
)

// The log says why loads fail, with the endpoint, and does not fill up.
func TestFailuresAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		lines := func() []string {
			text := strings.TrimSpace(log.String())
			log.Reset()
			if text == "" {
				return nil
			}
			return strings.Split(text, "\n")
		}
		refusal := error(syscall.ECONNREFUSED)
		s := start(t, "/{key}", []string{"http://a.test"}, func(b *balance.Config, o *origin.Options) {
			b.Health.MaxFails = 1000
			o.Log = slog.New(slog.NewTextHandler(&log, nil))
			o.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, refusal }
		})
		s.load(t, "some-key", nil).mustFail(t, cache.ErrOriginFailed)
		got := lines()
		if len(got) != 1 {
			t.Fatalf("a first failure: logged %q", got)
		}
		for _, want := range []string{"level=WARN", `msg="load failed"`, "pool=test", "endpoint=a", "group=docs", "key=some-key", "origin-failed", "connection refused", "not_logged=0"} {
			if !strings.Contains(got[0], want) {
				t.Errorf("logged %s, without %s", got[0], want)
			}
		}

		for i := range 7 {
			s.load(t, fmt.Sprint(i), nil).mustFail(t, cache.ErrOriginFailed)
		}
		if got := lines(); len(got) != 0 {
			t.Errorf("the same again: logged %q", got)
		}
		refusal = context.DeadlineExceeded
		s.load(t, "k", nil).mustFail(t, cache.ErrOriginTimeout)
		if got := lines(); len(got) != 1 || !strings.Contains(got[0], "could not be reached in time") {
			t.Errorf("another reason: logged %q", got)
		}

		refusal = syscall.ECONNREFUSED
		time.Sleep(time.Minute)
		s.load(t, "k", nil).mustFail(t, cache.ErrOriginFailed)
		if got := lines(); len(got) != 1 || !strings.Contains(got[0], "not_logged=7") {
			t.Errorf("a minute later: logged %q", got)
		}

		// A cancelled load has not failed.
		time.Sleep(time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if r := s.loadIn(ctx, "k", nil); r.err == nil {
			t.Error("a cancelled load went well")
		}
		if got := lines(); len(got) != 0 {
			t.Errorf("cancelled: logged %q", got)
		}
	})
}

// The line of a failed load names the load, and the result of each try.
func TestALogLineSaysEverything(t *testing.T) {
	broken := lie(t, sayAndClose("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello"))
	var n atomic.Int64
	busy, fine := counting(t, 503, &n), counting(t, 200, &n)
	long := lie(t, say(strings.Repeat("x", 100_000)+"\r\n\r\n"))
	for _, tt := range []struct {
		name string
		urls []string
		key  string
		id   string
		want []string
		not  string
	}{
		{"two tries", []string{busy, broken.url}, "k", "req-1", []string{
			`msg="load failed"`, "pool=test", "group=docs", "key=k ", "endpoint=b", "request_id=req-1", "not_logged=0",
			"a: origin-failed: endpoint a answered 503; b: origin-bad-answer: endpoint b sent an answer that is not whole", "unexpected EOF",
		}, ""},
		{"a hostile key", []string{busy}, "a b\"\u202e=/%\x7f", "", []string{`key="a%20b%22%E2%80%AE=%2F%25%7F"`}, "request_id"},
		{"rescued", []string{busy, fine}, "k", "req-2", []string{
			`msg="load needed a second try"`, "endpoint=a", "request_id=req-2", "a: origin-failed: endpoint a answered 503\"",
		}, "load failed"},
		{"a long cause", []string{long.url}, "k", "", []string{"a: origin-bad-answer", "…"}, strings.Repeat("x", 600)},
		{"well", []string{fine}, "k", "req-3", nil, "load"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var log bytes.Buffer
			s := start(t, "/{key}", tt.urls, neverEject, func(_ *balance.Config, o *origin.Options) {
				o.Log = slog.New(slog.NewTextHandler(&log, nil))
			})
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, err := s.group.Load(ctx, &cache.Load{Key: cache.Key{Group: "docs", Key: tt.key}, RequestID: tt.id})
			got := log.String()
			if len(tt.want) > 0 && strings.Count(got, "\n") != 1 {
				t.Errorf("error %v, logged %q, want one line", err, got)
			}
			for _, want := range tt.want {
				if !strings.Contains(got, want) {
					t.Errorf("logged %s, without %s", got, want)
				}
			}
			if tt.not != "" && strings.Contains(got, tt.not) {
				t.Errorf("logged %s, with %s", got, tt.not)
			}
		})
	}
}
