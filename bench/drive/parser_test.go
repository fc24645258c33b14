package drive

import (
	"strings"
	"testing"
)

func TestParser(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		status     int
		body       string
		closes     bool
		fails      string // in the error
	}{
		{name: "with a length", text: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: y\r\n\r\nhello", status: 200, body: "hello"},
		{name: "names in any case", text: "HTTP/1.1 200 OK\r\ncontent-length:5\r\n\r\nhello", status: 200, body: "hello"},
		{name: "empty", text: "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", status: 404},
		{name: "no body", text: "HTTP/1.1 204 No Content\r\n\r\n", status: 204},
		{name: "closes", text: "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx", status: 200, body: "x", closes: true},
		{
			name: "chunks", text: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nB;x=y\r\n, the world\r\n0\r\n\r\n",
			status: 200, body: "hello, the world",
		},
		{
			name: "chunks with a trailer", text: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nA: b\r\n\r\n",
			status: 200, body: "x",
		},
		{name: "too much", text: "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxy", fails: "after the end"},
		{name: "no end", text: "HTTP/1.1 200 OK\r\nX: y\r\n\r\nhello", fails: "neither"},
		{name: "other protocol", text: "SSH-2.0-OpenSSH\r\n\r\n", fails: "status line"},
		{name: "bad length", text: "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", fails: "Content-Length"},
		{name: "bad chunk", text: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", fails: "length of a chunk"},
		{name: "chunk longer than it says", text: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxyz\r\n0\r\n\r\n", fails: "longer"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			// The pieces: the whole, two halves cut at every place, and single
			// bytes.
			for cut := range len(tc.text) {
				checkAnswer(t, []string{tc.text[:cut], tc.text[cut:]}, tc.status, tc.body, tc.closes, tc.fails)
			}
			checkAnswer(t, strings.Split(tc.text, ""), tc.status, tc.body, tc.closes, tc.fails)
		})
	}
}

func checkAnswer(t *testing.T, pieces []string, status int, body string, closes bool, fails string) {
	t.Helper()
	p := parser{keep: true}
	// The answer before leaves no trace.
	if done, err := p.feed([]byte("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\nold")); !done || err != nil {
		t.Fatalf("the answer before: %v, %v", done, err)
	}
	p.reset()
	done, last := false, 0
	var err error
	for i, piece := range pieces {
		if piece != "" {
			last = i
		}
	}
	for i, piece := range pieces {
		if done, err = p.feed([]byte(piece)); err != nil {
			break
		}
		if done && i < last && fails == "" {
			t.Fatalf("%q: complete after piece %d", pieces, i)
		}
	}
	switch {
	case fails != "":
		if err == nil || !strings.Contains(err.Error(), fails) {
			t.Fatalf("%q: error %v, want one with %q", pieces, err, fails)
		}
	case err != nil || !done:
		t.Fatalf("%q: done %v, error %v", pieces, done, err)
	case p.status != status || string(p.body) != body || p.length != len(body) || p.closes != closes:
		t.Fatalf("%q: status %d, body %q of %d, closes %v", pieces, p.status, p.body, p.length, p.closes)
	}
}

func TestParserBoundsHeaders(t *testing.T) {
	var p parser
	_, err := p.feed([]byte("HTTP/1.1 200 OK\r\n" + strings.Repeat("x", maxHead)))
	if err == nil {
		t.Error("an endless header is no error")
	}
}

// All inputs give the same answer or error in whatever pieces they arrive.
func FuzzParser(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"), 3)
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"), 50)
	f.Fuzz(func(t *testing.T, text []byte, cut int) {
		if cut < 0 || cut > len(text) || len(text) > maxHead {
			return
		}
		whole, pieces := parser{keep: true}, parser{keep: true}
		_, err := whole.feed(text)
		_, halfErr := pieces.feed(text[:cut])
		if halfErr == nil {
			_, halfErr = pieces.feed(text[cut:])
		}
		if (err == nil) != (halfErr == nil) || err == nil && whole.state != pieces.state {
			t.Fatalf("whole: state %d, %v; in pieces: state %d, %v", whole.state, err, pieces.state, halfErr)
		}
		done := err == nil && whole.state == complete
		if done && (whole.status != pieces.status || string(whole.body) != string(pieces.body)) {
			t.Fatalf("whole: %d %q; in pieces: %d %q", whole.status, whole.body, pieces.status, pieces.body)
		}
	})
}
