package cache

import (
	"context"
	"sync/atomic"
	"time"
)

// Op is what a Request asks for.
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

	// Of a put: Value and ContentType, ContentEncoding; TTL 0 means the group's.
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

	// Waiting, of a get, is told when the get begins to wait for a load; nil: nobody.
	Waiting Waiting
}

// Waiting is told of one get that waits for a load, by the cache of the node that
// acts for the key. What it is told crosses the link to the node that asked.
type Waiting interface {
	// Loading says that the get waits for a load, and whether the get started it.
	// No two loads have the same number, on whatever nodes. A write marks the
	// loads of its key, and a get that begins later is never told one of those.
	//
	// The get that started a load is told before those that join it. An error
	// refuses the get a place among those that wait: the get ends with it.
	//
	// Loading must not block, nor call the Cache. It may be called again, for another
	// load, when the first node has failed; and late, when the get has ended.
	Loading(load uint64, starter bool) error
}

// Kind is how a get was answered: the column of the books it is counted in.
type Kind uint8

const (
	KindNone    Kind = iota
	KindHit          // from a fresh entry here, negative ones and "nothing was PUT" included
	_                // for hot copies, which do not exist yet: kinds cross the link as numbers
	KindStale        // from an entry past its TTL
	KindJoined       // waited for a load that somebody else started
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
	// Node is the id of the node that answered from its store or its origin;
	// it differs from this node's when Kind is KindPeer. OwnerKind is then
	// how that node answered; elsewhere it equals Kind.
	Node      string
	OwnerKind Kind
	// StandIn says that Node answered in place of the key's owner.
	StandIn bool
	// Status is the origin's status when a load took place (200, 304, 404, …).
	Status int
	// Stored says that a loaded value was kept.
	Stored bool
	// Created says that a put found nothing before it.
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

// Load is what one load of a key needs, and what it leaves behind.
type Load struct {
	Key Key
	// Previous is the entry to revalidate, or nil.
	Previous *Entry
	// RequestID is that of the client's request whose get started the load, if one
	// did: for logs.
	RequestID string
	// Sent counts the requests that reached an origin, also when the load
	// fails or panics: the books are kept from it.
	Sent atomic.Int32
}

// Loaded is the outcome of a load that the origin answered.
type Loaded struct {
	// Entry has value, types, validators, tags and Negative set; nil when
	// NotModified. Its times are set by the cache, from Freshness and Asked.
	Entry       *Entry
	NotModified bool
	// Those of these that are there replace the entry's when it is not modified
	// (RFC 9111 §3.2).
	Tags         []string
	ContentType  string
	OriginETag   string
	LastModified string

	Status    int
	Endpoint  string // set also when the load failed at it
	Freshness Freshness
	// Asked is when the request was sent that was answered. What it took counts
	// to the value's age. Zero: just now.
	Asked time.Time
}

// Freshness is what an origin's headers say of how long its answer is good
// (RFC 9111, RFC 5861). Negative durations mean that it said nothing, as in Unsaid.
type Freshness struct {
	TTL                  time.Duration
	StaleWhileRevalidate time.Duration
	StaleIfError         time.Duration
	Age                  time.Duration // how old the answer already was; 0 if unsaid
	NoStore              bool
	NoCache              bool // must be revalidated before each use: TTL 0 for our purposes
	MustRevalidate       bool // never served stale
}

// Loader asks the origin for a key. It must be safe for concurrent use. Its
// errors are this package's. Load's context carries the load's deadline and
// belongs to no caller; Load returns soon after it ends, because the next load
// of the key begins only then.
type Loader interface {
	Load(ctx context.Context, l *Load) (Loaded, error)
}

// LoaderFunc makes a function a Loader.
type LoaderFunc func(ctx context.Context, l *Load) (Loaded, error)

func (f LoaderFunc) Load(ctx context.Context, l *Load) (Loaded, error) { return f(ctx, l) }

// Copy is one node's copy of a key, for people who ask why.
type Copy struct {
	Node     string    `json:"node"`
	Role     string    `json:"role"`    // primary, replica, hot or negative
	State    string    `json:"state"`   // fresh, stale, stale-if-error (served only if the origin fails) or expired
	Age      float64   `json:"age"`     // seconds
	TTL      float64   `json:"ttl"`     // seconds left; negative when stale; 0 with Forever
	Forever  bool      `json:"forever"` // no TTL
	Version  string    `json:"version"`
	LastLoad *LastLoad `json:"-"`
}

// LastLoad is the newest load of a key that a node remembers.
type LastLoad struct {
	// Endpoint is the one that was asked, in vain or not; "" if it is not known.
	Endpoint string    `json:"endpoint"`
	At       time.Time `json:"at"`
	Millis   float64   `json:"ms"`
	// Status is the origin's: 304 says that the load renewed what was there.
	// It is 0 if the load failed, and Code says how then.
	Status int  `json:"status"`
	Code   Code `json:"code,omitempty"`
	// Waited is how many gets the one load answered.
	Waited int `json:"waited"`
}
