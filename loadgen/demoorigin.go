package loadgen

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// originStats is the demo origin's counters.
type originStats struct {
	Loads    int64 `json:"loads"`
	InFlight int64 `json:"in_flight"`
}

// keyStats is its counters of one key.
type keyStats struct {
	Loads int64 `json:"loads"`
	Peak  int64 `json:"peak_in_flight"`
}

// windows is how many loads began in each tenth of a second that had any.
type windows struct {
	Now     int64    `json:"now"` // number of the current one
	Windows []window `json:"windows"`
}

type window struct {
	Number int64 `json:"number"`
	Loads  int64 `json:"loads"`
}

// demoOrigin reads the demo origin's counters and sets its behaviour.
type demoOrigin struct {
	url  string
	http *http.Client
}

func (o demoOrigin) stats(ctx context.Context) (s originStats, err error) {
	return s, o.do(ctx, http.MethodGet, "/_/stats", nil, &s)
}

func (o demoOrigin) keyStats(ctx context.Context, key string) (s keyStats, err error) {
	return s, o.do(ctx, http.MethodGet, "/_/stats/"+url.PathEscape(key), nil, &s)
}

func (o demoOrigin) windows(ctx context.Context) (w windows, err error) {
	return w, o.do(ctx, http.MethodGet, "/_/windows", nil, &w)
}

// control is the origin's behaviour, in its own JSON.
func (o demoOrigin) control(ctx context.Context) (c json.RawMessage, err error) {
	return c, o.do(ctx, http.MethodGet, "/_/control", nil, &c)
}

// behave sets what change names and keeps the rest.
func (o demoOrigin) behave(ctx context.Context, change json.RawMessage) error {
	var now json.RawMessage
	return o.do(ctx, http.MethodPut, "/_/control", change, &now)
}

func (o demoOrigin) do(ctx context.Context, method, path string, body []byte, into any) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("--origin: %s: %s %s: %w", o.url, method, path, err)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, balanceTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(o.url, "/")+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := o.http.Do(req)
	if err != nil {
		return err
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d: is it the demo origin?", resp.StatusCode)
	}
	return json.Unmarshal(answer, into)
}
