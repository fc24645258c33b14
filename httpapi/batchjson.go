package httpapi

import (
	"encoding/base64"
	"strconv"
	"unicode/utf8"
)

// jsonBatch writes {"entries":[…]}. A batch spends most of its time on its
// entries, so they are written without package json.
type jsonBatch struct{ some bool }

func (j *jsonBatch) contentType() string { return "application/json" }

func (j *jsonBatch) begin(out *batchOut, keys int) { out.text(`{"entries":[`) }

func (j *jsonBatch) end(out *batchOut) { out.text("]}\n") }

func (j *jsonBatch) entry(out *batchOut, e batchEntry) {
	if j.some {
		out.text(",")
	}
	j.some = true
	out.text(`{"key":`)
	writeString(out, e.key)
	if !utf8.ValidString(e.key) { // a JSON string cannot hold it
		out.text(`,"key_base64":`)
		writeBase64(out, e.key)
	}
	out.text(`,"status":`)
	out.buf = strconv.AppendInt(out.buf, int64(e.status), 10)
	member := func(name, s string) {
		if s != "" {
			out.text(name)
			writeString(out, s)
		}
	}
	member(`,"code":`, string(e.code))
	if e.entry != nil {
		member(`,"content_type":`, e.entry.ContentType)
		member(`,"content_encoding":`, e.entry.ContentEncoding)
		member(`,"etag":`, e.entry.ETag)
		out.text(`,"age":`)
		out.buf = strconv.AppendInt(out.buf, e.age, 10)
		if utf8.Valid(e.entry.Value) {
			out.text(`,"value":`)
			writeString(out, e.entry.Value)
		} else {
			out.text(`,"value_base64":`)
			writeBase64(out, e.entry.Value)
		}
	}
	out.text("}")
}

// writeString writes a JSON string.
func writeString[T string | []byte](out *batchOut, s T) {
	out.text(`"`)
	writeCharacters(out, s, appendJSONText[T])
	out.text(`"`)
}

// writeBase64 writes bytes in base64, as a JSON string.
func writeBase64[T string | []byte](out *batchOut, s T) {
	out.text(`"`)
	writePieces(out, s, func(buf []byte, piece T) []byte {
		return base64.StdEncoding.AppendEncode(buf, []byte(piece))
	})
	out.text(`"`)
}

// decodeJSONBatch reads {"keys":[…]} or {"delete":[…]}.
func decodeJSONBatch(in *listBody, maxKeys int) (batchRequest, error) {
	req := batchRequest{keys: []string{}}
	name, err := in.list(`{"keys":[…]} or {"delete":[…]}`, []string{"keys", "delete"}, func(key string) error {
		if len(req.keys) == maxKeys {
			return tooManyKeys(maxKeys)
		}
		req.keys = append(req.keys, key)
		return nil
	})
	req.del = name == "delete"
	return req, err
}
