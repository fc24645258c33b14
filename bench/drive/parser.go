package drive

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// maxHead bounds an answer's head, and a chunk's line, in bytes.
const maxHead = 64 << 10

// The states of a parser.
type state uint8

const (
	inHead state = iota
	inBody
	inChunkLine
	inChunk
	inChunkEnd
	inTrailer
	complete
)

// parser reads answers one after the other, in pieces of any size.
type parser struct {
	keep bool // keep the body

	state     state
	line      []byte // an unfinished header or line
	status    int
	remaining int // bytes of the body or chunk that are missing
	length    int // bytes of the body so far
	closes    bool
	body      []byte
}

// reset prepares the parser for the next answer.
func (p *parser) reset() {
	*p = parser{keep: p.keep, line: p.line[:0], body: p.body[:0]}
}

// feed takes the next bytes, and reports whether the answer is complete. Bytes
// after its end are an error: no further request was sent.
func (p *parser) feed(b []byte) (done bool, err error) {
	for len(b) > 0 {
		switch p.state {
		case inHead:
			var head []byte
			if head, b, err = p.until(b, "\r\n\r\n"); err != nil || head == nil {
				return false, err
			}
			err = p.head(head)
		case inBody, inChunk:
			n := min(len(b), p.remaining)
			p.take(b[:n])
			b = b[n:]
			if p.remaining -= n; p.remaining > 0 {
				break
			}
			if p.state == inBody {
				p.state = complete
			} else {
				p.state = inChunkEnd
			}
		case inChunkLine:
			var line []byte
			if line, b, err = p.until(b, "\r\n"); err != nil || line == nil {
				return false, err
			}
			err = p.chunk(line)
		case inChunkEnd:
			var line []byte
			if line, b, err = p.until(b, "\r\n"); err != nil || line == nil {
				return false, err
			}
			p.state = inChunkLine
			if len(line) > 0 {
				err = errors.New("a chunk is longer than it says")
			}
		case inTrailer:
			var line []byte
			if line, b, err = p.until(b, "\r\n"); err != nil || line == nil {
				return false, err
			}
			if len(line) == 0 {
				p.state = complete
			}
		case complete:
			err = errors.New("bytes after the end of the answer")
		}
		if err != nil {
			return false, err
		}
	}
	return p.state == complete, nil
}

// until splits b at end. It copies nothing if the part before end is in one
// piece. before is nil if end has not arrived yet.
func (p *parser) until(b []byte, end string) (before, rest []byte, err error) {
	if len(p.line) == 0 {
		if i := bytes.Index(b, []byte(end)); i >= 0 {
			return b[:i:i], b[i+len(end):], nil
		}
	}
	old := len(p.line)
	p.line = append(p.line, b...)
	if i := bytes.Index(p.line, []byte(end)); i >= 0 {
		before, rest = p.line[:i:i], b[i+len(end)-old:]
		p.line = p.line[:0]
		return before, rest, nil
	}
	if len(p.line) > maxHead {
		return nil, nil, fmt.Errorf("no end of a header or line within %d bytes", maxHead)
	}
	return nil, nil, nil
}

// take counts a part of the body, and keeps it if keep is set.
func (p *parser) take(b []byte) {
	p.length += len(b)
	if p.keep {
		p.body = append(p.body, b...)
	}
}

// head reads the status line and the fields that say where the body ends.
func (p *parser) head(head []byte) error {
	first, fields, _ := bytes.Cut(head, []byte("\r\n"))
	if len(first) < 12 || string(first[:9]) != "HTTP/1.1 " {
		return fmt.Errorf("%.40q is no status line of HTTP/1.1", first)
	}
	var err error
	if p.status, err = strconv.Atoi(string(first[9:12])); err != nil {
		return fmt.Errorf("%.40q has no status", first)
	}
	length, chunked := -1, false
	for len(fields) > 0 {
		var field []byte
		field, fields, _ = bytes.Cut(fields, []byte("\r\n"))
		name, value, _ := bytes.Cut(field, []byte{':'})
		switch len(name) { // the length alone rules out most fields
		case len("Content-Length"):
			if bytes.EqualFold(name, []byte("Content-Length")) {
				if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil || length < 0 {
					return fmt.Errorf("Content-Length is %q", value)
				}
			}
		case len("Transfer-Encoding"):
			if bytes.EqualFold(name, []byte("Transfer-Encoding")) {
				chunked = bytes.EqualFold(bytes.TrimSpace(value), []byte("chunked"))
			}
		case len("Connection"):
			if bytes.EqualFold(name, []byte("Connection")) {
				p.closes = bytes.EqualFold(bytes.TrimSpace(value), []byte("close"))
			}
		}
	}
	switch {
	case chunked:
		p.state = inChunkLine
	case length > 0:
		p.state, p.remaining = inBody, length
	case length == 0 || p.status == 204 || p.status == 304:
		p.state = complete
	default:
		return errors.New("the answer has neither Content-Length nor chunks")
	}
	return nil
}

func (p *parser) chunk(line []byte) error {
	digits, _, _ := bytes.Cut(line, []byte{';'})
	n, err := strconv.ParseUint(string(bytes.TrimSpace(digits)), 16, 31)
	if err != nil {
		return fmt.Errorf("%.40q is no length of a chunk", line)
	}
	p.state, p.remaining = inChunk, int(n)
	if n == 0 {
		p.state = inTrailer
	}
	return nil
}
