package loadgen

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
)

// maxLine bounds a line of a file of keys, in bytes.
const maxLine = 64 << 10

// trace streams a file of keys to all workers in the file's order, so that keys
// that are close in the file are read close together. It holds only a short
// queue in memory.
type trace struct {
	queue chan traceLine
	wait  sync.WaitGroup
	stop  context.CancelFunc

	mu  sync.Mutex // guards err
	err error
}

type traceLine struct {
	key  string
	size int
}

// openTrace begins to read a file. again makes it start over at the end.
func openTrace(ctx context.Context, name string, again bool) (*trace, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("--keys: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	t := &trace{queue: make(chan traceLine, 1024), stop: stop}
	t.wait.Go(func() {
		defer close(t.queue)
		err := t.stream(ctx, f, again)
		if e := f.Close(); err == nil {
			err = e
		}
		if err != nil && ctx.Err() == nil {
			t.mu.Lock()
			t.err = fmt.Errorf("read the keys from %s: %w", name, err)
			t.mu.Unlock()
		}
	})
	return t, nil
}

func (t *trace) next() (string, int, bool) {
	l, ok := <-t.queue
	return l.key, l.size, ok
}

// close ends the reading, and returns its error.
func (t *trace) close() error {
	t.stop()
	t.wait.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

func (t *trace) stream(ctx context.Context, f *os.File, again bool) error {
	for {
		var r io.Reader = f
		if strings.HasSuffix(f.Name(), ".gz") {
			z, err := gzip.NewReader(bufio.NewReaderSize(f, maxLine))
			if err != nil {
				return err
			}
			r = z
		}
		n, err := t.lines(ctx, r)
		if err != nil {
			return err
		}
		if n == 0 {
			return errors.New("the file has no keys")
		}
		if !again {
			return nil
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
}

// lines queues the keys of one pass and counts them.
func (t *trace) lines(ctx context.Context, r io.Reader) (n int64, err error) {
	scan := bufio.NewScanner(r)
	scan.Buffer(make([]byte, 0, 4096), maxLine)
	// bufio.ScanLines would drop a CR at the end of a key as part of the line
	// break.
	scan.Split(splitLines)
	number := 1
	for ; scan.Scan(); number++ {
		if len(scan.Bytes()) == 0 {
			continue
		}
		l, err := parseLine(scan.Bytes())
		if err != nil {
			return n, fmt.Errorf("line %d: %w", number, err)
		}
		select {
		case t.queue <- l:
			n++
		case <-ctx.Done():
			return n, ctx.Err()
		}
	}
	if err := scan.Err(); !errors.Is(err, bufio.ErrTooLong) {
		return n, err
	}
	return n, fmt.Errorf("line %d: longer than %d bytes", number, maxLine)
}

func splitLines(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}

// parseLine reads a key, optionally followed by a tab and a size.
func parseLine(line []byte) (traceLine, error) {
	key, rest, found := bytes.Cut(line, []byte{'\t'})
	if len(key) == 0 {
		return traceLine{}, errors.New("the key is empty")
	}
	l := traceLine{key: string(key), size: -1}
	if found {
		size, err := strconv.ParseInt(string(bytes.TrimSpace(rest)), 10, 31)
		if err != nil || size < 0 {
			return traceLine{}, fmt.Errorf("%q is not a size in bytes", rest)
		}
		l.size = int(size)
	}
	return l, nil
}
