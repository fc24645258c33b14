package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"unicode/utf8"
)

// jsonBatch writes {"entries":[…]}. A batch's time is in its entries, so they
// are written without package json.
type jsonBatch struct{ some bool }

func (j *jsonBatch) contentType() string               { return "application/json" }
func (j *jsonBatch) begin(out []byte, keys int) []byte { return append(out, `{"entries":[`...) }
func (j *jsonBatch) end(out []byte) []byte             { return append(out, "]}\n"...) }

func (j *jsonBatch) entry(out []byte, e batchEntry) []byte {
	if j.some {
		out = append(out, ',')
	}
	j.some = true
	out = appendJSONString(append(out, `{"key":`...), e.key)
	if !utf8.ValidString(e.key) { // key cannot tell it
		out = appendBase64(append(out, `,"key_base64":`...), []byte(e.key))
	}
	out = strconv.AppendInt(append(out, `,"status":`...), int64(e.status), 10)
	text := func(name, s string) {
		if s != "" {
			out = appendJSONString(append(out, name...), s)
		}
	}
	text(`,"code":`, string(e.code))
	if e.entry == nil {
		return append(out, '}')
	}
	text(`,"content_type":`, e.entry.ContentType)
	text(`,"content_encoding":`, e.entry.ContentEncoding)
	text(`,"etag":`, e.entry.ETag)
	out = strconv.AppendInt(append(out, `,"age":`...), e.age, 10)
	if utf8.Valid(e.entry.Value) {
		out = appendJSONString(append(out, `,"value":`...), e.entry.Value)
	} else {
		out = appendBase64(append(out, `,"value_base64":`...), e.entry.Value)
	}
	return append(out, '}')
}

// onlyMember reads the object that a batch is: its one member, by the very
// name. Package json would take KEYS for keys, and the last of two.
func onlyMember(body []byte) (name string, list []*string, err error) {
	bad := errBadRequest.With(`the body is not {"keys":[…]} or {"delete":[…]}`)
	dec := json.NewDecoder(bytes.NewReader(body))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return "", nil, bad.Because(err)
	}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return "", nil, bad.Because(err)
		}
		switch member, _ := t.(string); {
		case member != "keys" && member != "delete":
			return "", nil, bad
		case name != "":
			return "", nil, errBadRequest.With("keys and delete may be there once, and not both")
		default:
			name = member
		}
		if err := dec.Decode(&list); err != nil {
			return "", nil, bad.Because(err)
		}
	}
	if _, err := dec.Token(); err != nil {
		return "", nil, bad.Because(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return "", nil, errBadRequest.With("something follows the JSON object")
	}
	return name, list, nil
}

// exactJSON refuses what package json would silently replace by U+FFFD, so
// that two keys that differ stay two keys: bytes that are no UTF-8, and escapes
// of half a surrogate pair.
func exactJSON(body []byte) error {
	if !utf8.Valid(body) {
		return errBadRequest.With("the body is not UTF-8")
	}
	for i := 0; i < len(body); i++ {
		if body[i] != '\\' {
			continue
		}
		unit, ok := escapedUnit(body[i:])
		switch {
		case !ok:
			i++ // another escape, of one character
		case unit < 0xd800 || unit > 0xdfff:
			i += 5
		default:
			low, ok := escapedUnit(body[i+6:])
			if unit > 0xdbff || !ok || low < 0xdc00 || low > 0xdfff {
				return errBadRequest.With("the body has half a surrogate pair")
			}
			i += 11
		}
	}
	return nil
}

// escapedUnit reads \uXXXX at the start of b.
func escapedUnit(b []byte) (unit uint64, ok bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	return unit, err == nil
}
