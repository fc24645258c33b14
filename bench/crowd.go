//go:build linux

package main

import (
	"bufio"
	"bytes"
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

// crowd is the answers to many clients that asked at once.
type crowd struct {
	latencies []float64 // milliseconds, in order
	statuses  map[int]int
	// waited is how many answers waited for a load, by their Cache-Status,
	// which only Kring sends.
	waited int
}

func (c *crowd) percentile(p int) float64 {
	if len(c.latencies) == 0 {
		return 0
	}
	return c.latencies[(len(c.latencies)*p+99)/100-1]
}

// askAtOnce makes many clients, all connected before, request one path at the
// same moment.
func askAtOnce(ctx context.Context, addr, path string, clients int) (*crowd, error) {
	var dialer net.Dialer
	conns := make([]net.Conn, 0, clients)
	defer func() {
		for _, c := range conns {
			_ = c.Close() // no longer needed
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
	first := make([]firstBytes, clients)
	errs := make([]error, clients)
	var ready, done sync.WaitGroup
	ready.Add(clients)
	start := make(chan struct{})
	for i, conn := range conns {
		first[i].buf = make([]byte, 4<<10)
		done.Go(func() {
			ready.Done()
			<-start
			errs[i] = first[i].ask(conn, request)
		})
	}
	ready.Wait()
	close(start)
	done.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	c := &crowd{statuses: map[int]int{}}
	for i, conn := range conns {
		if err := c.add(&first[i], conn); err != nil {
			return nil, err
		}
	}
	slices.Sort(c.latencies)
	return c, nil
}

// firstBytes is the beginning of an answer. The rest is read after all clients
// have their beginning, because reading takes CPU time from the servers.
type firstBytes struct {
	buf  []byte
	took time.Duration
}

func (f *firstBytes) ask(conn net.Conn, request []byte) error {
	begun := time.Now()
	if _, err := conn.Write(request); err != nil {
		return err
	}
	n, err := conn.Read(f.buf)
	f.took, f.buf = time.Since(begun), f.buf[:n]
	return err
}

// add reads the rest of an answer.
func (c *crowd) add(f *firstBytes, conn net.Conn) error {
	resp, err := http.ReadResponse(bufio.NewReader(io.MultiReader(bytes.NewReader(f.buf), conn)), nil)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	c.latencies = append(c.latencies, float64(f.took)/float64(time.Millisecond))
	c.statuses[resp.StatusCode]++
	if strings.Contains(resp.Header.Get("Cache-Status"), "fwd=") {
		c.waited++
	}
	return nil
}
