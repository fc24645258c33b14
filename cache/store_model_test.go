package cache

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// check compares the accounting of the store with its items.
func (s *store) check(t interface{ Fatalf(string, ...any) }) {
	for _, c := range []*class{&s.values, &s.absent} {
		for i := range c.shards {
			c.shards[i].check(t)
		}
	}
}

// held is how many items the two segments have.
func (s *shard) held() int {
	n := s.probation.Len() + s.protected.Len()
	if s.tail != nil {
		n++
	}
	return n
}

func (s *shard) check(t interface{ Fatalf(string, ...any) }) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var bytes, entries, sheltered int64
	for group, r := range s.groups {
		var inGroup usage
		var last *item
		for it := r.oldest; it != nil; last, it = it, it.newer {
			key := it.key.(Key)
			if it.old != last || key.Group != group || it.size != size(key, it.entry) {
				t.Fatalf("list of %q: item of %v with size %d, old %p", group, key, it.size, it.old)
			}
			inGroup.bytes += it.size
			inGroup.entries++
			if it.protected {
				sheltered += it.size
			}
		}
		if last != r.newest || inGroup != r.usage {
			t.Fatalf("list of %q holds %+v, and counts %+v", group, inGroup, r.usage)
		}
		bytes, entries = bytes+inGroup.bytes, entries+inGroup.entries
	}
	if bytes != s.bytes || entries != s.entries || int(entries) != s.held() {
		t.Fatalf("%d bytes in %d items, counted %d in %d, the lru has %d", bytes, entries, s.bytes, s.entries, s.held())
	}
	if s.sheltered != sheltered || (s.sheltered == 0) != (s.held() == s.probation.Len()) {
		t.Fatalf("%d of %d bytes are protected, in %d items", s.sheltered, s.bytes, s.held()-s.probation.Len())
	}
	if s.bytes > s.budget {
		t.Fatalf("%d bytes of %d", s.bytes, s.budget)
	}
}

// model is the simplest LRU. The newest entry is last.
type model struct {
	budget int64
	items  []modelItem
}

type modelItem struct {
	key   Key
	entry *Entry
}

func (m *model) bytes() (n int64) {
	for _, it := range m.items {
		n += size(it.key, it.entry)
	}
	return n
}

func (m *model) remove(key Key) {
	m.items = slices.DeleteFunc(m.items, func(it modelItem) bool { return it.key == key })
}

func (m *model) get(key Key) *Entry {
	i := slices.IndexFunc(m.items, func(it modelItem) bool { return it.key == key })
	if i < 0 {
		return nil
	}
	it := m.items[i]
	m.items = append(slices.Delete(m.items, i, i+1), it)
	return it.entry
}

func (m *model) put(key Key, e *Entry) {
	m.remove(key)
	if size(key, e) > m.budget {
		return
	}
	m.items = append(m.items, modelItem{key, e})
	for m.bytes() > m.budget {
		m.items = m.items[1:]
	}
}

// storeAgainstModel runs a store of one shard a class beside its model.
func storeAgainstModel(t *rapid.T) {
	cfg := Config{MaxBytes: 10000, MaxValueBytes: 3000, MaxKeyBytes: 16, NegativeShare: 0.3}
	s := newStore(cfg)
	values, absent := &model{budget: 7000}, &model{budget: 3000}
	keys := rapid.Custom(func(t *rapid.T) Key {
		return Key{
			Group: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "group"),
			Key:   rapid.SampledFrom([]string{"1", "2", "3", "4", "5", "6", "7", "8", "9"}).Draw(t, "key"),
		}
	})
	// The parts are drawn one by one, so that a failure does not print whole values.
	entry := func(t *rapid.T) *Entry {
		if rapid.Bool().Draw(t, "negative") {
			return &Entry{Negative: true}
		}
		e := &Entry{Value: make([]byte, rapid.IntRange(0, 8000).Draw(t, "bytes"))}
		if rapid.Bool().Draw(t, "tagged") {
			e.Tags = []string{"tag", "another tag"}
		}
		return e
	}
	t.Repeat(map[string]func(*rapid.T){
		"get": func(t *rapid.T) {
			key := keys.Draw(t, "k")
			want := values.get(key)
			if want == nil {
				want = absent.get(key)
			}
			if got := s.get(s.hash(key.Key), key); got != want {
				t.Fatalf("get %v: %p, want %p", key, got, want)
			}
		},
		"put": func(t *rapid.T) {
			key, e := keys.Draw(t, "k"), entry(t)
			to, other := values, absent
			if e.Negative {
				to, other = absent, values
			}
			other.remove(key)
			to.put(key, e)
			fits := size(key, e) <= to.budget
			if s.fits(s.hash(key.Key), key, e) != fits || s.put(s.hash(key.Key), key, e) != fits {
				t.Fatalf("put %v of %d bytes into %d", key, size(key, e), to.budget)
			}
		},
		"remove": func(t *rapid.T) {
			key := keys.Draw(t, "k")
			values.remove(key)
			absent.remove(key)
			s.remove(s.hash(key.Key), key)
		},
		"remove another entry": func(t *rapid.T) {
			key := keys.Draw(t, "k")
			negative := rapid.Bool().Draw(t, "negative")
			s.removeEntry(s.hash(key.Key), key, &Entry{Negative: negative})
			if negative { // the look at it has made it the newest
				absent.get(key)
			} else {
				values.get(key)
			}
		},
		"drop group": func(t *rapid.T) {
			group := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "group")
			for _, m := range []*model{values, absent} {
				m.items = slices.DeleteFunc(m.items, func(it modelItem) bool { return it.key.Group == group })
			}
			s.dropGroup(group)
		},
		"": func(t *rapid.T) {
			s.check(t)
			for class, m := range map[*class]*model{&s.values: values, &s.absent: absent} {
				if class.shards[0].bytes != m.bytes() || class.shards[0].entries != int64(len(m.items)) {
					t.Fatalf("%d bytes in %d entries, want %d in %d", class.shards[0].bytes, class.shards[0].entries, m.bytes(), len(m.items))
				}
			}
		},
	})
}

