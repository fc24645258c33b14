package httpapi

import (
	"encoding/binary"

	"kring/cache"
)

// The binary form of a batch. All numbers are big endian. A string is its length
// in bytes as uint32, then its bytes.
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

func decodeBinaryBatch(in *listBody, maxKeys int) (batchRequest, error) {
	var head [6]byte
	if err := in.full(head[:], errBadRequest.With("the body is not a binary batch of version 1")); err != nil {
		return batchRequest{}, err
	}
	if head[0] != batchVersion {
		return batchRequest{}, errBadRequest.With("the body is not a binary batch of version 1")
	}
	var req batchRequest
	switch head[1] {
	case batchGet:
	case batchDelete:
		req.del = true
	default:
		return batchRequest{}, errBadRequest.With("the batch's operation is unknown")
	}
	count := binary.BigEndian.Uint32(head[2:])
	if uint64(count) > uint64(maxKeys) {
		return batchRequest{}, tooManyKeys(maxKeys)
	}
	req.keys = make([]string, 0, count)
	for range count {
		if err := in.full(head[:4], errShortBatch); err != nil {
			return batchRequest{}, err
		}
		key, err := in.bytes(int64(binary.BigEndian.Uint32(head[:])), errShortBatch)
		if err != nil {
			return batchRequest{}, err
		}
		req.keys = append(req.keys, key)
	}
	return req, in.end("the batch's keys")
}

var errShortBatch = errBadRequest.With("the batch ends within a key")

// binaryBatch writes the answer.
type binaryBatch struct{}

func (*binaryBatch) contentType() string { return batchMediaType }

func (*binaryBatch) begin(out *batchOut, keys int) {
	out.buf = binary.BigEndian.AppendUint32(append(out.buf, batchVersion), uint32(keys))
}

func (*binaryBatch) entry(out *batchOut, b batchEntry) {
	out.buf = binary.BigEndian.AppendUint16(out.buf, uint16(b.status))
	out.buf = binary.BigEndian.AppendUint32(out.buf, uint32(min(b.age, 1<<32-1)))
	e := b.entry
	if e == nil {
		e = &cache.Entry{}
	}
	for _, s := range [...]string{b.key, string(b.code), e.ContentType, e.ContentEncoding, e.ETag} {
		out.buf = binary.BigEndian.AppendUint32(out.buf, uint32(len(s)))
		writePieces(out, s, appendPlain)
	}
	out.buf = binary.BigEndian.AppendUint32(out.buf, uint32(len(e.Value)))
	writePieces(out, e.Value, appendPlain)
}

func appendPlain[T string | []byte](out []byte, piece T) []byte { return append(out, piece...) }

func (*binaryBatch) end(*batchOut) {}
