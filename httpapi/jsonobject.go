package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"kring/cache"
)

// reader reads the value of a member.
type reader func(dec *json.Decoder) error

// readObject reads a body that is one JSON object and nothing else. The reader of
// its name reads each member. A name must be spelt exactly and stand once: package
// json would take URL for url, and the last of two. Shape shows the client what
// the body should be. An error of a reader is for the log unless it is a
// *cache.Error.
func readObject(body []byte, shape string, members map[string]reader) error {
	if err := exactJSON(body); err != nil {
		return err
	}
	bad := errBadRequest.With("the body is not " + shape)
	dec := json.NewDecoder(bytes.NewReader(body))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return bad.Because(err)
	}
	seen := make(map[string]bool, len(members))
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return bad.Because(err)
		}
		name, _ := t.(string)
		read := members[name]
		switch {
		case read == nil:
			return errBadRequest.With(fmt.Sprintf("%.60q is not a member of %s", name, shape))
		case seen[name]:
			return errBadRequest.With(fmt.Sprintf("%q is there twice", name))
		}
		seen[name] = true
		if err := read(dec); err != nil {
			var said *cache.Error
			if errors.As(err, &said) {
				return err
			}
			return bad.Because(err)
		}
	}
	if _, err := dec.Token(); err != nil {
		return bad.Because(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errBadRequest.With("something follows the JSON object")
	}
	return nil
}

var errNull = errors.New("null is no value")

// readValue reads a value that is not null.
func readValue[T any](into **T) reader {
	return func(dec *json.Decoder) error {
		var v *T
		if err := dec.Decode(&v); err != nil {
			return err
		}
		if v == nil {
			return errNull
		}
		*into = v
		return nil
	}
}
