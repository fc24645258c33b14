package cache

// Stats are a node's books since its start, with the names of GET /v1/stats. While
// nothing is in flight, gets = hits + hot_hits + stale + joined + peer + loads +
// refused, and served is the sum of the served_*.
type Stats struct {
	Node string `json:"node"`
	Reads

	Served        uint64 `json:"served"`
	ServedHits    uint64 `json:"served_hits"`
	ServedStale   uint64 `json:"served_stale"`
	ServedJoined  uint64 `json:"served_joined"`
	ServedLoads   uint64 `json:"served_loads"`
	ServedRefused uint64 `json:"served_refused"`

	// Abandoned is 0 here. The peers count it, and it is added where stats are shown.
	Abandoned int64 `json:"abandoned"`

	StandIn uint64 `json:"stand_in"`
	CutOff  uint64 `json:"cut_off"` // 0: no majority chooses the members yet
	Takes   uint64 `json:"takes"`   // 0: no keys are handed over yet

	Bytes     int64  `json:"bytes"`
	MaxBytes  int64  `json:"max_bytes"`
	Entries   int64  `json:"entries"`
	Evictions uint64 `json:"evictions"`

	// NegativeBytes and NegativeMaxBytes are the share of missing keys in Bytes and
	// MaxBytes.
	NegativeBytes    int64 `json:"negative_bytes"`
	NegativeMaxBytes int64 `json:"negative_max_bytes"`

	Groups []GroupStats `json:"groups"`
}

// Reads are the columns in which clients' gets are counted, and the refreshes.
type Reads struct {
	Gets    uint64 `json:"gets"`
	Hits    uint64 `json:"hits"`     // negative ones included
	HotHits uint64 `json:"hot_hits"` // 0: there are no hot copies yet
	Stale   uint64 `json:"stale"`
	Joined  uint64 `json:"joined"`
	Peer    uint64 `json:"peer"`
	Loads   uint64 `json:"loads"`
	Refused uint64 `json:"refused"`

	// Negative is how many of Hits said that there is no such key.
	Negative uint64 `json:"negative"`
	// Refreshes are the requests that origins saw and that count neither in Loads nor
	// in ServedLoads: background refreshes, second tries, loads whose starter had
	// left.
	Refreshes uint64 `json:"refreshes"`
	// Revalidated is how many loads of any kind the origin answered with a 304.
	Revalidated uint64 `json:"revalidated"`
}

// GroupStats are the books of one group. Not all of Stats is counted by group.
type GroupStats struct {
	Name string `json:"name"`
	Reads
	Bytes   int64 `json:"bytes"`
	Entries int64 `json:"entries"`
}
