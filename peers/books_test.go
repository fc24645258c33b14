package peers

import "testing"

// A member may not know yet of a link's end when it says what it sent, or die
// before it knows: what was lost by then does not come back.
func TestWhatWasLostStaysLost(t *testing.T) {
	pe := &peer{}
	lost := func(what string, want int64) {
		t.Helper()
		if got := pe.lostAnswers(); got != want {
			t.Errorf("%s: %d lost, want %d", what, got, want)
		}
	}
	pe.begin(1)
	pe.end(3)
	pe.settle(0)
	lost("it does not know of the first link's end", 0)
	pe.settle(5)
	lost("two were lost on it", 2)
	pe.end(4)
	pe.settle(5)
	lost("it does not know of the second link's end", 2)
	pe.settle(10)
	lost("one was lost on that", 3)
	pe.end(7)
	pe.begin(2)
	lost("another process, of which nothing is known", 3)
	pe.settle(0)
	pe.end(1)
	pe.settle(2)
	lost("one was lost by it", 4)
	pe.begin(2)
	lost("it is the same process", 4)
}
