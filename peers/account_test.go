package peers

import "testing"

// A member may not know yet of a link's end when it says what it delivered, or
// die before it knows. What was lost by then stays lost.
func TestLostAnswersStayLost(t *testing.T) {
	var a account
	lost := func(what string, want int64) {
		t.Helper()
		if got := a.lost(); got != want {
			t.Errorf("%s: %d lost, want %d", what, got, want)
		}
	}
	a.answers(1)
	a.receive(3)
	a.told(0)
	lost("the member does not know of the first link's end", 0)
	a.told(5)
	lost("two were lost on the first link", 2)
	a.receive(4)
	a.told(5)
	lost("the member does not know of the second link's end", 2)
	a.told(10)
	lost("one was lost on the second link", 3)
	a.receive(7)
	a.answers(2)
	lost("another process has said nothing yet", 3)
	a.told(0)
	a.receive(1)
	a.told(2)
	lost("one was lost by the second process", 4)
	a.answers(2)
	lost("the same process answers again", 4)
	a.unclaimed.Add(2)
	lost("two came too late", 6)
}

// A process of the member is told what was delivered to itself, not to the
// process before it.
func TestEachProcessIsToldItsOwnDeliveries(t *testing.T) {
	var a account
	told := func(what string, process, want uint64) {
		t.Helper()
		if got := a.deliveredTo(process); got != want {
			t.Errorf("%s: process %d is told %d, want %d", what, process, got, want)
		}
	}
	a.asked(1)
	told("its link is up", 1, 0)
	a.deliver(1, 3)
	a.asked(1)
	a.deliver(1, 2)
	told("two links have ended", 1, 5)
	a.asked(2)
	told("a link of another process", 2, 0)
	told("the process before", 1, 0)
	a.deliver(1, 7)
	told("a link of the process before has ended", 2, 0)
	a.deliver(2, 1)
	told("a link of the newest process has ended", 2, 1)
}

// The two nodes agree on what was lost, whether the answering node notices a
// link's end before the next link's first pong or after it.
func TestAccountsOfTwoNodesBalance(t *testing.T) {
	var asking, answering account
	asking.answers(1)
	answering.asked(9)
	for link := range uint64(10) {
		delivered, received := 100+link, 100-link
		asking.receive(received) // before it connects again
		if link%2 == 0 {
			asking.told(answering.deliveredTo(9))
		}
		answering.deliver(9, delivered)
		if link%2 == 1 {
			asking.told(answering.deliveredTo(9))
		}
	}
	asking.told(answering.deliveredTo(9))
	if got := asking.lost(); got != 90 {
		t.Errorf("%d lost, want 90", got)
	}
}
