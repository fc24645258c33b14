package peers

import (
	"context"

	"kring/cache"
	"kring/link"
)

// Inbound is one call of another member.
type Inbound struct {
	From string // the member that calls
	View uint64 // the number of the caller's view
	Request

	maxValue int // the longest value that the caller takes, in bytes
	frame    int // bytes that are left for entries in the frame of the answer
}

// Fits reports whether an entry has room in the answer to an OpGetMany, and takes
// that room.
func (in *Inbound) Fits(e *cache.Entry) bool {
	size := sizeOf(e)
	if len(e.Value) > min(in.maxValue, link.ChunkLen) || size > in.frame {
		return false
	}
	in.frame -= size
	return true
}

// Changes reports whether the call changes what is stored.
func (in *Inbound) Changes() bool {
	return in.Op != cache.OpGet && in.Op != OpGetMany && in.Op != OpCopy
}

// Handler answers the calls of other members.
type Handler interface {
	// Stored makes the reply to a call that can be answered without waiting, and
	// reports whether it did. The reader of a link calls it. It must answer every
	// OpGetMany.
	Stored(in *Inbound, reply *Reply) bool
	// Answer makes the reply to any other call. Its context ends with the caller's
	// deadline, when the caller cancels the call, and with the link.
	Answer(ctx context.Context, in *Inbound) Reply
	// Delivered says whether the answer to a get, which this node has counted, was
	// written to the link. Else it is lost.
	Delivered(kind cache.Kind, ok bool)
}
