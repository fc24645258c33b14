package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"kring/httpserver"
)

const (
	// listBuffer is how much of a list is read at a time, in bytes.
	listBuffer = 4 << 10
	// itemBytes is how many bytes a text of a list takes besides its own.
	itemBytes = 32
)

// listBody reads a body that is a list of keys or tags as it arrives. Only the
// list is kept, and the budget of all lists is charged with it. A list of up to
// listBuffer bytes takes no more memory than its connection and is not charged,
// so that large lists cannot shut out a small one.
type listBody struct {
	*httpserver.Share
	r     *bufio.Reader
	ctx   context.Context //nolint:containedctx // of the one request that it is a part of
	spare int64           // bytes that were taken from the budget and are not used yet
	text  []byte          // the JSON text that is being read, so far
}

// readList begins to read a list. It waits for the first bytes.
func (a *API) readList(r *http.Request, limit int64) (*listBody, error) {
	if r.ContentLength > limit {
		return nil, errTooLarge
	}
	from, err := httpserver.BufferBody(r, listBuffer)
	if err != nil {
		return nil, err
	}
	return newListBody(r.Context(), a.lists.Share(r), from), nil
}

func newListBody(ctx context.Context, s *httpserver.Share, from *bufio.Reader) *listBody {
	return &listBody{Share: s, r: from, ctx: ctx, spare: listBuffer}
}

// keep makes room for n more bytes. It asks the budget for a few KiB at a time.
func (l *listBody) keep(n int) error {
	if l.spare -= int64(n); l.spare >= 0 {
		return nil
	}
	more := max(listBuffer, -l.spare)
	if err := l.Take(l.ctx, more); err != nil {
		return err
	}
	l.spare += more
	return nil
}

// failed is the error of a failed read: bad if the body is over.
func failed(err, bad error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF { //nolint:errorlint // the end, and nothing that wraps it
		return bad
	}
	return err
}

// full reads as many bytes as b has.
func (l *listBody) full(b []byte, bad error) error {
	if _, err := io.ReadFull(l.r, b); err != nil {
		return failed(err, bad)
	}
	return nil
}

// bytes reads n bytes. It makes room for them as they arrive.
func (l *listBody) bytes(n int64, bad error) (_ string, err error) {
	if err := l.keep(itemBytes); err != nil {
		return "", err
	}
	var b []byte
	for int64(len(b)) < n {
		have := len(b)
		if b, err = l.grown(b, int(min(n, max(listBuffer, 2*int64(have))))); err != nil {
			return "", err
		}
		if err := l.full(b[have:cap(b)], bad); err != nil {
			return "", err
		}
		b = b[:cap(b)]
	}
	if err := l.keep(len(b)); err != nil {
		return "", err
	}
	defer func() { l.spare += int64(cap(b)) }() // only the string is kept
	return string(b), nil
}

// grown is a copy of b with room for size bytes. The room of b is given back.
func (l *listBody) grown(b []byte, size int) ([]byte, error) {
	if err := l.keep(size); err != nil {
		return nil, err
	}
	bigger := make([]byte, len(b), size)
	copy(bigger, b)
	l.spare += int64(cap(b))
	return bigger, nil
}

// end makes sure that nothing follows.
func (l *listBody) end(what string) error {
	if _, err := l.r.ReadByte(); err != io.EOF { //nolint:errorlint // as above
		if err != nil {
			return err
		}
		return errBadRequest.With("something follows " + what)
	}
	return nil
}

// list reads an object of one member that is a list of texts. The member's name
// must be one of names, spelt exactly: package json would take KEYS for keys, and
// the last of two. Each text goes to add; an error of add ends the reading.
func (l *listBody) list(form string, names []string, add func(string) error) (name string, err error) {
	bad := errBadRequest.With("the body is not " + form)
	if err := l.expect('{', bad); err != nil {
		return "", err
	}
	c, err := l.next(bad)
	if err != nil {
		return "", err
	}
	if c == '}' && len(names) > 1 {
		return "", errBadRequest.With("the object must have one of " + strings.Join(names, " and "))
	}
	if name, err = l.string(c, bad); err != nil {
		return "", err
	}
	if !slices.Contains(names, name) {
		return "", bad
	}
	for _, c := range []byte{':', '['} {
		if err := l.expect(c, bad); err != nil {
			return "", err
		}
	}
	if err := l.items(add, bad); err != nil {
		return "", err
	}
	switch c, err = l.next(bad); {
	case err != nil:
		return "", err
	case c == ',' && len(names) > 1:
		return "", errBadRequest.With("the object must have " + strings.Join(names, " or ") + ", only one of them, and only once")
	case c != '}':
		return "", bad
	}
	for {
		c, err := l.r.ReadByte()
		switch {
		case err == io.EOF: //nolint:errorlint // as above
			return name, nil
		case err != nil:
			return "", err
		case !space(c):
			return "", errBadRequest.With("something follows the JSON object")
		}
	}
}

// items reads the texts of the list, after its bracket.
func (l *listBody) items(add func(string) error, bad error) error {
	c, err := l.next(bad)
	if err != nil || c == ']' {
		return err
	}
	for {
		if c == 'n' {
			return errBadRequest.With("an item of the list is not a text")
		}
		s, err := l.string(c, bad)
		if err != nil {
			return err
		}
		if err := l.keep(itemBytes + len(s)); err != nil {
			return err
		}
		if err := add(s); err != nil {
			return err
		}
		switch c, err = l.next(bad); {
		case err != nil:
			return err
		case c == ']':
			return nil
		case c != ',':
			return bad
		}
		if c, err = l.next(bad); err != nil {
			return err
		}
	}
}

func space(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// next is the next byte that is not white space.
func (l *listBody) next(bad error) (byte, error) {
	for {
		c, err := l.r.ReadByte()
		if err != nil {
			return 0, failed(err, bad)
		}
		if !space(c) {
			return c, nil
		}
	}
}

func (l *listBody) expect(want byte, bad error) error {
	c, err := l.next(bad)
	if err == nil && c != want {
		err = bad
	}
	return err
}

// string reads the JSON text that begins with c.
func (l *listBody) string(c byte, bad error) (string, error) {
	if c != '"' {
		return "", bad
	}
	l.text = append(l.text[:0], '"')
	for {
		part, err := l.r.ReadSlice('"')
		if need := len(l.text) + len(part); need > cap(l.text) {
			var err error
			if l.text, err = l.grown(l.text, max(need, 2*cap(l.text), 128)); err != nil {
				return "", err
			}
		}
		l.text = append(l.text, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			return "", failed(err, bad)
		case !escaped(l.text):
			return l.decoded(bad)
		}
	}
}

// escaped reports whether the quotation mark at the end of text is escaped.
func escaped(text []byte) bool {
	before := text[1 : len(text)-1]
	return (len(before)-len(bytes.TrimRight(before, `\`)))%2 == 1
}

// decoded is the value of the JSON text.
func (l *listBody) decoded(bad error) (string, error) {
	inner := l.text[1 : len(l.text)-1]
	if !slices.ContainsFunc(inner, func(c byte) bool { return c == '\\' || c < ' ' }) && utf8.Valid(inner) {
		return string(inner), nil
	}
	if err := exactJSON(l.text); err != nil {
		return "", err
	}
	var s string
	if err := json.Unmarshal(l.text, &s); err != nil {
		return "", bad
	}
	return s, nil
}
