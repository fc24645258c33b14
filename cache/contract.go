package cache

import (
	"context"
	"sync/atomic"
	"time"
)

// Op is the operation of a Request.
type Op uint8

const (
	OpGet Op = iota + 1
	OpPut
	OpDelete
)

// Request is one operation on one key, as a client or another node asks it.
type Request struct {
	Op  Op
	Key Key

	// OnlyIfCached: a get that must not start a load.
	OnlyIfCached bool

	// Value, ContentType, ContentEncoding and TTL are those of a put. TTL 0: the group's.
	Value           []byte
	ContentType     string
	ContentEncoding string
	TTL             time.Duration
	// IfMatch and IfNoneMatch are the entity tags (quoted, or "*") of a
	// conditional write; empty means unconditional.
	IfMatch     []string
	IfNoneMatch []string
	// ID is a write's random id: the same through every retry of that write.
	ID uint64

	// Waiting is told when a get begins to wait for a load. It may be nil.
	Waiting Waiting
}

// Waiting is told of one get that waits for a load, by the cache of the node that
// acts for the key. What it is told crosses the link to the node that asked.
type Waiting interface {
	// Loading says that the get waits for a load, and whether the get started it.
	// No two loads have the same number, not even on two nodes. A write marks the
	// loads of its key, and a get that begins later is never told of a marked one.
	//
	// The get that started a load is told before the gets that join it. An error
	// refuses the get a place among those that wait, and the get ends with it.
	//
	// Loading must not block, and must not call the Cache. It may be called again for
	// another load, when the first node has failed. It may be called late, when the
	// get has ended.
	Loading(load uint64, starter bool) error
}

// Kind is how a get was answered. It is the column of the books that counts the get.
type Kind uint8

const (
	KindNone    Kind = iota
	KindHit          // from a fresh entry here, negative ones and "nothing was PUT" included
	_                // for hot copies, which do not exist yet: kinds cross the link as numbers
	KindStale        // from an entry past its TTL
	KindJoined       // by a load that it did not start
	KindLoad         // by the load that it started
	KindPeer         // by another node
	KindRefused      // without a value and without a load
)

var kindNames = [...]string{
	KindNone: "none", KindHit: "hit", KindStale: "stale",
	KindJoined: "joined", KindLoad: "load", KindPeer: "peer", KindRefused: "refused",
}

func (k Kind) String() string { return kindNames[k] }

// Answer is the outcome of a request.
type Answer struct {
	// Entry is the value of a get. An Entry that is Negative is a 404.
	Entry *Entry
	Kind  Kind
	// Node is the id of the node that answered from its store or its origin. If it is
	// another node, OwnerKind is how that node answered; else it equals Kind.
	Node      string
	OwnerKind Kind
	// StandIn says that Node answered in place of the key's owner.
	StandIn bool
	// Status is the origin's status when a load took place (200, 304, 404, …).
	Status int
	// Stored says that the value was stored.
	Stored bool
	// Created says that a put replaced no value.
	Created bool
	// StaleError says that a stale value was served because the origin failed.
	StaleError bool
}

// Result is an Answer or the error in its place.
type Result struct {
	Answer
	Err error
}

// RequestIDKey is the key under which the context of a get carries the id of the
// client's request, a string.
type RequestIDKey struct{}

// Load is one load of a key, as its Loader gets it.
type Load struct {
	Key Key
	// Previous is the entry to revalidate, or nil.
	Previous *Entry
	// RequestID is the id of the client's request that started the load, for logs. A
	// refresh has none.
	RequestID string
	// Sent is how many requests reached an origin. The Loader counts them, also for a
	// load that fails or panics, because the books are made from it.
	Sent atomic.Int32
}

// Loaded is the outcome of a load that the origin answered.
type Loaded struct {
	// Entry has value, types, validators, tags and Negative set. It is nil when
	// NotModified. The cache sets its times, from Freshness and Asked.
	Entry       *Entry
	NotModified bool
	// When the entry is not modified, those of the following that are set replace the
	// entry's own (RFC 9111 §3.2).
	Tags         []string
	ContentType  string
	OriginETag   string
	LastModified string

	Status    int
	Endpoint  string // the one that was asked, also if the load failed there
	Freshness Freshness
	// Asked is when the request was sent that was answered. The time that the answer
	// took is part of the value's age. Zero: now.
	Asked time.Time
}

// Freshness is what an origin's headers say of how long its answer is fresh
// (RFC 9111, RFC 5861). A negative duration means that the origin did not say: see
// Unsaid.
type Freshness struct {
	TTL                  time.Duration
	StaleWhileRevalidate time.Duration
	StaleIfError         time.Duration
	Age                  time.Duration // how old the answer already was; 0 if the origin did not say
	NoStore              bool
	NoCache              bool // must be revalidated before each use: as a TTL of 0
	MustRevalidate       bool // must not be served stale
}

// Loader asks the origin for a key. It must be safe for concurrent use. Its errors are
// this package's. Load's context has the load's deadline and belongs to no caller. Load
// must return soon after its context has ended: the next load of the key begins only
// then.
type Loader interface {
	Load(ctx context.Context, l *Load) (Loaded, error)
}

// LoaderFunc makes a function a Loader.
type LoaderFunc func(ctx context.Context, l *Load) (Loaded, error)

func (f LoaderFunc) Load(ctx context.Context, l *Load) (Loaded, error) { return f(ctx, l) }

// Copy describes one node's copy of a key to a person.
type Copy struct {
	Node     string    `json:"node"`
	Role     string    `json:"role"`    // primary, replica, hot or negative
	State    string    `json:"state"`   // fresh, stale, stale-if-error (served only if the origin fails) or expired
	Age      float64   `json:"age"`     // seconds
	TTL      float64   `json:"ttl"`     // seconds for which it is still fresh; negative when stale; 0 with Forever
	Forever  bool      `json:"forever"` // it never expires
	Version  string    `json:"version"`
	LastLoad *LastLoad `json:"-"`
}

// LastLoad is the newest load of a key that a node remembers.
type LastLoad struct {
	// Endpoint is the one that was asked, also if it failed. "": not known.
	Endpoint string    `json:"endpoint"`
	At       time.Time `json:"at"`
	Millis   float64   `json:"ms"`
	// Status is the origin's. 304 means that the load renewed the stored value. 0
	// means that the load failed: Code says how.
	Status int  `json:"status"`
	Code   Code `json:"code,omitempty"`
	// Waited is how many gets the load answered.
	Waited int `json:"waited"`
}
