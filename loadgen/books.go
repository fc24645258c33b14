package loadgen

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"kring/client"
)

// Books says whether the counters of the nodes agree with one another and with
// those of the origin.
type Books struct {
	// State is "balanced", "not balanced", or "not checked" if nothing is
	// wrong, but some books could not be read.
	State string `json:"state"`
	// Balanced says that nothing that could be checked was wrong.
	Balanced bool `json:"balanced"`
	// Wrong says what does not add up, NotChecked what could not be checked.
	Wrong      []string `json:"wrong"`
	NotChecked []string `json:"not_checked"`
	// Silent are the members and entry nodes that did not answer at the end.
	Silent []string `json:"silent"`
}

// noOrigin is the reason not to check the origin without --origin.
const noOrigin = "the origin: no --origin is given"

// skipped is NotChecked without the checks that the caller did not want.
func (b *Books) skipped() []string {
	return slices.DeleteFunc(slices.Clone(b.NotChecked), func(s string) bool { return s == noOrigin })
}

// judge sets the state.
func (b *Books) judge() {
	switch {
	case len(b.Wrong) > 0:
		b.State = "not balanced"
	case len(b.skipped()) > 0:
		b.State = "not checked"
	default:
		b.State = "balanced"
	}
}

// rows are the lines of the books in a result.
func (b *Books) rows() (rows []string) {
	for _, s := range b.Wrong {
		rows = append(rows, "NOT BALANCED: "+s)
	}
	for _, s := range b.skipped() {
		rows = append(rows, "not checked: "+s)
	}
	if len(rows) == 0 && slices.Contains(b.NotChecked, noOrigin) {
		return []string{"balanced, without the origin's: no --origin is given"}
	}
	if len(rows) == 0 {
		return []string{"balanced"}
	}
	return rows
}

const (
	// balanceTimeout is how long the books may take to balance: a request in flight
	// is counted only at its end.
	balanceTimeout = 5 * time.Second
	balanceStep    = 50 * time.Millisecond
)

// auditor reads the books of all nodes and of the origin.
type auditor struct {
	client *client.Client
	nodes  []string   // the configured URLs, for a cluster that does not list its members
	origin demoOrigin // has no URL if its loads are not counted
}

// ledgerPage is the books of all nodes and the origin at about one time.
type ledgerPage struct {
	nodes   map[string]nodeBooks // by member id, or by URL
	missing []string             // members whose books could not be read
	silent  []string             // members that did not answer, or are down
	busy    bool                 // the books kept changing
	guessed bool                 // no node listed the members: the entry nodes count as the members
	origin  originStats
}

type nodeBooks struct {
	incarnation string
	client.Books
}

// before reads the books at the start, after they have stopped changing.
func (a *auditor) before(ctx context.Context) (*ledgerPage, error) {
	page, err := a.read(ctx)
	if err != nil {
		return nil, err
	}
	rested := poll(ctx, func() bool {
		next, e := a.read(ctx)
		if e != nil {
			err = e
			return true
		}
		same := page.equal(next) && next.origin.InFlight == 0
		page = next
		return same
	})
	if err != nil {
		return nil, err
	}
	if !rested && ctx.Err() == nil {
		page.busy = true
	}
	return page, ctx.Err()
}

// after reads the books at the end and compares them with those at the start.
func (a *auditor) after(ctx context.Context, before *ledgerPage) (books Books, originLoads int64, err error) {
	poll(ctx, func() bool {
		var page *ledgerPage
		if page, err = a.read(ctx); err != nil {
			return true
		}
		books, originLoads = before.compare(page, a.origin.url != "")
		return books.Balanced
	})
	if err == nil {
		books.Silent = append(books.Silent, a.silentEntries(ctx)...)
	}
	return books, originLoads, err
}

// silentEntries are the entry nodes that do not answer and are no member's URL.
// The others were asked with the members.
func (a *auditor) silentEntries(ctx context.Context) (silent []string) {
	members, err := a.client.Members(ctx)
	if err != nil {
		return nil
	}
	for _, node := range a.nodes {
		at := strings.TrimRight(node, "/")
		if slices.ContainsFunc(members, func(m client.Member) bool { return strings.TrimRight(m.URL, "/") == at }) {
			continue
		}
		var refused *client.Error
		if _, err := a.client.BooksOf(ctx, node); err != nil && !errors.As(err, &refused) {
			silent = append(silent, node)
		}
	}
	return silent
}

// poll calls done every balanceStep until it returns true, balanceTimeout is over,
// or ctx ends. It also waits before the first call, to give the caller's last
// reading time to change.
func poll(ctx context.Context, done func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, balanceTimeout)
	defer cancel()
	tick := time.NewTicker(balanceStep)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if done() {
				return true
			}
		case <-ctx.Done():
			return false
		}
	}
}

