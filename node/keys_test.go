package node_test

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"kring/node/nodetest"
)

// hostileKeys are keys as bytes, with the code of the refusal in a plain group
// and in a group with an origin; "" means accepted.
var hostileKeys = []struct {
	key         string
	plain, docs string
}{
	{"", "bad-key", "bad-key"},
	{".", "", "bad-key"},
	{"..", "", "bad-key"},
	{"a/../b", "", "bad-key"},
	{"a/b", "", ""},
	{"a%2Fb", "", ""},
	{"//a", "", ""},
	{"/a", "", ""},
	{"a/", "", ""},
	{"a b", "", ""},
	{"a+b", "", ""},
	{"a%20b", "", ""},
	{"%", "", ""},
	{"%zz", "", ""},
	{"#", "", ""},
	{"?", "", ""},
	{"a?b=c&d#e", "", ""},
	{"\"'\\<>|^`{}", "", ""},
	{"héllo", "", ""},
	{"🔑", "", ""},
	{"http://169.254.169.254/latest?x=1#y", "", ""},
	{"a\nb", "bad-key", "bad-key"},
	{"a\r\nX-Injected: yes", "bad-key", "bad-key"},
	{"a\x00b", "bad-key", "bad-key"},
	{"\xff\xfe", "bad-key", "bad-key"},
	{strings.Repeat("k", 1024), "", ""},
	{strings.Repeat("k", 1025), "key-too-long", "key-too-long"},
}

// pathOf is a key's path in a group, all escaped.
func pathOf(group, key string) string { return "/v1/cache/" + group + "/" + url.PathEscape(key) }

// wantRefusal checks a 4xx with its code.
func wantRefusal(t *testing.T, what string, r nodetest.Response, code string) {
	t.Helper()
	if r.Status < 400 || r.Status > 499 || !strings.Contains(r.Body, "/problems/"+code+`"`) {
		t.Errorf("%.60s: status %d, body %q, want a 4xx %s", what, r.Status, r.Body, code)
	}
}

// Through every node, the origin gets exactly the bytes of the key and one
// load, or the key is refused and nothing is sent.
func TestKeysReachTheOriginExactly(t *testing.T) {
	c := nodetest.Start(t, 3)
	c.Origin.Answer(func(w http.ResponseWriter, r *http.Request) {
		// The raw target of the request is decoded once.
		key, err := url.PathUnescape(strings.TrimPrefix(r.RequestURI, "/docs/"))
		if err != nil {
			t.Errorf("the origin got %q: %v", r.RequestURI, err)
		}
		_, _ = fmt.Fprint(w, strconv.Quote(key)) // other checks find a failure
	})
	for _, k := range hostileKeys {
		for _, n := range c.Nodes {
			r := c.Get(n, pathOf("docs", k.key))
			if k.docs != "" {
				wantRefusal(t, fmt.Sprintf("%q through %s", k.key, n.ID), r, k.docs)
			} else if r.Status != http.StatusOK || r.Body != strconv.Quote(k.key) {
				t.Errorf("%.40q through %s: status %d, body %.80s", k.key, n.ID, r.Status, r.Body)
			}
			wantCleanHeaders(t, r)
		}
		if want := map[bool]int{true: 1}[k.docs == ""]; c.Origin.Loads(k.key) != want {
			t.Errorf("%.40q: %d loads, want %d", k.key, c.Origin.Loads(k.key), want)
		}
	}
	for _, n := range c.Nodes {
		wantRefusal(t, "%zz in a path", rawGet(t, n, "/v1/cache/docs/%zz"), "bad-request")
		if log := n.Log(); strings.Contains(log, "kkkk") || strings.Contains(log, "169.254") || strings.ContainsRune(log, 0) || !utf8.ValidString(log) {
			t.Errorf("keys in the log of %s", n.ID)
		}
	}
}

// Values put at one node under each key are read through every node, one by one
// and in batches, where the keys are JSON text or bytes of a binary frame.
func TestKeysAreReadBackThroughEveryNode(t *testing.T) {
	c := nodetest.Start(t, 3)
	for i, k := range hostileKeys {
		r := c.Do(c.Nodes[i%3], http.MethodPut, pathOf("kv", k.key), fmt.Sprint("value ", i))
		if k.plain != "" {
			wantRefusal(t, fmt.Sprintf("put %q", k.key), r, k.plain)
		} else if r.Status != http.StatusCreated {
			t.Errorf("put %.40q: status %d: the key was taken for another one, or %s", k.key, r.Status, r.Body)
		}
	}
	for _, n := range c.Nodes {
		for i, k := range hostileKeys {
			r := c.Get(n, pathOf("kv", k.key))
			if k.plain != "" {
				wantRefusal(t, fmt.Sprintf("%q through %s", k.key, n.ID), r, k.plain)
			} else if r.Body != fmt.Sprint("value ", i) {
				t.Errorf("%.40q through %s: %d %q", k.key, n.ID, r.Status, r.Body)
			}
			wantCleanHeaders(t, r)
		}
		wantJSONBatch(t, c, n)
		wantBinaryBatch(t, c, n)
	}
	for i, k := range hostileKeys {
		if r := c.Do(c.Nodes[i%3], http.MethodDelete, pathOf("kv", k.key), ""); k.plain == "" && r.Status != http.StatusNoContent {
			t.Errorf("delete %.40q: %d", k.key, r.Status)
		}
	}
	for _, n := range c.Nodes {
		if b := c.Books(n); b.Entries != 0 {
			t.Errorf("%s has %d entries left: a delete was of another key", n.ID, b.Entries)
		}
	}
}

