package client

func init() { firstTurn = func() int { return 0 } }

// BeginAt makes new clients begin at turn n, until the caller calls the
// returned function.
func BeginAt(n int) func() {
	before := firstTurn
	firstTurn = func() int { return n }
	return func() { firstTurn = before }
}
