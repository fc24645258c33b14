package loadgen

import (
	"slices"
	"testing"
	"time"

	"kring/client"
)

func pageOfBooks(edit func(p *ledgerPage)) *ledgerPage {
	p := &ledgerPage{nodes: map[string]nodeBooks{
		"a": {"7", client.Books{Gets: 10, Hits: 6, Peer: 4, Served: 2, ServedHits: 2}},
		"b": {"0", client.Books{Gets: 5, Hits: 3, Peer: 2, Served: 4, ServedHits: 4}},
	}}
	if edit != nil {
		edit(p)
	}
	return p
}

// Restarts and other events on nodes prevent a comparison of the cluster's
// sums, and are reported by name.
func TestWhatKeepsBooksFromBeingCompared(t *testing.T) {
	change := func(p *ledgerPage, id string, f func(b *nodeBooks)) {
		b := p.nodes[id]
		f(&b)
		p.nodes[id] = b
	}
	for _, tt := range []struct {
		name        string
		before, now func(p *ledgerPage)
		notChecked  []string
		wrong       []string
	}{
		{name: "nothing"},
		{
			name: "another incarnation", now: func(p *ledgerPage) { change(p, "a", func(b *nodeBooks) { b.incarnation = "8" }) },
			notChecked: []string{"the cluster: a was restarted"},
		},
		{name: "an incarnation that was not heard before", now: func(p *ledgerPage) { change(p, "b", func(b *nodeBooks) { b.incarnation = "8" }) }},
		{name: "an incarnation that is not heard any more", now: func(p *ledgerPage) { change(p, "a", func(b *nodeBooks) { b.incarnation = "0" }) }},
		{
			name: "fewer gets", now: func(p *ledgerPage) { change(p, "b", func(b *nodeBooks) { b.Gets, b.Hits = 4, 2 }) },
			notChecked: []string{"the cluster: b was restarted"},
		},
		{
			name: "fewer calls served", now: func(p *ledgerPage) { change(p, "b", func(b *nodeBooks) { b.Served, b.ServedHits = 3, 3 }) },
			notChecked: []string{"the cluster: b was restarted"},
		},
		{
			name: "a new member", before: func(p *ledgerPage) { delete(p.nodes, "b") },
			notChecked: []string{"the cluster: b is new"},
		},
		{
			name: "a member that is gone", now: func(p *ledgerPage) { delete(p.nodes, "b") },
			notChecked: []string{"the cluster: b is gone"},
		},
		{
			name: "a member that said nothing, then nothing again", before: func(p *ledgerPage) { delete(p.nodes, "b"); p.missing = []string{"b"} },
			now:        func(p *ledgerPage) { delete(p.nodes, "b"); p.missing = []string{"b"} },
			notChecked: []string{"the cluster: b does not show its books"},
		},
		{
			name: "another client", before: func(p *ledgerPage) { p.busy = true },
			notChecked: []string{"the cluster: other clients use it"},
		},
		{
			name: "a call that no node served", now: func(p *ledgerPage) { change(p, "a", func(b *nodeBooks) { b.Gets, b.Peer = 11, 5 }) },
			wrong: []string{"the cluster: 1 gets went to other nodes, but 0 were served and 0 abandoned"},
		},
		{
			name: "a load that the origin did not see", now: func(p *ledgerPage) { change(p, "a", func(b *nodeBooks) { b.Refreshes = 1 }) },
			wrong: []string{"the origin: it saw 0 loads, the nodes count 1"},
		},
	} {
		books, _ := pageOfBooks(tt.before).compare(pageOfBooks(tt.now), true)
		if !slices.Equal(books.NotChecked, tt.notChecked) || !slices.Equal(books.Wrong, tt.wrong) {
			t.Errorf("%s: not checked %q, wrong %q; want %q, %q", tt.name, books.NotChecked, books.Wrong, tt.notChecked, tt.wrong)
		}
	}
}

// A rest that is too short for a point of its own extends the last one, with
// its errors. A longer one does not.
func TestTimelineKeepsTheRest(t *testing.T) {
	begun := time.Now()
	at := func(d time.Duration) time.Time { return begun.Add(d) }
	for _, tt := range []struct {
		rest   time.Duration
		points int
	}{{300 * time.Millisecond, 1}, {500 * time.Millisecond, 2}} {
		line := timeline{begun: begun}
		h := newHistogram(2)
		rest := newHistogram(2)
		for range 10 {
			if err := h.RecordValue(1000); err != nil {
				t.Fatal(err)
			}
			if err := rest.RecordValue(5000); err != nil {
				t.Fatal(err)
			}
		}
		line.add(at(time.Second), h, 1)
		line.finish(at(time.Second+tt.rest), rest, 2)
		var requests, errors int64
		for _, p := range line.points {
			requests += p.requests
			errors += p.Errors
		}
		last := line.points[len(line.points)-1]
		if len(line.points) != tt.points || requests != 20 || errors != 3 || last.Max < 4.9 || last.Seconds != (time.Second+tt.rest).Seconds() {
			t.Errorf("a rest of %v: %+v; want %d points with 20 requests and 3 errors", tt.rest, line.points, tt.points)
		}
	}
}

// An open loop's unsent requests are at most those that were due: its count, or
// its rate times its duration.
func TestUnsentIsOfWhatWasDue(t *testing.T) {
	for _, tt := range []struct {
		count, sent, want int64
	}{{0, 90, 210}, {100, 90, 10}, {1000, 90, 210}, {50, 50, 0}} {
		r := &run{cfg: &Config{Rate: 100, Duration: 3 * time.Second, Count: tt.count}, recorder: newRecorder(1)}
		for range tt.sent {
			if err := r.recorder.record(0, &sample{}); err != nil {
				t.Fatal(err)
			}
		}
		if got := r.result(client.Counters{}).Unsent; got != tt.want {
			t.Errorf("%d of 100 a second for 3 s, at most %d: %d unsent, want %d", tt.sent, tt.count, got, tt.want)
		}
	}
}
