package rival

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
)

// Group is the group that all contestants serve. Prefix is in front of the key
// in the paths of its values.
const (
	Group  = "docs"
	Prefix = "/v1/cache/" + Group + "/"
)

// Options are the settings of a server.
type Options struct {
	Kind   string // see Kinds
	Listen string // host:port
	// Peers are host:port of all nodes, including this one.
	Peers []string
	// Origin is the URL in front of the keys: a value is loaded from Origin +
	// key.
	Origin   string
	MaxBytes int64
	// ValueBytes is the origin's least length of a value: see ValueSize.
	ValueBytes int
}

// server is the result of a builder.
type server struct {
	*http.Server
	// listener wraps the server's listener; nil: no wrapper.
	listener func(net.Listener) net.Listener
	stop     func() error // called at the end; nil: nothing
}

// bare is a server with only a handler: no time-outs, no limits.
func bare(h http.HandlerFunc, stop func() error) *server {
	return &server{Server: &http.Server{Handler: h}, stop: stop}
}

// builders make the servers by kind.
var builders = map[string]func(Options) (*server, error){
	"origin":             newOrigin,
	"net/http":           newNetHTTP,
	"gin":                newGin,
	"kring-http1-peers":  newHTTP1Node,
	"groupcache":         newTunedGroupcache,
	"groupcache-default": newDefaultGroupcache,
}

// Kinds are the kinds of servers.
func Kinds() []string {
	kinds := make([]string, 0, len(builders))
	for k := range builders {
		kinds = append(kinds, k)
	}
	slices.Sort(kinds)
	return kinds
}

// Serve runs one server until the context ends.
func Serve(ctx context.Context, o Options) (err error) {
	build := builders[o.Kind]
	if build == nil {
		return fmt.Errorf("serve %q: must be one of %q", o.Kind, Kinds())
	}
	s, err := build(o)
	if err != nil {
		return fmt.Errorf("serve %s: %w", o.Kind, err)
	}
	if s.stop != nil {
		defer func() { err = errors.Join(err, s.stop()) }()
	}
	listener, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return fmt.Errorf("serve %s: %w", o.Kind, err)
	}
	if s.listener != nil {
		listener = s.listener(listener)
	}
	serveErr := make(chan error, 1)
	go func() { serveErr <- s.Serve(listener) }()
	select {
	case err := <-serveErr:
		return err
	case <-ctx.Done():
	}
	err = s.Close()
	return errors.Join(err, ignoreClosed(<-serveErr))
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// number is the place of the server's own address among its peers, from 1.
func (o *Options) number() (int, error) {
	i := slices.Index(o.Peers, o.Listen)
	if i < 0 {
		return 0, fmt.Errorf("%s is not among the peers %q", o.Listen, o.Peers)
	}
	return i + 1, nil
}

func nodeName(number int) string { return fmt.Sprintf("kring-%d", number) }

// budget is the memory for values, in bytes.
func (o *Options) budget() int64 { return cmp.Or(o.MaxBytes, 64<<20) }
