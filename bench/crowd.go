//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// crowd is what came of many clients that asked at once.
type crowd struct {
	latencies []float64 // milliseconds, in order
	statuses  map[int]int
	// waited is how many answers say that they were waited for (Cache-Status,
	// which Kring sends).
	waited int
}

func (c *crowd) percentile(p int) float64 {
	if len(c.latencies) == 0 {
		return 0
	}
	return c.latencies[(len(c.latencies)*p+99)/100-1]
}

// askAtOnce has so many clients, each connected already, ask for one path at
// the same moment.
func askAtOnce(ctx context.Context, addr, path string, clients int) (*crowd, error) {
	var dialer net.Dialer
	conns := make([]net.Conn, 0, clients)
	defer func() {
		for _, c := range conns {
			_ = c.Close() // it has served
		}
	}()
	for range clients {
		c, err := dialer.DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		conns = append(conns, c)
		if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			return nil, err
		}
	}
	request := fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, addr)
	c := &crowd{statuses: map[int]int{}}
	errs := make([]error, clients)
	var mu sync.Mutex // guards c
	var ready, done sync.WaitGroup
	ready.Add(clients)
	start := make(chan struct{})
	for i, conn := range conns {
		done.Go(func() {
			ready.Done()
			<-start
			begun := time.Now()
			resp, err := exchange(conn, request)
			if err != nil {
				errs[i] = err
				return
			}
			took := time.Since(begun)
			status := resp.Header.Get("Cache-Status")
			mu.Lock()
			defer mu.Unlock()
			c.latencies = append(c.latencies, float64(took)/float64(time.Millisecond))
			c.statuses[resp.StatusCode]++
			if strings.Contains(status, "fwd=") {
				c.waited++
			}
		})
	}
	ready.Wait()
	close(start)
	done.Wait()
	slices.Sort(c.latencies)
	return c, errors.Join(errs...)
}

// exchange sends a request and reads its answer to the end.
func exchange(conn net.Conn, request []byte) (*http.Response, error) {
	if _, err := conn.Write(request); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp, errors.Join(err, resp.Body.Close())
}