func wantJSONBatch(t *testing.T, c *nodetest.Cluster, n *nodetest.Node) {
	t.Helper()
	var keys []string
	var from []int
	for i, k := range hostileKeys {
		if k.key != "\xff\xfe" { // JSON cannot express it
			keys, from = append(keys, k.key), append(from, i)
		}
	}
	body, err := json.Marshal(map[string][]string{"keys": keys})
	if err != nil {
		t.Fatal(err)
	}
	r := c.Do(n, http.MethodPost, "/v1/batch/kv", string(body), "Content-Type", "application/json")
	var out struct {
		Entries []struct {
			Key    string
			Status int
			Code   string
			Value  string
		}
	}
	if err := json.Unmarshal([]byte(r.Body), &out); err != nil || len(out.Entries) != len(keys) {
		t.Fatalf("batch through %s: status %d, %d entries, %v", n.ID, r.Status, len(out.Entries), err)
	}
	for j, e := range out.Entries {
		k := hostileKeys[from[j]]
		value := ""
		if k.plain == "" {
			value = fmt.Sprint("value ", from[j])
		}
		if e.Key != k.key || e.Code != k.plain || e.Value != value {
			t.Errorf("batch through %s: %.40q became %d %s %q", n.ID, k.key, e.Status, e.Code, e.Value)
		}
	}
}

// wantBinaryBatch uses the batch form whose keys may be any bytes.
func wantBinaryBatch(t *testing.T, c *nodetest.Cluster, n *nodetest.Node) {
	t.Helper()
	const mediaType = "application/vnd.kring.batch"
	body := binary.BigEndian.AppendUint32([]byte{1, 1}, uint32(len(hostileKeys)))
	for _, k := range hostileKeys {
		body = append(binary.BigEndian.AppendUint32(body, uint32(len(k.key))), k.key...)
	}
	r := c.Do(n, http.MethodPost, "/v1/batch/kv", string(body), "Content-Type", mediaType, "Accept", mediaType)
	rest := r.Body
	if len(rest) < 5 || rest[0] != 1 || binary.BigEndian.Uint32([]byte(rest[1:])) != uint32(len(hostileKeys)) {
		t.Fatalf("binary batch through %s: status %d, %.80q", n.ID, r.Status, r.Body)
	}
	rest = rest[5:]
	for i, k := range hostileKeys {
		rest = rest[min(6, len(rest)):] // status and age
		var fields [6]string            // key, code, content type, content encoding, etag, value
		for f := range fields {
			if len(rest) < 4 {
				t.Fatalf("binary batch through %s ends within entry %d", n.ID, i)
			}
			length := min(int(binary.BigEndian.Uint32([]byte(rest))), len(rest)-4)
			fields[f], rest = rest[4:4+length], rest[4+length:]
		}
		value := ""
		if k.plain == "" {
			value = fmt.Sprint("value ", i)
		}
		if fields[0] != k.key || fields[1] != k.plain || fields[5] != value {
			t.Errorf("binary batch through %s: %.40q became %q", n.ID, k.key, fields)
		}
	}
	if rest != "" {
		t.Errorf("binary batch through %s: %d bytes follow", n.ID, len(rest))
	}
}

// rawGet sends a path that no HTTP client would send.
func rawGet(t *testing.T, n *nodetest.Node, path string) nodetest.Response {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(n.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: k\r\nConnection: close\r\n\r\n", path); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return nodetest.Response{Status: resp.StatusCode, Header: resp.Header, Body: string(body)}
}

func wantCleanHeaders(t *testing.T, r nodetest.Response) {
	t.Helper()
	if r.Header.Get("X-Injected") != "" {
		t.Error("a key became a header")
	}
	for name, values := range r.Header {
		if v := strings.Join(values, ""); strings.ContainsAny(v, "\r\n\x00") || !utf8.ValidString(v) || strings.Contains(v, "kkkk") {
			t.Errorf("header %s: %q", name, v)
		}
	}
}
