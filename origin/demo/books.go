package demo

import (
	"net/http"
	"slices"
	"sync"
	"time"
)

// maxKeys bounds the keys that are counted one by one.
const maxKeys = 1 << 20

// window is the length of the window of Stats.PeakWindow. It is short enough to
// show whether loads come in a flood.
const window = 100 * time.Millisecond

// Stats counts the requests for documents, not those for the server's own
// pages.
type Stats struct {
	Loads       int64 `json:"loads"` // all requests, however they ended
	Keys        int   `json:"keys"`  // different keys
	MaxPerKey   int64 `json:"max_per_key"`
	OK          int64 `json:"ok"`           // 200
	NotModified int64 `json:"not_modified"` // 304
	Missing     int64 `json:"missing"`      // 404
	Errors      int64 `json:"errors"`       // 500
	Left        int64 `json:"left"`         // the client went away
	InFlight    int64 `json:"in_flight"`
	Peak        int64 `json:"peak_in_flight"`
	PeakWindow  int64 `json:"peak_100ms"` // most requests that began within one window of the clock
	// Uncounted requests were for keys beyond the million that are counted one
	// by one.
	Uncounted int64 `json:"uncounted"`
}

// Windows is how many requests began in each of the last windows with requests.
type Windows struct {
	WidthMS int64    `json:"width_ms"`
	Now     int64    `json:"now"` // number of the current window
	Windows []Window `json:"windows"`
}

// Window is one window. Its number counts from 1970.
type Window struct {
	Number int64 `json:"number"`
	Loads  int64 `json:"loads"`
}

// maxWindows bounds the remembered windows: two minutes, if each has a request.
const maxWindows = 1200

// KeyStats counts the requests for one key.
type KeyStats struct {
	Key      string `json:"key"`
	Loads    int64  `json:"loads"`
	InFlight int64  `json:"in_flight"`
	Peak     int64  `json:"peak_in_flight"`
	Status   int    `json:"last_status"` // 0: none yet
}

// books counts requests.
type books struct {
	mu         sync.Mutex // guards the fields below
	generation int        // how often the counts were reset
	total      Stats
	keys       map[string]*KeyStats
	recent     []Window // the newest last
}

// begin counts a request's arrival. The caller calls done with the status at
// the request's end, 0 if the client left.
func (b *books) begin(key string) (done func(status int)) {
	now := time.Now().UnixNano() / int64(window)
	b.mu.Lock()
	defer b.mu.Unlock()
	t := &b.total
	t.Loads++
	t.InFlight++
	t.Peak = max(t.Peak, t.InFlight)
	if n := len(b.recent); n == 0 || b.recent[n-1].Number != now {
		if n >= 2*maxWindows {
			b.recent = append(b.recent[:0], b.recent[n-maxWindows:]...)
		}
		b.recent = append(b.recent, Window{Number: now})
	}
	last := &b.recent[len(b.recent)-1]
	last.Loads++
	t.PeakWindow = max(t.PeakWindow, last.Loads)

	k := b.keys[key]
	if k == nil && len(b.keys) < maxKeys {
		if b.keys == nil {
			b.keys = map[string]*KeyStats{}
		}
		k = &KeyStats{Key: key}
		b.keys[key] = k
	}
	if k == nil {
		t.Uncounted++
	} else {
		k.Loads++
		k.InFlight++
		k.Peak = max(k.Peak, k.InFlight)
		t.MaxPerKey = max(t.MaxPerKey, k.Loads)
	}
	generation := b.generation
	return func(status int) { b.end(k, generation, status) }
}

func (b *books) end(k *KeyStats, generation, status int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.total.InFlight--
	if generation != b.generation {
		return // the request began before a reset
	}
	if k != nil {
		k.InFlight--
		k.Status = status
	}
	switch status {
	case http.StatusOK:
		b.total.OK++
	case http.StatusNotModified:
		b.total.NotModified++
	case http.StatusNotFound:
		b.total.Missing++
	case 0:
		b.total.Left++
	default:
		b.total.Errors++
	}
}

func (b *books) stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.total
	s.Keys = len(b.keys)
	return s
}

func (b *books) windows() Windows {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Windows{
		WidthMS: window.Milliseconds(), Now: time.Now().UnixNano() / int64(window),
		Windows: slices.Clone(b.recent[max(0, len(b.recent)-maxWindows):]),
	}
}

func (b *books) key(key string) KeyStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	if k := b.keys[key]; k != nil {
		return *k
	}
	return KeyStats{Key: key}
}

// reset starts all counts anew. Requests in flight stay in flight.
func (b *books) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.generation++
	b.total = Stats{InFlight: b.total.InFlight, Peak: b.total.InFlight}
	b.keys, b.recent = nil, nil
}
