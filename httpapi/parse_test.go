package httpapi

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"unicode/utf8"

	"kring/cache"
	"kring/httpserver"
)

// FuzzPathKey: of every path that package net/url accepts, the key is the part
// behind the group, decoded once.
func FuzzPathKey(f *testing.F) {
	for _, s := range []string{
		"a", "", "a/b", "a%2Fb", "a%252Fb", "//a", ".", "..", "a+b", "a%20b", "%F0%9F%98%80", "a|%2Fb", "#", "a\"b", "%00",
	} {
		f.Add("kv", s)
	}
	f.Add("k%76", "a|b")
	f.Add("a%2Fb", "c")
	valid := regexp.MustCompile(`\A[a-z0-9][a-z0-9_-]{0,62}\z`)
	f.Fuzz(func(t *testing.T, group, key string) {
		sent := group + "/" + key
		u, err := url.ParseRequestURI("/v1/cache/" + sent)
		if err != nil {
			return // no path
		}
		sent, _, _ = strings.Cut(sent, "?")
		got, err := pathKey(u, "/v1/cache/")
		rawGroup, rawKey, _ := strings.Cut(sent, "/")
		wantGroup, groupErr := url.PathUnescape(rawGroup)
		wantKey, keyErr := url.PathUnescape(rawKey)
		if groupErr != nil || keyErr != nil {
			t.Fatalf("net/url accepts %q", sent)
		}
		if valid.MatchString(wantGroup) != (err == nil) {
			t.Fatalf("group %q: %v", wantGroup, err)
		}
		if err == nil && (got != cache.Key{Group: wantGroup, Key: wantKey}) {
			t.Fatalf("%q is read as %q", sent, got)
		}
	})
}

// FuzzEntityTags: tags that were parsed can be written and parsed again alike, and
// a GET finds the same tags in a list as a PUT.
func FuzzEntityTags(f *testing.F) {
	for _, s := range []string{`"a"`, `W/"a"`, `"a", "b"`, ` , "a" ,, W/"b" `, `*`, `a`, `"a`, `"a" "b"`, `""`, `W/`, "\"\x7f\""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		h := http.Header{"If-None-Match": {line}}
		tags, err := entityTags(h, "If-None-Match")
		if err != nil {
			if !errors.Is(err, errBadRequest) {
				t.Fatal(err)
			}
			return
		}
		again, err := entityTags(http.Header{"If-None-Match": {strings.Join(tags, ", ")}}, "If-None-Match")
		if err != nil || !slices.Equal(tags, again) {
			t.Fatalf("%q, then %q (%v)", tags, again, err)
		}
		for _, tag := range tags {
			if tag != "*" && !noneMatch(h, strongTag(tag)) {
				t.Fatalf("%q does not name %s to a GET", line, tag)
			}
		}
		if noneMatch(h, `"some other tag"`) != slices.ContainsFunc(tags, func(tag string) bool {
			return tag == "*" || strongTag(tag) == `"some other tag"`
		}) {
			t.Fatalf("%q names what it does not have", line)
		}
	})
}

// listOf is a list that comes a few bytes at a time.
func listOf(t testing.TB, body []byte) *listBody {
	t.Helper()
	return listFrom(t, newBodies(1<<20).Share(new(http.Request)), "", iotest.OneByteReader(bytes.NewReader(body)))
}

// listFrom is a list that begins so, and goes on with rest.
func listFrom(t testing.TB, s *httpserver.Share, begins string, rest io.Reader) *listBody {
	t.Helper()
	return newListBody(t.Context(), s, bufio.NewReaderSize(io.MultiReader(strings.NewReader(begins), rest), listBuffer))
}

// written is what an encoder writes of a batch of one entry.
func written(enc batchEncoder, e batchEntry) []byte {
	var all bytes.Buffer
	out := &batchOut{w: &all, keys: 1, start: enc.begin}
	defer out.close()
	out.begin()
	enc.entry(out, e)
	enc.end(out)
	out.flush()
	return all.Bytes()
}

// goneAfter is a client that goes after so many bytes.
type goneAfter struct{ left int }

func (g *goneAfter) Write(b []byte) (int, error) {
	if g.left -= len(b); g.left < 0 {
		return 0, io.ErrClosedPipe
	}
	return len(b), nil
}

// An answer is not encoded further once its client has gone.
func TestEncodingEndsWhenTheClientIsGone(t *testing.T) {
	const size, read = 8 << 20, 1 << 20
	encoded := 0
	counted := func(buf, piece []byte) []byte {
		encoded += len(piece)
		return append(buf, piece...)
	}
	for name, write := range map[string]func(*batchOut, []byte, func(buf, piece []byte) []byte){
		"pieces": writePieces[[]byte], "characters": writeCharacters[[]byte],
	} {
		encoded = 0
		out := &batchOut{w: &goneAfter{read}, start: func(*batchOut, int) {}}
		out.begin()
		write(out, make([]byte, size), counted)
		write(out, make([]byte, size), counted)
		if out.failure() == nil || encoded > read+batchBuffer {
			t.Errorf("%s: %d bytes were encoded for one that read %d", name, encoded, read)
		}
		out.close()
	}
}

