package httpapi

import (
	"kring/cache"
	"kring/httpserver"
)

const (
	// minValueBodies and minListBodies are the least that the bodies of values,
	// and those of lists of keys or tags, may take together while they are read.
	minValueBodies = 32 << 20
	minListBodies  = 16 << 20
	// uncounted is how many bytes an answer may have that is not charged to the
	// budget of answers: it takes no more memory than its connection.
	uncounted = 4 << 10
	// reportBytes is the budget of answers to operators. It is their own, because
	// operators ask most when clients use up theirs.
	reportBytes = 16 << 20
	// metricsBytes is about what an answer of /metrics takes.
	metricsBytes = 256 << 10
)

// Responses is a node's budget for values and encoded answers on their way to
// clients, the values included that are still arriving from other nodes. It is
// the Room of package peers.
type Responses = httpserver.Answers[cache.Entry]

// answerRoom is one answer's part of Responses.
type answerRoom = httpserver.Answer[cache.Entry]

// NewResponses makes a budget of so many bytes.
func NewResponses(bytes int64) *Responses {
	full := cache.ErrOverloaded.With("too much is on its way to clients that read slowly")
	return httpserver.NewAnswers(bytes, full, func(e *cache.Entry) int64 { return int64(len(e.Value)) })
}

func newBodies(bytes int64) *httpserver.Budget {
	return httpserver.NewBodies(bytes, cache.ErrOverloaded.With("too many bodies are being read"))
}

// maxBatchBody bounds a batch's body: each byte of a key may be escaped as
// \u00XX in JSON, and each key has quotes, a comma and some white space.
func maxBatchBody(keys, keyBytes int) int64 { return 1<<10 + int64(keys)*int64(6*keyBytes+16) }
