package httpapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"unicode/utf8"

	"kring/cache"
)

// jsonEntry is one element of a batch's entries.
type jsonEntry struct {
	Key string `json:"key"`
	// KeyBase64 is there when the key is no UTF-8 and Key cannot tell it.
	KeyBase64       string     `json:"key_base64,omitempty"`
	Status          int        `json:"status"`
	Code            cache.Code `json:"code,omitempty"`
	ContentType     string     `json:"content_type,omitempty"`
	ContentEncoding string     `json:"content_encoding,omitempty"`
	ETag            string     `json:"etag,omitempty"`
	Age             *int64     `json:"age,omitempty"`
	Value           *string    `json:"value,omitempty"`
	ValueBase64     *string    `json:"value_base64,omitempty"`
}

func (e *jsonEntry) describe(entry *cache.Entry, age int64) {
	e.ContentType, e.ContentEncoding, e.ETag, e.Age = entry.ContentType, entry.ContentEncoding, entry.ETag, &age
	if utf8.Valid(entry.Value) {
		s := string(entry.Value)
		e.Value = &s
		return
	}
	s := base64.StdEncoding.EncodeToString(entry.Value)
	e.ValueBase64 = &s
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
