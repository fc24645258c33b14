package peers

import (
	"context"
	"fmt"

	"kring/cache"
)

// Room is the memory that large values (of more than one chunk) in other nodes'
// answers may take here. A value is charged from before it arrives until the caller's
// context ends.
type Room interface {
	// Take charges a value of so many bytes, unless there is no room at once.
	// The entry is a name for the value, which it does not have yet.
	Take(e *cache.Entry, bytes int) bool
	// Wait is Take for a caller that can wait for a moment. Its error is one
	// for the client.
	Wait(ctx context.Context, e *cache.Entry, bytes int) error
	// Give ends what Take or Wait began.
	Give(e *cache.Entry)
}

// boundless is the Room of a node that has no limit.
type boundless struct{}

func (boundless) Take(*cache.Entry, int) bool                   { return true }
func (boundless) Wait(context.Context, *cache.Entry, int) error { return nil }
func (boundless) Give(*cache.Entry)                             {}

// noRoomError fails a call whose answer has a value that there is no room for.
type noRoomError struct{ bytes int }

func (e *noRoomError) Error() string { return fmt.Sprintf("no room for a value of %d bytes", e.bytes) }
