package origin_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"kring/balance"
	"kring/cache"
	"kring/origin"
)

// Why loads fail is in the log, with the endpoint, and does not fill it.
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
		s.load(t, "secret-key", nil).mustFail(t, cache.ErrOriginFailed)
		got := lines()
		if len(got) != 1 {
			t.Fatalf("a first failure: logged %q", got)
		}
		for _, want := range []string{"level=WARN", `msg="load failed"`, "pool=test", "endpoint=a", "origin-failed", "connection refused", "not_logged=0"} {
			if !strings.Contains(got[0], want) {
				t.Errorf("logged %s, without %s", got[0], want)
			}
		}
		if strings.Contains(got[0], "secret-key") {
			t.Errorf("the key is in the log: %s", got[0])
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

		// A load that nobody wants any more has not failed.
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
