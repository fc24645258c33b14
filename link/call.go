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
	// Answered says that the answer is whole. Unless it is waited for, nobody has
	// waited to its end, and bulk may be nil.
	Answered(bulk []byte, waited bool)
	// Discard says that the bulk of the answer does not arrive, or is thrown away as
	// it does. It may be called more than once, and before Head.
	Discard()
	// Failed says that the link has ended the waiting with err. Calls that the
	// Caller itself has left or handed over do not fail.
	Failed(err error)
}

// Call is one call on a link, until its final answer or the link's end. Its zero
// value is for Outgoing.Begin.
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
func (c *Call) written(bool)      {} // the reader sees a link's end, too

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

// Leave ends the waiting with err. False: it has ended already. The final answer
// still comes to the Caller, unless the other node takes note of Cancel.
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

// HandOver ends the waiting, but for Done: Release closes that. False: the waiting
// has ended already.
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

// Cancel tells the other node that the answer is not waited for. It goes behind the
// call.
func (c *Call) Cancel() { c.link.w.order(frameCancel, c.id) }
