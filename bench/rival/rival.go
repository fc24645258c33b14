package rival

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"
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

// builders make the handler of each kind of server. What it returns besides is
// called at the end.
var builders = map[string]func(Options) (http.Handler, func() error, error){
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
	handler, stop, err := build(o)
	if err != nil {
		return fmt.Errorf("serve %s: %w", o.Kind, err)
	}
	defer func() { err = errors.Join(err, stop()) }()
	listener, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return fmt.Errorf("serve %s: %w", o.Kind, err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	err = server.Close()
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

// nothing is what there is to do at the end of a server that has only a handler.
func nothing() error { return nil }

// budget is the memory for values.
func (o *Options) budget() int64 { return cmp.Or(o.MaxBytes, 64<<20) }
