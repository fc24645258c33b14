package cache_test

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"kring/cache"
)

// tagging answers with the tags of each key.
func tagging(tags map[string][]string) func(int, *cache.Load) (cache.Loaded, error) {
	return func(n int, l *cache.Load) (cache.Loaded, error) {
		loaded, err := counting(n, l)
		loaded.Entry.Tags = tags[l.Key.Key]
		return loaded, err
	}
}

func TestPurge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		for i := range 1000 {
			f.put(kv(fmt.Sprint(i)), "v")
		}
		f.get(doc("k"))
		f.DropGroup("kv")
		if s := f.Stats(); s.Entries != 1 || s.Groups[1].Bytes != 0 {
			t.Errorf("%+v", s)
		}
		f.wantsNothing(f.get(kv("1")), cache.KindHit)
		f.wants(f.get(doc("k")), "k#1", cache.KindHit)
		f.DropGroup("another configuration's")
		f.DropTags("another configuration's", []string{"a"})
		if s := f.Stats(); s.Entries != 1 {
			t.Errorf("%d entries", s.Entries)
		}
	})
}

// A purge of one group does not make the node ask a failing origin again for another
// group.
func TestPurgeForgetsTheGroupsFailuresAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		f.origin.set(0, failing)
		f.get(doc("k"))
		for range 50 {
			f.DropGroup("kv")
			f.DropTags("kv", []string{"a"})
			f.wantsError(f.get(doc("k")), errOrigin, cache.KindJoined)
		}
		if n := f.origin.loads("k"); n != 1 {
			t.Errorf("%d loads", n)
		}
		f.DropGroup("docs")
		f.wantsError(f.get(doc("k")), errOrigin, cache.KindLoad)
	})
}

func TestPurgeByTag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		f.origin.set(0, tagging(map[string][]string{"1": {"a"}, "2": {"b", "c"}, "3": {"c"}, "4": {"A", "ab"}}))
		keys := []string{"1", "2", "3", "4", "5"}
		for _, k := range keys {
			f.get(doc(k))
		}
		f.put(kv("1"), "v")
		f.DropTags("docs", []string{"a", "b", "nobody has it"})
		f.checkBooks()
		for i, k := range keys {
			kind := cache.KindHit
			if i < 2 {
				kind = cache.KindLoad
			}
			if g := f.get(doc(k)); g.Kind != kind {
				t.Errorf("%s: kind %v, want %v", k, g.Kind, kind)
			}
		}
		f.wants(f.get(kv("1")), "v", cache.KindHit)
		f.DropTags("docs", nil)
		if s := f.Stats(); s.Entries != 6 {
			t.Errorf("%d entries", s.Entries)
		}
	})
}

// A missing key can have tags too.
func TestPurgeByTagOfAMissingKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		f.origin.set(0, func(n int, l *cache.Load) (cache.Loaded, error) {
			loaded, err := missing(n, l)
			loaded.Entry.Tags = []string{"a"}
			return loaded, err
		})
		f.wantsNothing(f.get(doc("k")), cache.KindLoad)
		f.wantsNothing(f.get(doc("k")), cache.KindHit)
		f.DropTags("docs", []string{"a"})
		f.origin.set(0, counting)
		f.wants(f.get(doc("k")), "k#2", cache.KindLoad)
	})
}

// A load that began before a purge by tag is not stored, and no later get joins it:
// nobody knows its tags yet.
func TestPurgeByTagDuringALoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t)
		f.origin.set(second, tagging(map[string][]string{"k": {"a"}}))
		before := f.crowd(3, doc("k"))
		synctest.Wait()
		f.DropTags("docs", []string{"a"})
		after := f.crowd(3, doc("k"))
		for _, gs := range before() {
			for _, g := range gs {
				f.wants(g, "k#1", g.Kind)
			}
		}
		for _, gs := range after() {
			for _, g := range gs {
				f.wants(g, "k#2", g.Kind)
			}
		}
	})
}

