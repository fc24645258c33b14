package peers

import (
	"testing"
	"time"
)

func TestACircuitThatRelapsesStaysOpenLonger(t *testing.T) {
	now := time.Unix(1000, 0)
	c := circuit{since: now}
	if c.close(now) || !c.hadContact() {
		t.Fatal("the first contact closes nothing, and is remembered")
	}
	now = now.Add(2 * relapseWithin)
	if opened, changed := c.open(now, 1, "silent", false); !opened || !changed || c.cool != 0 || c.outage != 1 {
		t.Fatalf("opened %v, changed %v, %+v", opened, changed, c)
	}
	if !c.close(now) {
		t.Fatal("a circuit that did not relapse closes with the first pong")
	}
	last := time.Duration(0)
	for i := range 12 {
		now = now.Add(time.Millisecond)
		if opened, _ := c.open(now, uint64(i+2), "silent", false); !opened {
			t.Fatal("it is not open")
		}
		if c.cool < last/2 || c.cool > maxCool || c.cool < 3*minCool/4 {
			t.Errorf("relapse %d cools for %v after %v", i+1, c.cool, last)
		}
		last = c.cool
		if c.close(now.Add(c.cool - 1)) {
			t.Fatalf("relapse %d: closed before it has cooled off", i+1)
		}
		if now = now.Add(c.cool); !c.close(now) {
			t.Fatalf("relapse %d: not closed after it has cooled off", i+1)
		}
	}
	if last < maxCool*3/4 {
		t.Errorf("the twelfth relapse cools for %v only", last)
	}
	now = now.Add(relapseWithin)
	if c.open(now, 20, "silent", false); c.cool != 0 || c.relapses != 0 {
		t.Errorf("a minute later it is no relapse: %+v", c)
	}
	if c.outages != 14 {
		t.Errorf("%d outages", c.outages)
	}
}

func TestAnOpenCircuitChangesOnlyItsReason(t *testing.T) {
	now := time.Unix(1000, 0)
	c := circuit{since: now}
	c.open(now, 7, "silent", false)
	if opened, changed := c.open(now.Add(time.Second), 8, "silent", false); opened || changed {
		t.Error("nothing is new")
	}
	opened, changed := c.open(now.Add(time.Second), 8, "nothing listens at its address", true)
	if opened || !changed || !c.gone || c.outage != 7 || c.outages != 1 || !c.since.Equal(now) {
		t.Errorf("opened %v, changed %v, %+v", opened, changed, c)
	}
	if !c.close(now.Add(time.Second)) || c.isOpen || c.gone || c.reason != "" || c.outage != 0 || !c.since.Equal(now.Add(time.Second)) {
		t.Errorf("closed: %+v", c)
	}
}
