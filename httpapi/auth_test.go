package httpapi_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"kring/httpapi"
)

// tokens configures one token of each role, an admin's as its sum, and one of
// a single group.
func tokens(t testing.TB) func(*setup) {
	sum := sha256.Sum256([]byte("admin-token"))
	auth := httpapi.Auth{Tokens: []httpapi.Token{
		{Name: "reader", TokenFile: file(t, "read-token\n"), Role: "read"},
		{Name: "writer", TokenFile: file(t, "write-token"), Role: "write"},
		{Name: "ops", TokenFile: file(t, "sha256:"+hex.EncodeToString(sum[:])+"\n"), Role: "admin"},
		{Name: "shop", TokenFile: file(t, "kv-token\n"), Role: "admin", Groups: []string{"kv"}},
	}}
	return func(c *setup) { c.options.Auth = auth }
}

// TestRoles asks for everything with every token: each route wants its role,
// and no more.
func TestRoles(t *testing.T) {
	s := serve(t, tokens(t))
	const none, read, write, admin, kv = "", "read-token", "write-token", "admin-token", "kv-token"
	all := []string{none, read, write, admin, kv}
	for _, c := range []struct {
		line    string
		body    string
		allowed []string
	}{
		{"GET /healthz", "", all},
		{"GET /livez", "", all},
		{"GET /readyz", "", all},
		{"GET /openapi.yaml", "", all},
		{"GET /metrics", "", []string{read, write, admin, kv}},
		{"GET /v1/stats", "", []string{read, write, admin, kv}},
		{"GET /v1/cluster", "", []string{read, write, admin, kv}},
		{"GET /v1/pools", "", []string{read, write, admin, kv}},
		{"GET /v1/explain/kv/a", "", []string{read, write, admin, kv}},
		{"GET /v1/explain/docs/a", "", []string{read, write, admin}},
		{"GET /v1/cache/kv/a", "", []string{read, write, admin, kv}},
		{"HEAD /v1/cache/kv/a", "", []string{read, write, admin, kv}},
		{"GET /v1/cache/docs/a", "", []string{read, write, admin}},
		{"POST /v1/batch/kv", `{"keys":["a"]}`, []string{read, write, admin, kv}},
		{"POST /v1/batch/docs", `{"keys":["a"]}`, []string{read, write, admin}},
		{"POST /v1/batch/kv", `{"delete":["a"]}`, []string{write, admin, kv}},
		{"PUT /v1/cache/kv/a", "x", []string{write, admin, kv}},
		{"PUT /v1/cache/other/a", "x", []string{write, admin}},
		{"DELETE /v1/cache/kv/a", "", []string{write, admin, kv}},
		{"DELETE /v1/cache/kv", "", []string{admin, kv}},
		{"DELETE /v1/cache/other", "", []string{admin}},
		{"POST /v1/purge/kv", `{"tags":["a"]}`, []string{admin, kv}},
		{"POST /v1/purge/other", `{"tags":["a"]}`, []string{admin}},
		// The name of a group is not what its path looks like.
		{"DELETE /v1/cache/othe%72", "", []string{admin}},
		{"PUT /v1/cache/%6Fther/a", "x", []string{write, admin}},
		{"GET /debug/pprof/cmdline", "", []string{admin, kv}},
	} {
		for _, token := range all {
			header := []string{"X-Test: true"}
			if token != none {
				header = append(header, "Authorization: bearer "+token)
			}
			got := s.raw(t, request(c.line, header, c.body))
			refused := got.StatusCode == 401 || got.StatusCode == 403
			allowed := false
			for _, a := range c.allowed {
				allowed = allowed || a == token
			}
			if refused == allowed {
				t.Errorf("%s with %q: %d", c.line, token, got.StatusCode)
			}
			if want := map[bool]int{true: 401, false: 403}[token == none]; refused && got.StatusCode != want {
				t.Errorf("%s with %q: %d, want %d", c.line, token, got.StatusCode, want)
			}
			if challenge := got.Header.Get("WWW-Authenticate"); (got.StatusCode == 401) != (challenge != "") {
				t.Errorf("%s with %q: %d and WWW-Authenticate %q", c.line, token, got.StatusCode, challenge)
			}
		}
	}
}