// A 304 may bring other tags.
func TestTagsOfAnEntryThatIsNotModified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, group(short))
		f.origin.set(0, func(n int, l *cache.Load) (cache.Loaded, error) {
			if l.Previous != nil {
				return cache.Loaded{NotModified: true, Status: 304, Tags: []string{"new"}, Freshness: cache.Unsaid}, nil
			}
			loaded, err := counting(n, l)
			loaded.Entry.OriginETag, loaded.Entry.Tags = `"v"`, []string{"old"}
			return loaded, err
		})
		f.get(doc("k"))
		pass(500 * second)
		f.wants(f.get(doc("k")), "k#1", cache.KindLoad)
		f.DropTags("docs", []string{"old"})
		f.wants(f.get(doc("k")), "k#1", cache.KindHit)
		f.DropTags("docs", []string{"new"})
		f.wants(f.get(doc("k")), "k#3", cache.KindLoad)
	})
}

// Several purges, by tag and of the group, run at the same time as puts. Each removes
// what it should of all that was there before it, and the store still adds up.
func TestSeveralPurgesAtTheSameTime(t *testing.T) {
	f := setup(t)
	f.origin.set(0, func(n int, l *cache.Load) (cache.Loaded, error) {
		loaded, err := counting(n, l)
		loaded.Entry.Tags = []string{l.Key.Key[:1]}
		return loaded, err
	})
	var all sync.WaitGroup
	for _, tag := range []string{"a", "b", "c", "d"} {
		all.Go(func() {
			for round := range 5 {
				for i := range 600 {
					f.get(doc(fmt.Sprintf("%s-%d-%d", tag, round, i)))
				}
				f.DropTags("docs", []string{tag})
				for i := range 600 {
					if c, ok := f.Copy(doc(fmt.Sprintf("%s-%d-%d", tag, round, i))); ok {
						t.Errorf("%s-%d-%d: %+v", tag, round, i, c)
					}
				}
			}
		})
	}
	all.Go(func() {
		for i := range 500 {
			f.put(doc(fmt.Sprintf("x%d", i)), "v")
			if i%100 == 0 {
				f.DropGroup("docs")
			}
		}
	})
	all.Wait()
	f.DropGroup("docs")
	if s := f.Stats(); s.Entries != 0 || s.Bytes != 0 {
		t.Errorf("%d entries of %d bytes are left", s.Entries, s.Bytes)
	}
}

// A load that began before a purge may end during it, when the purge has already gone
// through the load's part of the store. It is not stored.
func TestLoadsThatEndDuringAPurgeAreNotStored(t *testing.T) {
	const entries, loads = 20_000, 400
	for name, purge := range map[string]func(f *fixture){
		"of the group": func(f *fixture) { f.DropGroup("docs") },
		"by tag":       func(f *fixture) { f.DropTags("docs", []string{"red"}) },
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t, func(o *cache.Options) { o.MaxWaiters = 2 * loads })
			for i := range entries {
				f.get(doc(fmt.Sprint("stored", i)))
			}
			gates := make(map[string]chan struct{}, loads)
			for i := range loads {
				gates[fmt.Sprint("loading", i)] = make(chan struct{})
			}
			f.origin.set(0, func(n int, l *cache.Load) (cache.Loaded, error) {
				<-gates[l.Key.Key]
				loaded, err := counting(n, l)
				loaded.Entry.Tags = []string{"red"}
				return loaded, err
			})
			var readers sync.WaitGroup
			for key := range gates {
				readers.Go(func() { f.get(doc(key)) })
			}
			for f.origin.total() < entries+loads {
				runtime.Gosched()
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				purge(f)
			}()
			for _, gate := range gates {
				close(gate)
				runtime.Gosched()
			}
			<-done
			readers.Wait()
			stored := 0
			for key := range gates {
				if _, ok := f.Copy(doc(key)); ok {
					stored++
				}
			}
			if stored > 0 {
				t.Errorf("%d of %d values from before the purge are stored", stored, loads)
			}
		})
	}
}
