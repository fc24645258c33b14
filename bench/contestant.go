//go:build linux

package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"kring/bench/rival"
)

// The contestants' configurations, with comments.
//
//go:embed kring.yaml.tmpl nginx.conf.tmpl varnish.vcl.tmpl
var templates embed.FS

// memory is each contestant's memory for values on each node.
const memory = 64 << 20

// The contestants.
const (
	kring       = "kring"
	netHTTP     = "net/http"
	bareGin     = "gin"
	http1Peers  = "kring-http1-peers"
	groupcached = "groupcache"
	gcDefault   = "groupcache-default"
	nginx       = "nginx"
	varnish     = "varnish"
	nginxX3     = "nginx-x3"
	// kringSingle is Kring with the keys of a batch requested one by one.
	kringSingle = "kring-single"
)

// team is a running contestant: its servers and their addresses.
type team struct {
	name  string
	procs []*process
	addrs []string
}

// settings are the values for a template.
type settings struct {
	Dir, Shm   string
	Number     int // from 1
	Node       string
	Listen     string
	Owner      string   // nginx: its address as the owner
	Peers      []string // all nodes
	Origin     string   // host:port
	Path       string   // at the origin, Kring only
	Bytes      int64
	Megabytes  int64
	ValueBytes int64
	Cores      int
	Single     bool
	// Stampede makes the origin's freshness headers count.
	Stampede bool
}

// launch starts a contestant of this many nodes, and waits until it answers.
func (b *bench) launch(ctx context.Context, s *stage, name string, nodes int, origin string) (*team, error) {
	t := &team{name: name}
	var err error
	if t.addrs, err = freePorts(nodes); err != nil {
		return nil, err
	}
	owners, err := freePorts(nodes)
	if err != nil {
		return nil, err
	}
	for i, addr := range t.addrs {
		cfg := settings{
			Number: i + 1, Node: nodeName(i), Listen: addr, Owner: owners[i], Peers: t.addrs, Origin: origin, Path: rival.Prefix + "{key}",
			Bytes: memory, Megabytes: memory >> 20, ValueBytes: 1 << 20, Cores: s.cores(), Single: nodes == 1,
		}
		if name == nginxX3 {
			cfg.Peers = owners
		}
		p, err := b.launchOne(s, name, cfg)
		if err != nil {
			return nil, err
		}
		t.procs = append(t.procs, p)
	}
	for i, p := range t.procs {
		if err := p.waitFor(ctx, "http://"+t.addrs[i]+rival.Prefix+"first"); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func nodeName(i int) string { return fmt.Sprintf("kring-%d", i+1) }

func (b *bench) launchOne(s *stage, name string, cfg settings) (*process, error) {
	dir, err := s.folder(fmt.Sprintf("%s-%d", name, cfg.Number))
	if err != nil {
		return nil, err
	}
	cfg.Dir = dir
	switch name {
	case kring:
		file, err := write(cfg, "kring.yaml")
		if err != nil {
			return nil, err
		}
		return s.start(dir, name, b.kring, "serve", "--config", file)
	case nginx, nginxX3:
		if cfg.Shm, err = b.shared(s, cfg.Dir); err != nil {
			return nil, err
		}
		file, err := write(cfg, "nginx.conf")
		if err != nil {
			return nil, err
		}
		return s.start(dir, name, "nginx", "-p", dir, "-e", filepath.Join(dir, "errors"), "-c", file)
	case varnish:
		file, err := write(cfg, "varnish.vcl")
		if err != nil {
			return nil, err
		}
		return s.start(dir, name, "varnishd", "-F", "-j", "none", "-T", "none", "-n", filepath.Join(dir, "work"),
			"-a", cfg.Listen, "-f", file, "-s", fmt.Sprintf("malloc,%dm", cfg.Megabytes),
			"-p", fmt.Sprintf("thread_pools=%d", cfg.Cores))
	}
	args := []string{
		b.self, "serve", "--kind", name, "--listen", cfg.Listen, "--origin", "http://" + cfg.Origin + rival.Prefix,
		"--max-bytes", fmt.Sprint(cfg.Bytes),
	}
	if !cfg.Single {
		args = append(args, "--peers", strings.Join(cfg.Peers, ","))
	}
	return s.start(dir, name, args...)
}

// shared makes a directory in memory: nginx caches in files.
func (b *bench) shared(s *stage, dir string) (string, error) {
	shm, err := os.MkdirTemp("/dev/shm", "kring-bench-"+filepath.Base(dir)+"-")
	if err != nil {
		return "", err
	}
	b.atEnd = append(b.atEnd, func() error { return os.RemoveAll(shm) })
	return shm, nil
}

var functions = template.FuncMap{
	"inc":  func(i int) int { return i + 1 },
	"host": func(addr string) string { host, _, _ := strings.Cut(addr, ":"); return host },
	"port": func(addr string) string { _, port, _ := strings.Cut(addr, ":"); return port },
}

// write fills a template.
func write(cfg settings, name string) (string, error) {
	t, err := template.New(name+".tmpl").Option("missingkey=error").Funcs(functions).ParseFS(templates, name+".tmpl")
	if err != nil {
		return "", err
	}
	var text bytes.Buffer
	if err := t.Execute(&text, cfg); err != nil {
		return "", err
	}
	file := filepath.Join(cfg.Dir, name)
	return file, os.WriteFile(file, text.Bytes(), 0o600)
}

// launchOrigin starts the origin of all contestants. It does not affect the
// figures: all values are in memory before a measurement.
func (b *bench) launchOrigin(ctx context.Context, s *stage, valueBytes int) (string, error) {
	addrs, err := freePorts(1)
	if err != nil {
		return "", err
	}
	addr := addrs[0]
	dir, err := s.folder("origin")
	if err != nil {
		return "", err
	}
	p, err := s.start(dir, "origin", b.self, "serve", "--kind", "origin", "--listen", addr, "--value-bytes", fmt.Sprint(valueBytes))
	if err != nil {
		return "", err
	}
	return addr, p.waitFor(ctx, "http://"+addr+"/first")
}

// alive says which of a team's servers has ended.
func (t *team) alive() error {
	var errs []error
	for _, p := range t.procs {
		errs = append(errs, p.ended())
	}
	return errors.Join(errs...)
}
