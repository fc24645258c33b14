package link

// Caller makes one call and takes its answer. It embeds Call. The reader of the link
// calls Progress, Head, Answered and Discard.
type Caller interface {
	call() *Call
	// AppendCall appends the body of the call. It is called under a lock.
	AppendCall(b []byte) []byte
	// Bulk is a value that follows the body in chunks, or nil.
	Bulk() []byte
	// Progress takes what the other node says of a call that takes long.
	Progress(says []byte) error
	// Head takes the body of the answer, and says how long the value is that follows
	// it in chunks; 0: none follows.
	Head(body []byte) (bulk int, err error)
	// Answered says that the answer is whole. If it is not waited for any more, bulk
	// may be nil.
	Answered(bulk []byte, waited bool)
	// Discard says that the bulk of the answer will not arrive, or is thrown away as
	// it arrives. It may be called more than once, and before Head.
	Discard()
	// Failed says that the link has left the call with err. It is not called after
	// the Caller's own Leave or HandOver.
	Failed(err error)
}

// Call is one call on a link, until its final answer or the link's end. Its zero value
// is ready for Outgoing.Begin.
type Call struct {
	link   *Outgoing
	caller Caller
	id     uint64
	done   chan struct{}
	err    error // there when done is closed
	// arriving is the value that follows the answer.
	arriving assembly

	// Guarded by Outgoing.mu:
	left  bool // nobody waits for its answer on this link
	waits bool // it is known to take long, and has no slot
}

func (c *Call) call() *Call       { return c }
func (c *Call) requestID() uint64 { return c.id }
func (c *Call) bulk() []byte      { return c.caller.Bulk() }
func (c *Call) written(bool)      {} // a call that was not written ends with the link

func (c *Call) appendTo(b []byte) []byte {
	start := len(b)
	b = c.link.w.stamp(b, frameCall, c.id)
	return endFrame(c.caller.AppendCall(b), start, 0)
}

// Done is closed when the call has been answered, or ended without an answer.
func (c *Call) Done() <-chan struct{} { return c.done }

// Err says why there is no answer. It may be called when Done is closed.
func (c *Call) Err() error { return c.err }

// Waited reports whether the answer is still waited for.
func (c *Call) Waited() bool {
	_, waited := c.link.find(c.id)
	return waited
}

// Leave ends the waiting with err. False: it has ended already. The call stays on the
// link until its final answer, which the Caller still gets.
func (c *Call) Leave(err error) bool {
	l := c.link
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls[c.id] != c || c.left {
		return false
	}
	l.leaveLocked(c, err)
	return true
}

func (l *Outgoing) leaveLocked(c *Call, err error) {
	c.left, c.err = true, err
	l.waiting--
	close(c.done)
}

// HandOver ends the waiting on this link, but does not close Done: Release does.
// False: the waiting has ended already.
func (c *Call) HandOver() bool {
	l := c.link
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls[c.id] != c || c.left {
		return false
	}
	c.left = true
	l.waiting--
	return true
}

// Release ends a call that was handed over.
func (c *Call) Release(err error) {
	c.err = err
	close(c.done)
}

// Cancel tells the other node that the answer is not waited for. The node may answer
// all the same.
func (c *Call) Cancel() { c.link.w.order(frameCancel, c.id) }
