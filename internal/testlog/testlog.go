// Package testlog keeps what is written while a test reads it.
package testlog

import (
	"bytes"
	"strings"
	"sync"
)

// Buffer may be written and read by any number of goroutines.
type Buffer struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// Count is how often part was written.
func (b *Buffer) Count(part string) int { return strings.Count(b.String(), part) }
