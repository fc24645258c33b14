package peers

import (
	"errors"
	"testing"
	"time"

	"kring/cache"
	"kring/link"
)

// The gets that share a call take its answer, unless that is about the call alone.
func TestWhatThoseThatShareACallAreTold(t *testing.T) {
	now := time.Now()
	timeout := Reply{Err: cache.ErrOriginTimeout}
	for name, row := range map[string]struct {
		reply    Reply
		deadline time.Time
		want     error
	}{
		"a value":                        {Reply{}, now.Add(-1), nil},
		"not the owner":                  {Reply{NotOwner: true}, time.Time{}, ErrAskAgain},
		"the other node is stopping":     {Reply{cancelled: true}, time.Time{}, link.ErrClosed},
		"a timeout of the load":          {timeout, now.Add(1), nil},
		"a timeout, without a deadline":  {timeout, time.Time{}, nil},
		"a timeout of the call":          {timeout, now, ErrAskAgain},
		"another error, at the deadline": {Reply{Err: cache.ErrOriginFailed}, now, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := &call{req: &Request{deadline: row.deadline}, reply: row.reply}
			if err := c.othersError(now); !errors.Is(err, row.want) {
				t.Errorf("%v, want %v", err, row.want)
			}
		})
	}
}
