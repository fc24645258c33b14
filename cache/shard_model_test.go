package cache

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// segmented is the simplest segmented LRU. The newest items are last.
type segmented struct {
	budget               int64
	floor                int
	uses                 int
	probation, protected []segmentedItem
}

type segmentedItem struct {
	modelItem
	used int
}

func total(items []segmentedItem) (n int64) {
	for _, it := range items {
		n += size(it.key, it.entry)
	}
	return n
}

// find makes a key the newest of its segment.
func (m *segmented) find(key Key) *[]segmentedItem {
	for _, in := range []*[]segmentedItem{&m.protected, &m.probation} {
		if i := slices.IndexFunc(*in, func(it segmentedItem) bool { return it.key == key }); i >= 0 {
			it := (*in)[i]
			*in = append(slices.Delete(*in, i, i+1), it)
			return in
		}
	}
	return nil
}

func (m *segmented) use(key Key) *[]segmentedItem {
	in := m.find(key)
	if in != nil {
		m.uses++
		newest(in).used = m.uses
	}
	return in
}

func newest(in *[]segmentedItem) *segmentedItem { return &(*in)[len(*in)-1] }

func (m *segmented) entries() int { return len(m.probation) + len(m.protected) }

func (m *segmented) get(key Key) *Entry {
	in := m.use(key)
	if in == nil {
		return nil
	}
	it := *newest(in)
	if in == &m.probation && 4*m.entries() > 5*m.floor {
		m.probation = m.probation[:len(m.probation)-1]
		m.protected = append(m.protected, it)
		if float64(total(m.protected)) > protectedShare*float64(m.budget) {
			m.probation = append(m.probation, m.protected[0])
			m.protected = m.protected[1:]
		}
	}
	return it.entry
}

func (m *segmented) remove(key Key) {
	if in := m.find(key); in != nil {
		*in = (*in)[:len(*in)-1]
	}
}

func (m *segmented) put(key Key, e *Entry) {
	if size(key, e) > m.budget {
		m.remove(key)
		return
	}
	in := m.use(key)
	if in == nil {
		m.evict(size(key, e), nil)
		m.uses++
		m.probation = append(m.probation, segmentedItem{modelItem{key, e}, m.uses})
		return
	}
	m.evict(size(key, e)-size(key, newest(in).entry), in)
	newest(in).entry = e
}

// evict spares the newest item of one segment.
func (m *segmented) evict(n int64, spare *[]segmentedItem) {
	may := func(in *[]segmentedItem) bool { return len(*in) > 1 || len(*in) == 1 && in != spare }
	for total(m.probation)+total(m.protected)+n > m.budget {
		victims := &m.probation
		if may(&m.protected) {
			idle := m.uses - m.protected[0].used
			if !may(victims) || idle > longIdle*m.entries() || len(m.probation) < m.floor && idle > m.floor {
				victims = &m.protected
			}
		}
		*victims = (*victims)[1:]
	}
}

func shardAgainstModel(t *rapid.T) {
	const budget = 12000
	c := newClass(budget, 3000)
	s := &c.shards[0]
	s.floor = rapid.IntRange(0, 6).Draw(t, "floor")
	m := &segmented{budget: budget, floor: s.floor}
	keys := rapid.Custom(func(t *rapid.T) Key {
		return Key{Group: "g", Key: fmt.Sprint(rapid.IntRange(0, 30).Draw(t, "key"))}
	})
	t.Repeat(map[string]func(*rapid.T){
		"get": func(t *rapid.T) {
			key := keys.Draw(t, "k")
			if got, want := s.get(key), m.get(key); got != want {
				t.Fatalf("get %v: %p, want %p", key, got, want)
			}
		},
		"put": func(t *rapid.T) {
			key := keys.Draw(t, "k")
			e := &Entry{Value: make([]byte, rapid.SampledFrom([]int{0, 8, 100, 1000, 5000, 20000}).Draw(t, "bytes"))}
			m.put(key, e)
			s.put(key, e)
		},
		"remove": func(t *rapid.T) {
			key := keys.Draw(t, "k")
			m.remove(key)
			s.remove(key, nil)
		},
		"": func(t *rapid.T) {
			s.check(t)
			if s.probation.Len() != len(m.probation) || s.held() != m.entries() || s.sheltered != total(m.protected) {
				t.Fatalf("%d of %d items on probation, %d bytes not, want %d of %d and %d", s.probation.Len(), s.held(), s.sheltered,
					len(m.probation), m.entries(), total(m.protected))
			}
		},
	})
}

func TestShardAgainstModel(t *testing.T) { rapid.Check(t, shardAgainstModel) }

func FuzzShard(f *testing.F) { f.Fuzz(rapid.MakeFuzz(shardAgainstModel)) }

// scanned is a store of some 4000 entries.
func scanned() (s *store, put func(name string), has func(name string) bool) {
	s = newStore(Config{MaxBytes: 4 << 20, MaxValueBytes: 1 << 20, MaxKeyBytes: 1024})
	put = func(name string) {
		s.put(s.hash(name), Key{"g", name}, &Entry{Value: make([]byte, 512)})
	}
	has = func(name string) bool { return s.get(s.hash(name), Key{"g", name}) != nil }
	return s, put, has
}

// A scan of ten times the cache, with one get of each key, evicts almost nothing of the
// hot set.
func TestScanLeavesTheHotSet(t *testing.T) {
	s, put, has := scanned()
	const hot = 2500
	for i := range hot {
		put(fmt.Sprint("hot", i))
	}
	for range 2 {
		for i := range hot {
			if !has(fmt.Sprint("hot", i)) {
				t.Fatalf("hot%d is gone before the scan", i)
			}
		}
	}
	for i := range 40_000 {
		if name := fmt.Sprint("scan", i); !has(name) {
			put(name)
		}
	}
	left := 0
	for i := range hot {
		if has(fmt.Sprint("hot", i)) {
			left++
		}
	}
	if left < hot*95/100 {
		t.Errorf("%d of %d hot keys are left", left, hot)
	}
	s.check(t)
}

// An old hot set gives way to a new one: a working set that fits is stored after a few
// rounds of gets, whatever was protected before.
func TestAnotherWorkingSetTakesOver(t *testing.T) {
	s, put, has := scanned()
	ask := func(set string) (hits int) {
		for i := range 2500 {
			if name := fmt.Sprint(set, i); has(name) {
				hits++
			} else {
				put(name)
			}
		}
		return hits
	}
	for range 5 {
		ask("old")
	}
	rounds := 1
	for ask("new") < 2500 {
		if rounds++; rounds > 3*longIdle {
			t.Fatal("the new set is not all there after many rounds")
		}
	}
	s.check(t)
}

// A store full of protected entries still has room for 60 keys that are hit again after
// every 100 others.
func TestRoomOnProbation(t *testing.T) {
	s, put, has := scanned()
	for range 3 {
		for i := range 5000 {
			if name := fmt.Sprint("old", i%3000); !has(name) {
				put(name)
			}
		}
	}
	for i := range 60 {
		put(fmt.Sprint("again", i))
	}
	for round := range 50 {
		for i := range 100 {
			put(fmt.Sprint("cold", round, "-", i))
		}
		for i := range 60 {
			if !has(fmt.Sprint("again", i)) {
				t.Fatalf("round %d: again%d is gone", round, i)
			}
		}
	}
	s.check(t)
}
