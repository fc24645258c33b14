package httpapi

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"kring/cache"
	"kring/cluster"
	"kring/membership"
	"kring/peers"
)

// newTestAPI is an API without a listener.
func newTestAPI(t testing.TB) *API {
	t.Helper()
	c, err := cache.New(cache.Options{
		Node: "kring-1", Config: cache.DefaultConfig(), Groups: []cache.GroupConfig{{Name: "kv"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	p, err := peers.New(peers.Options{
		Self: membership.Member{ID: "kring-1", URL: "http://127.0.0.1:8001", Weight: 1}, Config: membership.DefaultConfig(),
	})
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(Options{Node: "kring-1", Cluster: cluster.New(c, p), Peers: p, Limits: DefaultLimits()})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func loadOpenAPI(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(openapiYAML)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return doc
}

// TestOpenAPIHasEachRoute compares the document with the engine, both ways.
func TestOpenAPIHasEachRoute(t *testing.T) {
	doc := loadOpenAPI(t)
	parameter := regexp.MustCompile(`[:*]([a-z]+)`)
	var routed, written []string
	for _, r := range newTestAPI(t).newEngine().Routes() {
		if r.Method != "HEAD" { // as GET, says the document
			routed = append(routed, r.Method+" "+parameter.ReplaceAllString(r.Path, "{$1}"))
		}
	}
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			written = append(written, method+" "+path)
		}
	}
	slices.Sort(routed)
	slices.Sort(written)
	if !slices.Equal(routed, written) {
		t.Errorf("routed\n%s\nwritten\n%s", strings.Join(routed, "\n"), strings.Join(written, "\n"))
	}
}

// TestOpenAPIHasEachRole: the document says which token a route wants.
func TestOpenAPIHasEachRole(t *testing.T) {
	doc := loadOpenAPI(t)
	parameter := regexp.MustCompile(`[:*]([a-z]+)`)
	for _, rt := range newTestAPI(t).routes() {
		op := doc.Paths.Find(parameter.ReplaceAllString(rt.path, "{$1}")).GetOperation(rt.method)
		want, open := "", rt.need == roleNone
		for name, r := range roles {
			if r == rt.need {
				want = name
			}
		}
		got, _ := op.Extensions["x-role"].(string)
		if got != want || open != (op.Security != nil) {
			t.Errorf("%s %s: x-role %q, want %q; open %v, want %v", rt.method, rt.path, got, want, op.Security != nil, open)
		}
		for _, status := range []int{401, 429} { // what a token can be refused with
			if !open && op.Responses.Status(status) == nil {
				t.Errorf("%s %s: no %d is written", rt.method, rt.path, status)
			}
		}
	}
}

// TestOpenAPIHasEachError compares the document's table of problems with the
// node's, both ways.
func TestOpenAPIHasEachError(t *testing.T) {
	text := loadOpenAPI(t).Components.Schemas["problem"].Value.Description
	var had, written []string
	for code, f := range failures {
		if f.status != statusClientGone { // which nobody receives
			had = append(had, strconv.Itoa(f.status)+" "+string(code))
		}
	}
	for _, row := range regexp.MustCompile(`(?m)^\| (\d+) \| (.*) \|$`).FindAllStringSubmatch(text, -1) {
		for _, code := range regexp.MustCompile("`([a-z-]+)`").FindAllStringSubmatch(row[2], -1) {
			written = append(written, row[1]+" "+code[1])
		}
	}
	slices.Sort(had)
	slices.Sort(written)
	if !slices.Equal(had, written) {
		t.Errorf("the node has\n%s\nwritten\n%s", strings.Join(had, "\n"), strings.Join(written, "\n"))
	}
}
