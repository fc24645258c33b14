//go:build linux

package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"

	"kring/bench/drive"
	"kring/bench/rival"
)

const (
	// batchKeys is how many keys are in a batch.
	batchKeys = 100
	// batchCount is how many different batches each node gets.
	batchCount = 200
)

// form is a way to write batches: JSON or binary.
type form struct {
	lane      string
	mediaType string
	encode    func(keys []string) ([]byte, error)
	decode    func(body []byte) ([]batchEntry, error)
	// mark occurs once in the answer for each entry of status 200, and nowhere
	// else.
	mark []byte
	// ages says that the length of an answer varies with the digits of its
	// ages.
	ages bool
}

type batchEntry struct {
	Key    string `json:"key"`
	Status int    `json:"status"`
	Age    int64  `json:"age"`
	Value  string `json:"value"`
}

var forms = []form{
	{
		lane: kring, mediaType: "application/json", encode: encodeJSON, decode: decodeJSON,
		mark: []byte(`"status":200`), ages: true,
	},
	{
		// The mark is the status and half of an age below 18 hours. No text has
		// zero bytes, and no length here has the byte 200.
		lane: kring + "-binary", mediaType: "application/vnd.kring.batch", encode: encodeBinary, decode: decodeBinary,
		mark: []byte{0, 200, 0, 0},
	},
}

// batchLanes get keys one by one, and a hundred at once.
func batchLanes(ctx context.Context, w *work, t *team) ([]lane, error) {
	single := lane{name: kringSingle, team: t, keys: 1}
	for _, addr := range t.addrs {
		single.targets = append(single.targets, drive.Target{Addr: addr, Requests: w.gets(addr, all)})
	}
	lanes := []lane{single}
	for _, f := range forms {
		l := lane{name: f.lane, team: t, keys: batchKeys}
		random := rand.New(rand.NewPCG(1, 2))
		for _, addr := range t.addrs {
			target := drive.Target{Addr: addr}
			for range batchCount {
				r, err := w.batch(ctx, f, addr, random)
				if err != nil {
					return nil, err
				}
				target.Requests = append(target.Requests, r)
			}
			l.targets = append(l.targets, target)
		}
		lanes = append(lanes, l)
	}
	return lanes, nil
}

// batch is a request for a hundred keys. Its first answer is checked entry by
// entry, and shows what the others must be.
func (w *work) batch(ctx context.Context, f form, addr string, random *rand.Rand) (drive.Request, error) {
	keys := make([]string, batchKeys)
	for i := range keys {
		keys[i] = keyNumber(random.IntN(keyCount))
	}
	body, err := f.encode(keys)
	if err != nil {
		return drive.Request{}, err
	}
	path := "/v1/batch/" + rival.Group
	answer, err := fetch(ctx, http.MethodPost, "http://"+addr+path, f.mediaType, body)
	if err != nil {
		return drive.Request{}, err
	}
	entries, err := f.decode(answer.body)
	if err != nil {
		return drive.Request{}, fmt.Errorf("read a batch: %w", err)
	}
	if len(entries) != batchKeys {
		return drive.Request{}, fmt.Errorf("a batch of %d keys brings %d entries", batchKeys, len(entries))
	}
	r := drive.Request{
		Bytes: fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: %s\r\nAccept: %s\r\nContent-Length: %d\r\n\r\n%s",
			path, addr, f.mediaType, f.mediaType, len(body), body),
		Length: len(answer.body), Mark: f.mark, Marks: batchKeys,
	}
	for i, e := range entries {
		if e.Key != keys[i] || e.Status != http.StatusOK || len(e.Value) != rival.ValueSize(e.Key, w.valueBytes) {
			return drive.Request{}, fmt.Errorf("a batch's entry %d, asked for as %s, is %+v", i, keys[i], e)
		}
		if f.ages {
			r.Length -= len(fmt.Sprint(e.Age)) - 1
			r.Slack += 3 // an age has at most four digits
		}
	}
	return r, nil
}

func encodeJSON(keys []string) ([]byte, error) {
	return json.Marshal(struct {
		Keys []string `json:"keys"`
	}{keys})
}

func decodeJSON(body []byte) ([]batchEntry, error) {
	var got struct {
		Entries []batchEntry `json:"entries"`
	}
	err := json.Unmarshal(body, &got)
	return got.Entries, err
}

// encodeBinary and decodeBinary implement the form that openapi.yaml describes.
func encodeBinary(keys []string) ([]byte, error) {
	b := binary.BigEndian.AppendUint32([]byte{1, 1}, uint32(len(keys)))
	for _, k := range keys {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(k))), k...)
	}
	return b, nil
}

var errShort = errors.New("it ends too early")

func decodeBinary(body []byte) ([]batchEntry, error) {
	if len(body) < 5 || body[0] != 1 {
		return nil, errShort
	}
	count, rest := binary.BigEndian.Uint32(body[1:]), body[5:]
	var entries []batchEntry
	for range count {
		if len(rest) < 6 {
			return nil, errShort
		}
		e := batchEntry{Status: int(binary.BigEndian.Uint16(rest)), Age: int64(binary.BigEndian.Uint32(rest[2:]))}
		rest = rest[6:]
		var texts [6]string // key, code, content type, content encoding, etag, value
		for i := range texts {
			if len(rest) < 4 || uint64(len(rest)-4) < uint64(binary.BigEndian.Uint32(rest)) {
				return nil, errShort
			}
			n := 4 + int(binary.BigEndian.Uint32(rest))
			texts[i], rest = string(rest[4:n]), rest[n:]
		}
		e.Key, e.Value = texts[0], texts[5]
		entries = append(entries, e)
	}
	if len(rest) > 0 {
		return nil, errors.New("something follows its entries")
	}
	return entries, nil
}
