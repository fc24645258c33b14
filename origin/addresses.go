package origin

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"time"
)

// nextAddress is how long one address of a name is tried alone. Then the next
// is tried beside it. (RFC 8305 advises 250 ms, package net takes 300.)
const nextAddress = 300 * time.Millisecond

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// spread makes a dialFunc for names with several addresses. A net.Dialer
// prefers the first address, and resolvers tend to put the same one first, so
// all connections would go there. spread begins each connection with a random
// address, and goes on with the others if that one refuses or is silent.
func spread(lookup func(ctx context.Context, host string) ([]string, error), dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		addresses, err := lookup(ctx, host)
		if err != nil {
			return nil, err
		}
		for i := range addresses {
			addresses[i] = net.JoinHostPort(addresses[i], port)
		}
		switch len(addresses) {
		case 0:
			return nil, fmt.Errorf("lookup %s: no address", host)
		case 1:
			return dial(ctx, network, addresses[0])
		}
		rand.Shuffle(len(addresses), func(i, j int) { addresses[i], addresses[j] = addresses[j], addresses[i] })
		return dialAny(ctx, network, addresses, dial)
	}
}

// dialAny returns the first connection to one of the addresses, or the errors
// of all.
func dialAny(ctx context.Context, network string, addresses []string, dial dialFunc) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	type result struct {
		conn net.Conn
		err  error
	}
	results := make(chan result)
	begun, ended := 0, 0
	begin := func() {
		if begun == len(addresses) {
			return
		}
		address := addresses[begun]
		begun++
		go func() {
			conn, err := dial(ctx, network, address)
			results <- result{conn, err}
		}()
	}
	// The other attempts are cancelled and waited for.
	defer func() {
		cancel()
		for ; ended < begun; ended++ {
			if r := <-results; r.conn != nil {
				r.conn.Close()
			}
		}
	}()
	next := time.NewTicker(nextAddress)
	defer next.Stop()
	var failed error
	begin()
	for ended < begun {
		select {
		case r := <-results:
			ended++
			switch {
			case r.err == nil:
				return r.conn, nil
			case failed == nil:
				failed = r.err
			default:
				failed = fmt.Errorf("%w; %w", failed, r.err)
			}
			begin()
			next.Reset(nextAddress)
		case <-next.C:
			begin()
		}
	}
	return nil, failed
}
