package membership_test

import (
	"strings"
	"testing"

	"kring/membership"
)

// options are the settings of one node.
type options struct {
	Self   membership.Member
	Config membership.Config
}

func TestAnImpossibleListIsOneClearLine(t *testing.T) {
	const a, b = "n0=http://h0:1", "n1=http://h1:1"
	for name, test := range map[string]struct {
		tune func(o *options)
		want string // parts of the message
	}{
		"self missing":      {func(o *options) { o.Self.ID = "other" }, `cluster.peers: "n0=http://h0:1, n1=http://h1:1": this node's id other is missing; set node.id (--node-id) to the one that this node is`},
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
		"weight too large":  {list(a + ";weight=1001"), `"weight=1001" must be weight=N, N from 1 to 1000`},
		"own weight":        {func(o *options) { o.Self.Weight = 1001 }, `cluster.weight: 1001: must be 1 to 1000`},
		"unknown option":    {list(a + ";size=1"), `"size=1" must be weight=N`},
		"another weight":    {func(o *options) { o.Config.Weight = 2 }, `cluster.weight: 2: cluster.peers has n0 with weight 1`},
		"weight zero":       {func(o *options) { o.Config.Weight = 0 }, `cluster.weight: 0`},
		"no virtual nodes":  {func(o *options) { o.Config.VirtualNodes = 0 }, `cluster.virtual_nodes: 0`},
		"unknown hash":      {func(o *options) { o.Config.Hash = "md5" }, `cluster.hash: "md5"`},
		"unknown discovery": {func(o *options) { o.Config.Discovery = "dns" }, `cluster.discovery: "dns"`},
		"no name":           {func(o *options) { o.Config.Name = "" }, `cluster.name: ""`},
		"long name":         {func(o *options) { o.Config.Name = strings.Repeat("n", 300) }, `cluster.name: "nnn`},
		"bad own id":        {func(o *options) { o.Self.ID = "a b" }, `node.id: "a b"`},
	} {
		t.Run(name, func(t *testing.T) {
			o := options{Self: membership.Member{ID: "n0"}, Config: membership.DefaultConfig()}
			o.Config.Peers = []string{a, b}
			test.tune(&o)
			_, err := membership.OwnView(o.Config, o.Self)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

func list(items ...string) func(o *options) {
	return func(o *options) { o.Config.Peers = items }
}

func TestWeightsOfTheListShapeTheRing(t *testing.T) {
	o := options{Self: membership.Member{ID: "n0"}, Config: membership.DefaultConfig()}
	o.Config.Peers = []string{"n1=http://h1:1;weight=3", "n0=http://H0:1/"}
	v, err := membership.OwnView(o.Config, o.Self)
	if err != nil {
		t.Fatal(err)
	}
	if v.Members[0].ID != "n0" || v.Members[0].URL != "http://h0:1" {
		t.Errorf("first member %+v", v.Members[0])
	}
	if share := v.Share("n1"); share < 0.7 || share > 0.8 {
		t.Errorf("weight 3 of 4 has a share of %v", share)
	}
}

func TestTheLargestWeight(t *testing.T) {
	cfg := membership.DefaultConfig()
	cfg.VirtualNodes = 1
	cfg.Peers = []string{"n0=http://h0:65535;weight=1000"}
	v, err := membership.OwnView(cfg, membership.Member{ID: "n0", Weight: 1000})
	if err != nil || v.Members[0].Weight != 1000 {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestTheSameListInAnyOrderIsTheSameView(t *testing.T) {
	view := func(self string, tune func(c *membership.Config)) *membership.View {
		o := options{Self: membership.Member{ID: self}, Config: membership.DefaultConfig()}
		o.Config.Peers = []string{"n0=http://h0:1", "n1=http://h1:1"}
		tune(&o.Config)
		v, err := membership.OwnView(o.Config, o.Self)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	same := view("n0", func(*membership.Config) {})
	if v := view("n1", func(c *membership.Config) { c.Peers[0], c.Peers[1] = c.Peers[1], c.Peers[0] }); v.ID != same.ID || v.Fingerprint != same.Fingerprint {
		t.Errorf("%s and %s", v.Fingerprint, same.Fingerprint)
	}
	for name, tune := range map[string]func(c *membership.Config){
		"name":          func(c *membership.Config) { c.Name = "other" },
		"virtual nodes": func(c *membership.Config) { c.VirtualNodes = 100 },
		"hash":          func(c *membership.Config) { c.Hash = "crc32-plain" },
		"members":       func(c *membership.Config) { c.Peers = c.Peers[:1] },
		"address":       func(c *membership.Config) { c.Peers[1] = "n1=http://h2:1" },
	} {
		if v := view("n0", tune); v.Fingerprint == same.Fingerprint {
			t.Errorf("%s changed and the fingerprint did not", name)
		}
	}
}

func TestAListWithoutANodeIsTheViewOfAll(t *testing.T) {
	cfg := membership.DefaultConfig()
	cfg.Peers = []string{"n1=http://h1:1;weight=2", "n0=http://h0:1"}
	shared, err := membership.StaticView(cfg)
	if err != nil {
		t.Fatal(err)
	}
	own, err := membership.OwnView(cfg, membership.Member{ID: "n0"})
	if err != nil {
		t.Fatal(err)
	}
	if shared.Fingerprint != own.Fingerprint || shared.Share("n1") != own.Share("n1") || shared.Number != 1 {
		t.Errorf("shared %+v, own %+v", shared, own)
	}
	cfg.Peers[0] = "n1"
	if _, err := membership.StaticView(cfg); err == nil || !strings.Contains(err.Error(), `cluster.peers: "n1": must be id=`) {
		t.Errorf("got %v", err)
	}
	cfg.Name = ""
	if _, err := membership.StaticView(cfg); err == nil {
		t.Error("a cluster without a name has a view")
	}
}
