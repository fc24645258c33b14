package peers_test

import (
	"testing"

	"kring/membership"
	"kring/peers"
)

func TestSeveralMembersNeedADial(t *testing.T) {
	o := peers.Options{Self: membership.Member{ID: "n0"}, Config: membership.DefaultConfig()}
	o.Config.Peers = []string{"n0=http://h0:1", "n1=http://h1:1"}
	if _, err := peers.New(o); err == nil || err.Error() != "peers: no Dial" {
		t.Errorf("got %v", err)
	}
}

func TestANodeAloneIsReady(t *testing.T) {
	p, err := peers.New(peers.Options{Self: membership.Member{ID: "n0"}, Config: membership.DefaultConfig()})
	if err != nil {
		t.Fatal(err)
	}
	if ok, reason := p.Ready(); ok || reason != "not started" {
		t.Errorf("before the start: %v, %q", ok, reason)
	}
	p.Start(still{})
	if len(p.Others()) != 0 || p.Self() != "n0" || p.View().Ring.Get("k") != "n0" {
		t.Errorf("%s has others: %v", p.Self(), p.Others())
	}
	if ok, reason := p.Ready(); !ok {
		t.Error(reason)
	}
	for range 2 {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}