// FuzzJSONBatch: an accepted batch has the keys that another reader of the JSON
// sees, and nothing was replaced in them.
func FuzzJSONBatch(f *testing.F) {
	for _, s := range []string{
		`{"keys":["a","b"]}`, `{"delete":["a"]}`, `{"keys":[]}`, `{}`, `{"keys":["\ud83d\ude00"]}`, `{"keys":["\ud83d"]}`,
		`{"keys":["\ude00\ud83d"]}`, `{"keys":["\\ud83d"]}`, `{"keys":["�"]}`, "{\"keys\":[\"\xff\"]}", `{"keys":["a"],"keys":["b"]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		req, err := decodeJSONBatch(listOf(t, body), 10)
		if err != nil {
			if _, fail := known(err); fail.status != 400 && fail.status != 413 {
				t.Fatal(err)
			}
			return
		}
		if len(req.keys) > 10 {
			t.Fatalf("%d keys", len(req.keys))
		}
		for _, key := range req.keys {
			if strings.Contains(key, "\ufffd") && !bytes.Contains(body, []byte("\ufffd")) && !bytes.Contains(bytes.ToLower(body), []byte(`\ufffd`)) {
				t.Fatalf("%q became %q", body, key)
			}
		}
		out, err := json.Marshal(map[string][]string{"keys": req.keys})
		if err != nil {
			t.Fatal(err)
		}
		again, err := decodeJSONBatch(listOf(t, out), 10)
		if err != nil || !slices.Equal(again.keys, req.keys) {
			t.Fatalf("%q, then %q (%v)", req.keys, again.keys, err)
		}
	})
}

// FuzzJSONEntry: an entry of a batch is written as package json would write it,
// and reading it gives the same entry.
func FuzzJSONEntry(f *testing.F) {
	for _, s := range []string{"", "plain", "\x00\b\f\n\r\t\x1f\x7f\"\\/<&>", "é✓😀", "\u2028\u2029\u2027\ufffd", "a\xffb", "\xed\xa0\xbd", "ends\xe2\x80"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(text); err != nil {
			t.Fatal(err)
		}
		got := append(appendJSONText([]byte{'"'}, text), "\"\n"...)
		if !bytes.Equal(got, want.Bytes()) || !bytes.Equal(append(appendJSONText([]byte{'"'}, []byte(text)), "\"\n"...), got) {
			t.Errorf("%q is written as %s, package json has %s", text, got, want.Bytes())
		}
		out := written(&jsonBatch{}, batchEntry{key: text, status: 200, age: 7, entry: &cache.Entry{Value: []byte(text), ETag: text}})
		var read struct {
			Entries []struct {
				Key         string
				KeyBase64   *[]byte `json:"key_base64"`
				Status, Age int
				ETag        string
				Value       *string
				ValueBase64 *[]byte `json:"value_base64"`
			}
		}
		if err := json.Unmarshal(out, &read); err != nil || len(read.Entries) != 1 {
			t.Fatalf("%q: %v", text, err)
		}
		e := read.Entries[0]
		if utf8.ValidString(text) {
			if e.Key != text || e.ETag != text || e.Value == nil || *e.Value != text || e.KeyBase64 != nil || e.ValueBase64 != nil {
				t.Errorf("%q became %+v", text, e)
			}
		} else if e.KeyBase64 == nil || string(*e.KeyBase64) != text || e.ValueBase64 == nil || string(*e.ValueBase64) != text || e.Value != nil {
			t.Errorf("%q became %+v", text, e)
		}
		if e.Status != 200 || e.Age != 7 {
			t.Errorf("%+v", e)
		}
	})
}

// FuzzBinaryBatch: an accepted batch is the only spelling of its keys.
func FuzzBinaryBatch(f *testing.F) {
	f.Add([]byte("\x01\x01\x00\x00\x00\x01\x00\x00\x00\x01a"))
	f.Add([]byte("\x01\x02\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x02ab"))
	f.Add([]byte("\x01\x01\xff\xff\xff\xff"))
	f.Add([]byte("\x01\x01\x00\x00\x00\x01\xff\xff\xff\xffa"))
	f.Fuzz(func(t *testing.T, body []byte) {
		req, err := decodeBinaryBatch(listOf(t, body), 10)
		if err != nil {
			if _, fail := known(err); fail.status != 400 && fail.status != 413 {
				t.Fatal(err)
			}
			return
		}
		op := byte(batchGet)
		if req.del {
			op = batchDelete
		}
		if out := encodeBinaryRequest(op, req.keys); !bytes.Equal(out, body) {
			t.Fatalf("%q is %q again", body, out)
		}
	})
}

func encodeBinaryRequest(op byte, keys []string) []byte {
	out := []byte{batchVersion, op, 0, 0, 0, byte(len(keys))}
	for _, key := range keys {
		n := len(key)
		out = append(out, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
		out = append(out, key...)
	}
	return out
}

// FuzzStructuredName: a node's name is always one item of a structured field.
func FuzzStructuredName(f *testing.F) {
	for _, s := range []string{"kring-1", "127.0.0.1:8001", "host:8001", "", `a"b\c`, "a b", "é", "a\r\nb"} {
		f.Add(s)
	}
	token := regexp.MustCompile("\\A[A-Za-z*][A-Za-z0-9!#$%&'*+.^_`|~:/-]*\\z")
	quoted := regexp.MustCompile(`\A"(?:[ !#-\[\]-~]|\\["\\])*"\z`)
	f.Fuzz(func(t *testing.T, name string) {
		item := sfItem(name)
		if !token.MatchString(item) && !quoted.MatchString(item) {
			t.Fatalf("%q becomes %q", name, item)
		}
		if token.MatchString(name) != (item == name) {
			t.Fatalf("%q becomes %q", name, item)
		}
	})
}