func TestStoreAgainstModel(t *testing.T) { rapid.Check(t, storeAgainstModel) }

func FuzzStore(f *testing.F) { f.Fuzz(rapid.MakeFuzz(storeAgainstModel)) }

// A scan between two rounds of a working set that fits does not reload it.
func TestStoreKeepsAWorkingSetThroughAScan(t *testing.T) {
	s := newStore(Config{MaxBytes: 180 * 1024, MaxValueBytes: 1 << 20, MaxKeyBytes: 1024})
	put := func(name string) {
		k := Key{"g", name}
		s.put(s.hash(name), k, &Entry{Value: make([]byte, 512)})
	}
	for i := range 60 {
		put(fmt.Sprint("hot", i))
	}
	for round := range 50 {
		for i := range 100 {
			put(fmt.Sprint("cold", round, "-", i))
		}
		for i := range 60 {
			k := Key{"g", fmt.Sprint("hot", i)}
			if s.get(s.hash(k.Key), k) == nil {
				t.Fatalf("round %d: %v is gone", round, k)
			}
		}
	}
	s.check(t)
}

func TestShardsShareTheBudgetExactly(t *testing.T) {
	for _, row := range []struct {
		budget, largest int64
		shards          int
	}{
		{0, 1, 1}, {7, 1 << 20, 1}, {127 << 20, 1 << 20, 1}, {128 << 20, 1 << 20, 2}, {1 << 30, 1 << 20, 16}, {1<<40 + 3, 1 << 20, 64},
	} {
		c := newClass(row.budget, row.largest)
		var sum int64
		for i := range c.shards {
			sum += c.shards[i].budget
		}
		if sum != row.budget || len(c.shards) != row.shards {
			t.Errorf("budget %d: %d in %d shards, want %d shards", row.budget, sum, len(c.shards), row.shards)
		}
	}
}

// A budget of 7 bytes holds no entry.
func TestAStoreThatIsTooSmallForAnyEntry(t *testing.T) {
	s := newStore(Config{MaxBytes: 7, MaxValueBytes: 1 << 20, MaxKeyBytes: 1024, NegativeShare: 0.5})
	k := Key{"g", "k"}
	if s.put(s.hash("k"), k, &Entry{}) || s.put(s.hash("k"), k, &Entry{Negative: true}) || s.get(s.hash("k"), k) != nil {
		t.Error("stored")
	}
	s.check(t)
}

// The accounting is close to the memory that entries take: the heap of many entries is at
// most a tenth more, and at least four fifths.
func TestTheAccountingMatchesTheHeap(t *testing.T) {
	for i, bytes := range []int{16, 16, 300, 3000} {
		asked := i > 0 // a get of each entry makes all of them protected
		s := newStore(Config{MaxBytes: 4 << 30, MaxValueBytes: 1 << 20, MaxKeyBytes: 1024})
		before := heap()
		for i := range 40000 {
			k := Key{"g", fmt.Sprintf("user:%08d", i)}
			v := make([]byte, bytes)
			s.put(s.hash(k.Key), k, &Entry{Value: v, ETag: ContentETag(v, ""), Born: time.Now()})
		}
		if asked {
			for i := range 40000 {
				name := fmt.Sprintf("user:%08d", i)
				s.get(s.hash(name), Key{"g", name})
			}
		}
		grown := float64(heap() - before)
		charged := float64(s.usage(map[string]usage{}).bytes)
		if ratio := grown / charged; ratio > 1.1 || ratio < 0.8 {
			t.Errorf("values of %d bytes: the heap grew by %.0f bytes, %.0f were charged", bytes, grown, charged)
		}
		runtime.KeepAlive(s)
	}
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestStoreUnderConcurrentUse(t *testing.T) {
	s := newStore(Config{MaxBytes: 1 << 20, MaxValueBytes: 1 << 10, MaxKeyBytes: 64, NegativeShare: 0.1})
	var writers [16]sync.Mutex // one writer a key, as the lock of its flights ensures
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 5000 {
				n := (i*7 + w*13) % 4000
				k := Key{[]string{"a", "b"}[n%2], fmt.Sprint(n)}
				h := s.hash(k.Key)
				writers[n%16].Lock()
				switch i % 5 {
				case 0:
					s.remove(h, k)
				case 1:
					s.put(h, k, &Entry{Negative: true})
				default:
					s.put(h, k, &Entry{Value: make([]byte, n%1024)})
				}
				writers[n%16].Unlock()
				s.get(h, k)
				if i%1000 == 0 {
					s.dropGroup("a")
					s.check(t)
				}
			}
		})
	}
	wg.Wait()
	s.check(t)
	if u := s.usage(map[string]usage{}); u.entries == 0 || u.evictions == 0 {
		t.Errorf("%+v", u)
	}
}
