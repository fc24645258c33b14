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

// Group is the name of the group that all contestants serve, and Prefix what
// comes before the key in the paths of its values.
const (
	Group  = "docs"
	Prefix = "/v1/cache/" + Group + "/"
)

// Options are what a server is told.
type Options struct {
	Kind   string // see Kinds
	Listen string // host:port
	// Peers are host:port of all nodes, the server's own address included.
	Peers []string
	// Origin is the URL that values are loaded from: Origin + key.
	Origin   string
	MaxBytes int64
	// ValueBytes is the least length of a value, for the origin: see ValueSize.
	ValueBytes int
}

// server is what a builder makes.
type server struct {
	*http.Server
	// listener wraps what the server listens on; nil: not at all.
	listener func(net.Listener) net.Listener
	stop     func() error // called at the end; may be nil
}

// bare is a server with nothing but a handler: no time-outs, no limits.
func bare(h http.HandlerFunc, stop func() error) *server {
	return &server{Server: &http.Server{Handler: h}, stop: stop}
}

// builders make each kind of server.
var builders = map[string]func(Options) (*server, error){
	"origin":             newOrigin,
	"net/http":           newNetHTTP,
	"gin":                newGin,
	"kring-http1-peers":  newHTTP1Node,
	"groupcache":         newTunedGroupcache,
	"groupcache-default": newDefaultGroupcache,
}

// Kinds are the servers that there are.
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
	served := make(chan error, 1)
	go func() { served <- s.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	err = s.Close()
	return errors.Join(err, ignoreClosed(<-served))
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// number is the place of the server's own address among its peers', from 1.
func (o *Options) number() (int, error) {
	i := slices.Index(o.Peers, o.Listen)
	if i < 0 {
		return 0, fmt.Errorf("%s is not among the peers %q", o.Listen, o.Peers)
	}
	return i + 1, nil
}

func nodeName(number int) string { return fmt.Sprintf("kring-%d", number) }

// budget is the memory for values.
func (o *Options) budget() int64 { return cmp.Or(o.MaxBytes, 64<<20) }