func (a *auditor) read(ctx context.Context) (*ledgerPage, error) {
	members, err := a.client.Members(ctx)
	page := &ledgerPage{nodes: map[string]nodeBooks{}}
	var refused *client.Error
	switch {
	case errors.As(err, &refused):
		// The route does not exist or the token does not allow it: only the
		// entry nodes are known.
		page.guessed = true
		for _, u := range a.nodes {
			members = append(members, client.Member{ID: u, URL: u})
		}
	case err != nil:
		return nil, err
	}
	for _, m := range members {
		b, err := a.client.BooksOf(ctx, m.URL)
		if m.State == "down" || err != nil && !errors.As(err, &refused) {
			page.silent = append(page.silent, m.ID)
		}
		if err != nil {
			page.missing = append(page.missing, m.ID)
			continue
		}
		page.nodes[m.ID] = nodeBooks{m.Incarnation, b}
	}
	if a.origin.url != "" {
		if page.origin, err = a.origin.stats(ctx); err != nil {
			return nil, err
		}
	}
	return page, nil
}

func (p *ledgerPage) equal(o *ledgerPage) bool {
	if len(p.nodes) != len(o.nodes) || p.origin != o.origin {
		return false
	}
	for id, b := range p.nodes {
		if o.nodes[id].Books != b.Books {
			return false
		}
	}
	return true
}

// compare checks each node's identities. It checks the cluster's identities
// over what has happened since p.
func (p *ledgerPage) compare(now *ledgerPage, withOrigin bool) (books Books, originLoads int64) {
	books = Books{Wrong: []string{}, NotChecked: []string{}, Silent: slices.Concat([]string{}, now.silent)}
	var peer, served, abandoned, loads int64
	for id, b := range now.nodes {
		ways := b.Hits + b.HotHits + b.Stale + b.Joined + b.Peer + b.Loads + b.Refused
		if b.Gets != ways {
			books.wrong("%s: %d gets, but %d of them were answered in some way", id, b.Gets, ways)
		}
		ways = b.ServedHits + b.ServedStale + b.ServedJoined + b.ServedLoads + b.ServedRefused
		if b.Served != ways {
			books.wrong("%s: %d calls of other nodes served, but %d of them in some way", id, b.Served, ways)
		}
		old, known := p.nodes[id]
		if !known {
			books.skip("the cluster: %s is new", id)
		} else if restarted(old, b) {
			books.skip("the cluster: %s was restarted", id)
		}
		peer += b.Peer - old.Peer
		served += b.Served - old.Served
		abandoned += b.Abandoned - old.Abandoned
		loads += b.Loads + b.ServedLoads + b.Refreshes - old.Loads - old.ServedLoads - old.Refreshes
	}
	for id := range p.nodes {
		if _, ok := now.nodes[id]; !ok && !slices.Contains(now.missing, id) {
			books.skip("the cluster: %s is gone", id)
		}
	}
	for _, id := range slices.Concat(p.missing, now.missing) {
		books.skip("the cluster: %s does not show its books", id)
	}
	if p.busy {
		books.skip("the cluster: other clients use it")
	}
	if now.guessed && peer != served+abandoned {
		// An unknown node that served the rest has its own books and loads.
		books.skip("the cluster: it does not say who its members are, and --nodes are not all")
	}
	originLoads = now.origin.Loads - p.origin.Loads
	if len(books.NotChecked) == 0 && peer != served+abandoned {
		books.wrong("the cluster: %d gets went to other nodes, but %d were served and %d abandoned", peer, served, abandoned)
	}
	switch {
	case !withOrigin:
		books.skip(noOrigin)
	case originLoads < 0:
		books.skip("the origin: it was restarted or reset")
	case len(books.NotChecked) == 0 && loads != originLoads:
		books.wrong("the origin: it saw %d loads, the nodes count %d", originLoads, loads)
	}
	slices.Sort(books.Wrong)
	slices.Sort(books.NotChecked)
	books.NotChecked = slices.Compact(books.NotChecked)
	books.Balanced = len(books.Wrong) == 0
	books.judge()
	return books, originLoads
}

// restarted also compares counters: the node that listed the members may not
// have heard of a new incarnation yet.
func restarted(old, now nodeBooks) bool {
	return old.incarnation != now.incarnation && old.incarnation != "0" && now.incarnation != "0" ||
		old.Gets > now.Gets || old.Served > now.Served
}

func (b *Books) wrong(format string, args ...any) {
	b.Wrong = append(b.Wrong, fmt.Sprintf(format, args...))
}

func (b *Books) skip(format string, args ...any) {
	b.NotChecked = append(b.NotChecked, fmt.Sprintf(format, args...))
}
