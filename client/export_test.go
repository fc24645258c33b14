package client

func init() { firstTurn = func() int { return 0 } }

// BeginAt makes clients' turns begin at n until the function that it returns is
// called.
func BeginAt(n int) func() {
	before := firstTurn
	firstTurn = func() int { return n }
	return func() { firstTurn = before }
}
