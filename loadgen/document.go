package loadgen

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// document has the form of the demo origin's documents; a run puts values of
// this form, too. It proves that a value is whole and belongs to its key.
type document struct {
	Key     string `json:"key"`
	Version string `json:"version"`
	SHA256  string `json:"sha256"`
	Pad     string `json:"pad"`
}

// newDocument is the body for a key, with a pad of size bytes.
func newDocument(key, version string, size int) ([]byte, error) {
	d := document{Key: key, Version: version, Pad: strings.Repeat(letters, size/len(letters)+1)[:size]}
	d.SHA256 = d.hash()
	body, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("make a value: %w", err)
	}
	return body, nil
}

const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

func (d *document) hash() string {
	h := sha256.New()
	for _, s := range []string{d.Key, "\n", d.Version, "\n", d.Pad} {
		h.Write([]byte(s)) // a hash.Hash never returns an error
	}
	return hex.EncodeToString(h.Sum(nil))
}

// checkDocument says what is wrong with a body that was served for a key.
func checkDocument(key string, body []byte) (document, error) {
	var d document
	if err := json.Unmarshal(body, &d); err != nil {
		return d, errors.New("the body is not a document of the demo origin, or not a whole one")
	}
	switch {
	case d.Key != key:
		return d, errors.New("the body is another key's")
	case d.SHA256 != d.hash():
		return d, errors.New("the body's hash is wrong")
	}
	return d, nil
}
