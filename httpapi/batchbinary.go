package httpapi

import (
	"encoding/binary"

	"kring/cache"
)

// The binary form of a batch. All numbers are big endian; a string is its
// length in bytes as uint32, then its bytes.
//
//	request: uint8 version (1), uint8 operation (1 get, 2 delete),
//	         uint32 count, then count keys (string)
//	answer:  uint8 version (1), uint32 count, then count times
//	         uint16 status, uint32 age in seconds, and the strings
//	         key, code, content type, content encoding, etag, value
const batchMediaType = "application/vnd.kring.batch"

const (
	batchVersion = 1
	batchGet     = 1
	batchDelete  = 2
)

func decodeBinaryBatch(body []byte, maxKeys int) (batchRequest, error) {
	if len(body) < 6 || body[0] != batchVersion {
		return batchRequest{}, errBadRequest.With("the body is not a binary batch of version 1")
	}
	var req batchRequest
	switch body[1] {
	case batchGet:
	case batchDelete:
		req.del = true
	default:
		return batchRequest{}, errBadRequest.With("the batch's operation is unknown")
	}
	count := binary.BigEndian.Uint32(body[2:])
	if uint64(count) > uint64(maxKeys) {
		return batchRequest{}, tooManyKeys(maxKeys)
	}
	rest := body[6:]
	req.keys = make([]string, count)
	for i := range req.keys {
		if len(rest) < 4 {
			return batchRequest{}, errShortBatch
		}
		n := binary.BigEndian.Uint32(rest)
		rest = rest[4:]
		if uint64(n) > uint64(len(rest)) {
			return batchRequest{}, errShortBatch
		}
		req.keys[i] = string(rest[:n])
		rest = rest[n:]
	}
	if len(rest) > 0 {
		return batchRequest{}, errBadRequest.With("something follows the batch's keys")
	}
	return req, nil
}

var errShortBatch = errBadRequest.With("the batch ends within a key")

// binaryBatch writes the answer.
type binaryBatch struct{}

func (*binaryBatch) contentType() string { return batchMediaType }

func (*binaryBatch) begin(out []byte, keys int) []byte {
	return binary.BigEndian.AppendUint32(append(out, batchVersion), uint32(keys))
}

func (*binaryBatch) entry(out []byte, b batchEntry) []byte {
	out = binary.BigEndian.AppendUint16(out, uint16(b.status))
	out = binary.BigEndian.AppendUint32(out, uint32(min(b.age, 1<<32-1)))
	e := b.entry
	if e == nil {
		e = &cache.Entry{}
	}
	for _, s := range [...]string{b.key, string(b.code), e.ContentType, e.ContentEncoding, e.ETag} {
		out = append(binary.BigEndian.AppendUint32(out, uint32(len(s))), s...)
	}
	return append(binary.BigEndian.AppendUint32(out, uint32(len(e.Value))), e.Value...)
}

func (*binaryBatch) end(out []byte) []byte { return out }