func TestExactJSON(t *testing.T) {
	for body, ok := range map[string]bool{
		`"a"`: true, `"\ud83d\ude00"`: true, `"\uD83D\uDE00"`: true, `"\ud83d"`: false, `"\ude00"`: false,
		`"\ud83d\ud83d\ude00"`: false, `"\ud83dx"`: false, `"\\ud83d"`: true, `"\\\ud83d"`: false, `"\u00e9"`: true,
		"\"\xff\"": false, `"\ufffd"`: true, `\`: true, `\u`: true, `"\n"`: true,
	} {
		if err := exactJSON([]byte(body)); (err == nil) != ok {
			t.Errorf("%q: %v", body, err)
		}
	}
}

func TestMediaType(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "application/json": "application/json", "Application/JSON ; charset=utf-8": "application/json",
	} {
		if got := mediaType(in); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
}

// endless is a list that never ends.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = `"",`[(e.read+i)%3]
	}
	e.read += len(p)
	return len(p), nil
}

// Nothing is read or kept after the first item too many.
func TestAListIsReadNoFurtherThanItsLimit(t *testing.T) {
	for begins, decode := range map[string]func(*listBody) error{
		`{"keys":[`:   func(l *listBody) error { _, err := decodeJSONBatch(l, 1000); return err },
		`{"delete":[`: func(l *listBody) error { _, err := decodeJSONBatch(l, 1000); return err },
	} {
		bodies, rest := newBodies(1<<20), &endless{}
		s := bodies.Share(new(http.Request))
		l := listFrom(t, s, begins, rest)
		if err := decode(l); !errors.Is(err, cache.ErrValueTooLarge) {
			t.Errorf("%s: %v", begins, err)
		}
		if rest.read > 3*1001+listBuffer {
			t.Errorf("%s: %d bytes were read for 1,001 keys of three", begins, rest.read)
		}
		if held := bodies.Stats().InUse; held > 64<<10 {
			t.Errorf("%s: %d bytes are held", begins, held)
		}
		s.Release()
		if held := bodies.Stats().InUse; held != 0 {
			t.Errorf("%s: %d bytes are held afterwards", begins, held)
		}
	}
}

// One text without an end is charged as it grows, and stops at the budget.
func TestATextWithoutEndIsCharged(t *testing.T) {
	for name, c := range map[string]struct {
		begins string
		decode func(*listBody) error
	}{
		"JSON":   {`{"keys":["`, func(l *listBody) error { _, err := decodeJSONBatch(l, 1000); return err }},
		"binary": {"\x01\x01\x00\x00\x00\x01\x7f\xff\xff\xff", func(l *listBody) error { _, err := decodeBinaryBatch(l, 1000); return err }},
	} {
		synctest.Test(t, func(t *testing.T) {
			bodies := newBodies(1 << 20)
			s, other := bodies.Share(new(http.Request)), bodies.Share(new(http.Request))
			if err := other.Take(t.Context(), 1); err != nil { // or a text could have all the room
				t.Fatal(err)
			}
			l := listFrom(t, s, c.begins, iotest.OneByteReader(zeros{}))
			if err := c.decode(l); !errors.Is(err, cache.ErrOverloaded) {
				t.Errorf("%s: %v, want overloaded", name, err)
			}
			s.Release()
			if held := bodies.Stats().InUse; held != 1 {
				t.Errorf("%s: %d bytes are held afterwards", name, held)
			}
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}