func TestARefusalNamesBothRoles(t *testing.T) {
	s := serve(t, tokens(t))
	got := s.do(t, "DELETE /v1/cache/kv", "Authorization: Bearer write-token")
	if want := "this needs the role admin, and the token has the role write"; !strings.Contains(got.body, want) {
		t.Errorf("%s does not say %q", got.body, want)
	}
}

func TestWrongTokens(t *testing.T) {
	s := serve(t, tokens(t))
	for _, header := range []string{
		"Authorization: Bearer", "Authorization: Bearer ", "Authorization: Bearer nobody", "Authorization: Basic read-token",
		"Authorization: read-token", "Authorization: Bearer read-toke", "Authorization: Bearer read-token2",
		"Authorization: Bearer read-token\r\nAuthorization: Bearer read-token",
		"X-Authorization: Bearer read-token",
	} {
		if got := s.do(t, "GET /v1/cache/kv/a", header); got.StatusCode != 401 {
			t.Errorf("%q: %d", header, got.StatusCode)
		}
	}
	if strings.Contains(s.log.String(), "-token") {
		t.Error("the log has a token in it")
	}
}

func TestRatePerToken(t *testing.T) {
	s := serve(t, tokens(t), func(c *setup) { c.options.Limits.RatePerToken = 0.001 }) // one, and then none for long
	ask := func(token string) answer { return s.do(t, "GET /v1/cache/docs/a", "Authorization: Bearer "+token) }
	if got := ask("read-token"); got.StatusCode != 200 {
		t.Fatalf("the first: %d", got.StatusCode)
	}
	got := ask("read-token")
	if got.StatusCode != 429 || !strings.Contains(got.body, "/problems/rate-limited") || got.Header.Get("Retry-After") == "" {
		t.Errorf("the second: %d %q, Retry-After %q", got.StatusCode, got.body, got.Header.Get("Retry-After"))
	}
	if got := ask("write-token"); got.StatusCode != 200 {
		t.Errorf("another token: %d", got.StatusCode)
	}
}

func TestBadTokens(t *testing.T) {
	good := file(t, "secret")
	for name, c := range map[string]struct {
		tokens []httpapi.Token
		want   string
	}{
		"no file":       {[]httpapi.Token{{TokenFile: "/does/not/exist", Role: "read"}}, "auth.tokens[0].token_file"},
		"no role":       {[]httpapi.Token{{TokenFile: good}}, `auth.tokens[0].role: ""`},
		"unknown role":  {[]httpapi.Token{{TokenFile: good, Role: "root"}}, `"root"`},
		"empty":         {[]httpapi.Token{{TokenFile: file(t, "\n"), Role: "read"}}, "auth.tokens[0].token_file"},
		"two lines":     {[]httpapi.Token{{TokenFile: file(t, "a\nb\n"), Role: "read"}}, "one line"},
		"half a sum":    {[]httpapi.Token{{TokenFile: file(t, "sha256:abcd"), Role: "read"}}, "64"},
		"bad group":     {[]httpapi.Token{{TokenFile: good, Role: "read", Groups: []string{"A"}}}, `auth.tokens[0].groups: "A"`},
		"the same, too": {[]httpapi.Token{{TokenFile: good, Role: "read"}, {TokenFile: good, Role: "admin"}}, "auth.tokens[1].token_file"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t)
			o := s.options
			o.Auth = httpapi.Auth{Tokens: c.tokens}
			_, err := httpapi.New(o)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %s", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the error has the token in it: %v", err)
			}
		})
	}
}
