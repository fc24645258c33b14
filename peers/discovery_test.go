package peers_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"kring/peers"
)

func noDial(context.Context, string) (net.Conn, error) { return nil, errors.New("no network") }

func TestAnImpossibleListIsOneClearLine(t *testing.T) {
	const a, b = "n0=http://h0:1", "n1=http://h1:1"
	for name, test := range map[string]struct {
		tune func(o *peers.Options)
		want string // all of it must be in the message
	}{
		"self missing":      {func(o *peers.Options) { o.Self.ID = "other" }, `cluster.peers: "n0=http://h0:1, n1=http://h1:1": this node's id other is missing; set node.id (--node-id) to the one that this node is`},
		"duplicate id":      {list(a, "n0=http://h2:1"), `cluster.peers: "n0=http://h2:1": the id n0 is there twice`},
		"duplicate address": {list(a, "n1=http://h0:1"), `cluster.peers: "n1=http://h0:1": n0 has this address already`},
		"no id":             {list("http://h0:1"), `cluster.peers: "http://h0:1": must be id=`},
		"empty id":          {list("=http://h0:1"), `the id ""`},
		"no port":           {list("n0=http://h0"), `bad URL "http://h0"`},
		"port zero":         {list("n0=http://h0:0"), `bad URL "http://h0:0"`},
		"not http":          {list("n0=ftp://h0:1"), `bad URL "ftp://h0:1"`},
		"a path":            {list("n0=http://h0:1/x"), `bad URL "http://h0:1/x"`},
		"not a URL":         {list("n0=:"), `cluster.peers: "n0=:": bad URL`},
		"bad weight":        {list(a + ";weight=0"), `"weight=0" must be weight=N`},
		"unknown option":    {list(a + ";size=1"), `"size=1" must be weight=N`},
		"another weight":    {func(o *peers.Options) { o.Config.Weight = 2 }, `cluster.weight: 2: cluster.peers has "n0=http://h0:1", weight 1`},
		"weight zero":       {func(o *peers.Options) { o.Config.Weight = 0 }, `cluster.weight: 0`},
		"no virtual nodes":  {func(o *peers.Options) { o.Config.VirtualNodes = 0 }, `cluster.virtual_nodes: 0`},
		"unknown hash":      {func(o *peers.Options) { o.Config.Hash = "md5" }, `cluster.hash: "md5"`},
		"unknown discovery": {func(o *peers.Options) { o.Config.Discovery = "dns" }, `cluster.discovery: "dns"`},
		"no name":           {func(o *peers.Options) { o.Config.Name = "" }, `cluster.name: ""`},
		"long name":         {func(o *peers.Options) { o.Config.Name = strings.Repeat("n", 300) }, `cluster.name: "nnn`},
		"bad own id":        {func(o *peers.Options) { o.Self.ID = "a b" }, `node.id: "a b"`},
		"no dial":           {func(o *peers.Options) { o.Dial = nil }, `no Dial`},
	} {
		t.Run(name, func(t *testing.T) {
			o := peers.Options{Self: peers.Member{ID: "n0"}, Config: peers.DefaultConfig(), Dial: noDial}
			o.Config.Peers = []string{a, b}
			test.tune(&o)
			_, err := peers.New(o)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

func list(items ...string) func(o *peers.Options) {
	return func(o *peers.Options) { o.Config.Peers = items }
}

func TestWeightsOfTheListShapeTheRing(t *testing.T) {
	o := peers.Options{Self: peers.Member{ID: "n0"}, Config: peers.DefaultConfig(), Dial: noDial}
	o.Config.Peers = []string{"n1=http://h1:1;weight=3", "n0=http://H0:1/"}
	p, err := peers.New(o)
	if err != nil {
		t.Fatal(err)
	}
	v := p.View()
	if v.Members[0].ID != "n0" || v.Members[0].URL != "http://h0:1" || v.Members[0].Incarnation == 0 {
		t.Errorf("first member %+v", v.Members[0])
	}
	if share := v.Members[1].Share; share < 0.7 || share > 0.8 {
		t.Errorf("weight 3 of 4 has a share of %v", share)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func TestTheSameListInAnyOrderIsTheSameView(t *testing.T) {
	view := func(self string, tune func(c *peers.Config)) *peers.View {
		o := peers.Options{Self: peers.Member{ID: self}, Config: peers.DefaultConfig(), Dial: noDial}
		o.Config.Peers = []string{"n0=http://h0:1", "n1=http://h1:1"}
		tune(&o.Config)
		p, err := peers.New(o)
		if err != nil {
			t.Fatal(err)
		}
		return p.View()
	}
	same := view("n0", func(*peers.Config) {})
	if v := view("n1", func(c *peers.Config) { c.Peers[0], c.Peers[1] = c.Peers[1], c.Peers[0] }); v.ID != same.ID || v.Fingerprint != same.Fingerprint {
		t.Errorf("%s and %s", v.Fingerprint, same.Fingerprint)
	}
	for name, tune := range map[string]func(c *peers.Config){
		"name":          func(c *peers.Config) { c.Name = "other" },
		"virtual nodes": func(c *peers.Config) { c.VirtualNodes = 100 },
		"hash":          func(c *peers.Config) { c.Hash = "crc32-plain" },
		"members":       func(c *peers.Config) { c.Peers = c.Peers[:1] },
		"address":       func(c *peers.Config) { c.Peers[1] = "n1=http://h2:1" },
	} {
		if v := view("n0", tune); v.Fingerprint == same.Fingerprint {
			t.Errorf("%s changed and the fingerprint did not", name)
		}
	}
}

func TestANodeAloneActsForEverything(t *testing.T) {
	p, err := peers.New(peers.Options{Self: peers.Member{ID: "n0"}, Config: peers.DefaultConfig()})
	if err != nil {
		t.Fatal(err)
	}
	if ok, reason := p.Ready(); ok || reason != "not started" {
		t.Errorf("before the start: %v, %q", ok, reason)
	}
	p.Start(still{})
	if term, self := p.Acts("k"); !self || term != 0 {
		t.Errorf("term %d, self %v", term, self)
	}
	if ok, reason := p.Ready(); !ok {
		t.Error(reason)
	}
	if left := p.Purge(t.Context(), "g", nil); len(left) != 0 {
		t.Errorf("unconfirmed by %v", left)
	}
	for range 2 {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}
