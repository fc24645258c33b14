package httpserver

import (
	"bytes"
	"net/http"
	"strconv"
)

// errorHeaders are the bytes that package http puts after the status line of its
// own errors.
var errorHeaders = []byte("Content-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n")

// unreadable is the status of an answer that package http made by itself, or 0.
func unreadable(p []byte) int {
	line, rest, ok := bytes.Cut(p, []byte("\r\n"))
	if !ok || len(line) < len("HTTP/1.1 417") {
		return 0
	}
	status, err := strconv.Atoi(string(line[len("HTTP/1.1 "):][:3]))
	if err != nil {
		return 0
	}
	switch status {
	case http.StatusExpectationFailed: // no handler's, whatever its headers
		return status
	case http.StatusBadRequest, http.StatusRequestHeaderFieldsTooLarge, http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		if bytes.HasPrefix(rest, errorHeaders) {
			return status
		}
	}
	return 0
}

// namesTransferEncoding looks for the field among the lines before the first
// empty one.
func namesTransferEncoding(head []byte) bool {
	const name = "transfer-encoding"
	for line := range bytes.SplitSeq(head, []byte("\n")) {
		line = bytes.TrimSuffix(line, []byte("\r"))
		if len(line) == 0 {
			return false
		}
		field, _, _ := bytes.Cut(line, []byte(":"))
		if len(field) >= len(name) && bytes.EqualFold(bytes.TrimSpace(field), []byte(name)) {
			return true
		}
	}
	return false
}
