package httpapi_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"kring/balance"
	"kring/httpapi"
)

// servePools starts a server with a pool docs of endpoints a and b, and an
// empty one, nobody.
func servePools(t *testing.T, change ...func(*setup)) *server {
	t.Helper()
	docs := balance.DefaultConfig()
	docs.Name, docs.Policy = "docs", "least_in_flight"
	docs.Health.MaxFails = 1
	docs.Endpoints = []balance.EndpointConfig{{Name: "a", URL: "http://127.0.0.1:8100", Weight: 1}, {Name: "b", URL: "http://127.0.0.1:8101", Weight: 1}}
	nobody := balance.DefaultConfig()
	nobody.Name = "nobody"
	var pools []*balance.Pool
	for _, cfg := range []balance.Config{docs, nobody} {
		p, err := balance.Open(cfg, balance.Options{AllowedHosts: []string{"127.0.0.1"}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		pools = append(pools, p)
	}
	return serve(t, append([]func(*setup){func(c *setup) { c.options.Pools = pools }}, change...)...)
}

// decoded is a JSON answer.
func decoded[T any](t *testing.T, a answer) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(a.body), &v); err != nil {
		t.Fatalf("%q: %v", a.body, err)
	}
	return v
}

type assignmentJSON struct {
	Assignment string
	Endpoint   struct{ Name, URL string }
	ExpiresIn  string `json:"expires_in"`
}

func inFlight(t *testing.T, s *server) string {
	t.Helper()
	got := ""
	for _, e := range decoded[balance.PoolStatus](t, s.do(t, "GET /v1/pools/docs")).Endpoints {
		got += fmt.Sprintf("%s%d ", e.Name, e.InFlight)
	}
	return strings.TrimSpace(got)
}

// TestAssignments is a worker's life with a pool.
func TestAssignments(t *testing.T) {
	s := servePools(t)
	made := s.do(t, "POST /v1/pools/docs/assignments")
	if made.StatusCode != 201 || made.Header.Get("Content-Type") != "application/json" || made.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%d %v %q", made.StatusCode, made.Header, made.body)
	}
	if !regexp.MustCompile(`^{"assignment":"[A-Z0-9]{26}","endpoint":{"name":"a","url":"http://127.0.0.1:8100"},"expires_in":"30s"}\n$`).MatchString(made.body) {
		t.Errorf("answer %q", made.body)
	}
	one := decoded[assignmentJSON](t, made)
	two := decoded[assignmentJSON](t, s.do(t, "POST /v1/pools/docs/assignments"))
	if two.Endpoint.Name != "b" || inFlight(t, s) != "a1 b1" {
		t.Errorf("second: %+v, in flight %s", two, inFlight(t, s))
	}
	path := "/v1/pools/docs/assignments/"
	if got := s.do(t, "PUT "+path+one.Assignment); got.StatusCode != 200 || got.body != "{\"expires_in\":\"30s\"}\n" {
		t.Errorf("renewal: %d %q", got.StatusCode, got.body)
	}
	for range 2 {
		if got := s.do(t, "DELETE "+path+one.Assignment); got.StatusCode != 204 || got.body != "" {
			t.Errorf("completion: %d %q", got.StatusCode, got.body)
		}
	}
	if got := inFlight(t, s); got != "a0 b1" {
		t.Errorf("in flight %s, want a0 b1", got)
	}
	if got := s.do(t, "PUT "+path+one.Assignment); got.StatusCode != 404 || !strings.Contains(got.body, "/problems/unknown-assignment") {
		t.Errorf("renewal of what is completed: %d %q", got.StatusCode, got.body)
	}
	if got := s.do(t, "DELETE "+path+"never-made"); got.StatusCode != 204 {
		t.Errorf("completion of what never was: %d", got.StatusCode)
	}
	if got := s.do(t, "DELETE "+path+two.Assignment+"?outcome=maybe"); got.StatusCode != 400 || inFlight(t, s) != "a0 b1" {
		t.Errorf("an unknown outcome: %d, in flight %s", got.StatusCode, inFlight(t, s))
	}
	if got := s.do(t, "DELETE "+path+two.Assignment+"?outcome=failed"); got.StatusCode != 204 {
		t.Errorf("a failure: %d", got.StatusCode)
	}
	pool := decoded[balance.PoolStatus](t, s.do(t, "GET /v1/pools/docs"))
	if b := pool.Endpoints[1]; b.Healthy || !b.Eligible || b.InFlight != 0 || b.Assigned != 1 || !strings.HasPrefix(b.Reason, "ejected") {
		t.Errorf("b is %+v after its failure", b)
	}
}

func TestNobodyIsEligible(t *testing.T) {
	s := servePools(t)
	got := s.do(t, "POST /v1/pools/nobody/assignments")
	if got.StatusCode != 503 || got.Header.Get("Retry-After") == "" || got.Header.Get("Content-Type") != "application/problem+json" ||
		!strings.Contains(got.body, "/problems/no-eligible-endpoint") {
		t.Errorf("%d %v %q", got.StatusCode, got.Header, got.body)
	}
}

func TestEndpoints(t *testing.T) {
	s := servePools(t)
	path := "/v1/pools/docs/endpoints/"
	const shape = "the body is not {"
	for _, step := range []struct {
		line, body string
		status     int
		want       string // of the answer's body
	}{
		{"PUT " + path + "c", `{"url":"http://127.0.0.1:8102","weight":2,"eligible":true}`, 201, `{"name":"c","url":"http://127.0.0.1:8102","weight":2,"current_weight":0,"eligible":true,"healthy":true,"reason":"","assigned":0,"in_flight":0}`},
		{"PUT " + path + "c", `{"weight":3}`, 204, ""},
		{"PUT " + path + "c", `{}`, 204, ""},
		{"PUT " + path + "b", `{"eligible":false}`, 204, ""},
		{"PUT " + path + "far", `{"url":"http://example.com"}`, 201, `"eligible":false,"healthy":true,"reason":"http://example.com is not in auth.allowed_origin_hosts"`},
		{"PUT " + path + "d", `{"weight":1}`, 400, "a new endpoint needs a url"},
		{"PUT " + path + "d", `{"url":"ftp://h"}`, 400, "must begin with http"},
		{"PUT " + path + "c", `{"weight":-1}`, 400, "weight: -1"},
		{"PUT " + path + "c", `{"weight":1.5}`, 400, shape},
		{"PUT " + path + "c", `{"wieght":1}`, 400, `\"wieght\" is not a member`},
		{"PUT " + path + "z", `{"URL":"http://127.0.0.1:8102"}`, 400, `\"URL\" is not a member`},
		{"PUT " + path + "z", `{"Url":"http://127.0.0.1:8102","url":"http://127.0.0.1:8102"}`, 400, `\"Url\" is not a member`},
		{"PUT " + path + "z", `{"\u0075rl":"http://127.0.0.1:8102","url":"http://127.0.0.1:8103"}`, 400, `\"url\" is there twice`},
		{"PUT " + path + "z", `{"url":"http://127.0.0.1:8102","url":"http://127.0.0.1:8102"}`, 400, `\"url\" is there twice`},
		{"PUT " + path + "c", `{"weight":1,"eligible":false,"weight":2}`, 400, `\"weight\" is there twice`},
		{"PUT " + path + "z", `{"":1}`, 400, `\"\" is not a member`},
		{"PUT " + path + "z", `{"` + strings.Repeat("x", 5000) + `":1}`, 400, `is not a member`},
		{"PUT " + path + "c", `{"url":null}`, 400, shape},
		{"PUT " + path + "c", `{"weight":null}`, 400, shape},
		{"PUT " + path + "c", `{"eligible":null}`, 400, shape},
		{"PUT " + path + "c", `{"eligible":"yes"}`, 400, shape},
		{"PUT " + path + "c", `{"weight":"1"}`, 400, shape},
		{"PUT " + path + "c", `{"weight":99999999999999999999}`, 400, shape},
		{"PUT " + path + "z", `{"url":{"url":"http://127.0.0.1"}}`, 400, shape},
		{"PUT " + path + "z", `{"url":` + strings.Repeat("[", 4000) + strings.Repeat("]", 4000) + `}`, 400, shape},
		{"PUT " + path + "z", `["url"]`, 400, shape},
		{"PUT " + path + "z", `"url"`, 400, shape},
		{"PUT " + path + "z", ``, 400, shape},
		{"PUT " + path + "z", `{"url":"http://127.0.0.1"`, 400, shape},
		{"PUT " + path + "z", `{"url":"http://127.0.0.1",}`, 400, shape},
		{"PUT " + path + "z", `{"url" "http://127.0.0.1"}`, 400, shape},
		{"PUT " + path + "z", "{\"url\":\"http://127.0.0.1\xff\"}", 400, "not UTF-8"},
		{"PUT " + path + "z", "\xef\xbb\xbf{}", 400, shape},
		{"PUT " + path + "c", `{} {}`, 400, "something follows"},
		{"PUT " + path + "c", `{}]`, 400, "something follows"},
		{"PUT " + path + "c", `{}x`, 400, "something follows"},
		{"PUT " + path + "c", `nonsense`, 400, shape},
		{"PUT " + path + "a", ` null`, 400, shape},
		{"PUT " + path + "z", `{"url":"http://127.0.0.1:0"}`, 400, "the port must be"},
		{"PUT " + path + "z", `{"url":"http://127.0.0.1:99999"}`, 400, "the port must be"},
		{"PUT " + path + "z", `{"url":"http://u:secret@127.0.0.1"}`, 400, "must not hold a user"},
		{"PUT " + path + "c", "{\"url\":\"" + strings.Repeat("x", 9000) + "\"}", 413, "value-too-large"},
		{"PUT " + path + "-c", `{"url":"http://127.0.0.1"}`, 400, "name must be"},
		{"PUT " + path + "a%2Fb", `{"url":"http://127.0.0.1"}`, 400, "name must be"},
		{"DELETE " + path + "a", "", 204, ""},
		{"DELETE " + path + "a", "", 204, ""},
	} {
		got := s.raw(t, request(step.line, nil, step.body))
		if got.StatusCode != step.status || !strings.Contains(got.body, step.want) || len(got.body) > 1000 || strings.Contains(got.body, "secret") {
			t.Errorf("%s %.60s: %d %q, want %d with %q", step.line, step.body, got.StatusCode, got.body, step.status, step.want)
		}
	}
	all := s.do(t, "GET /v1/pools/docs").body
	for _, want := range []string{
		`{"name":"b","url":"http://127.0.0.1:8101","weight":1,"current_weight":0,"eligible":false,"healthy":true,"reason":"taken out by the operator","assigned":0,"in_flight":0}`,
		`{"name":"c","url":"http://127.0.0.1:8102","weight":3,"current_weight":0,"eligible":true,"healthy":true,"reason":"","assigned":0,"in_flight":0}`,
		`"eligible":false,"healthy":true,"reason":"http://example.com is not in auth.allowed_origin_hosts"`,
	} {
		if !strings.Contains(all, want) {
			t.Errorf("%s\nlacks %s", all, want)
		}
	}
	if strings.Contains(all, `"name":"a"`) {
		t.Errorf("a is still there: %s", all)
	}
	for range 3 {
		if got := decoded[assignmentJSON](t, s.do(t, "POST /v1/pools/docs/assignments")); got.Endpoint.Name != "c" {
			t.Errorf("assigned to %+v, want c", got.Endpoint)
		}
	}
}

// The answer to PUT of an endpoint that is not used says so, and why: in the
// body, where it has one, and in a header.
func TestPutOfAnEndpointThatIsNotUsedSaysWhy(t *testing.T) {
	s := servePools(t)
	path := "/v1/pools/docs/endpoints/"
	for _, step := range []struct {
		name, body string
		status     int
		why        string
	}{
		{"far", `{"url":"http://example.com:8080"}`, 201, "http://example.com:8080 is not in auth.allowed_origin_hosts"},
		{"far", `{"weight":2}`, 204, "http://example.com:8080 is not in auth.allowed_origin_hosts"},
		{"far", `{"url":"http://127.0.0.1:8102"}`, 204, ""},
		{"far", `{"url":"https://example.com"}`, 204, "https://example.com is not in auth.allowed_origin_hosts"},
		{"out", `{"url":"http://127.0.0.1:8103","eligible":false}`, 201, "taken out by the operator"},
		{"out", `{"eligible":true}`, 204, ""},
		{"none", `{"url":"http://127.0.0.1:8104","weight":0}`, 201, "weight is 0"},
		{"well", `{"url":"http://127.0.0.1:8105"}`, 201, ""},
	} {
		got := s.raw(t, request("PUT "+path+step.name, nil, step.body))
		if got.StatusCode != step.status || got.Header.Get("Kring-Reason") != step.why || got.Header.Get("Kring-Node") == "" {
			t.Errorf("%s %s: %d, reason %q; want %d, %q", step.name, step.body, got.StatusCode, got.Header.Get("Kring-Reason"), step.status, step.why)
		}
		if step.status == 204 {
			continue
		}
		if e := decoded[balance.EndpointStatus](t, got); e.Name != step.name || e.Eligible != (step.why == "") || e.Reason != step.why {
			t.Errorf("%s: the body is %s", step.name, got.body)
		}
	}
}

// The number of endpoints of a pool is bounded. Present endpoints can be changed,
// and a removed endpoint makes room.
func TestEndpointsOfAPoolAreLimited(t *testing.T) {
	s := servePools(t)
	path := "/v1/pools/docs/endpoints/"
	put := func(name string) answer {
		return s.raw(t, request("PUT "+path+name, nil, `{"url":"http://127.0.0.1:8102"}`))
	}
	for i := 2; i < balance.MaxEndpoints; i++ { // a and b are configured
		if got := put(fmt.Sprint("e", i)); got.StatusCode != 201 {
			t.Fatalf("endpoint %d: %d %q", i, got.StatusCode, got.body)
		}
	}
	if got := put("more"); got.StatusCode != 409 || !strings.Contains(got.body, "/problems/too-many-endpoints") || !strings.Contains(got.body, "at most 1000") {
		t.Errorf("one more than there may be: %d %q", got.StatusCode, got.body)
	}
	if got := put("e2"); got.StatusCode != 204 {
		t.Errorf("a change of one that is there: %d %q", got.StatusCode, got.body)
	}
	if got := s.do(t, "DELETE "+path+"e2"); got.StatusCode != 204 {
		t.Errorf("removal: %d", got.StatusCode)
	}
	if got := put("more"); got.StatusCode != 201 {
		t.Errorf("one in place of another: %d %q", got.StatusCode, got.body)
	}
}

// poolRequests is each of the routes that change a pool, with the role it needs.
var poolRequests = []struct{ line, body, role string }{
	{"POST /v1/pools/%s/assignments", "", "write"},
	{"PUT /v1/pools/%s/assignments/x", "", "write"},
	{"DELETE /v1/pools/%s/assignments/x", "", "write"},
	{"PUT /v1/pools/%s/endpoints/c", `{"url":"http://127.0.0.1"}`, "admin"},
	{"DELETE /v1/pools/%s/endpoints/c", "", "admin"},
}

func TestUnknownPools(t *testing.T) {
	s := servePools(t)
	for _, r := range poolRequests {
		got := s.raw(t, request(fmt.Sprintf(r.line, "unheard-of"), nil, r.body))
		if got.StatusCode != 404 || !strings.Contains(got.body, "/problems/unknown-pool") {
			t.Errorf("%s: %d %q", r.line, got.StatusCode, got.body)
		}
		got = s.raw(t, request(fmt.Sprintf(r.line, "docs"), []string{"Sec-Fetch-Site: cross-site"}, r.body))
		if got.StatusCode != 403 {
			t.Errorf("%s from another site's page: %d", r.line, got.StatusCode)
		}
	}
}

func TestPoolRoles(t *testing.T) {
	rank := map[string]int{"": 0, "read": 1, "write": 2, "admin": 3}
	s := servePools(t, func(c *setup) {
		for _, role := range []string{"read", "write", "admin"} {
			c.options.Auth.Tokens = append(c.options.Auth.Tokens, httpapi.Token{Name: role, Role: role, TokenFile: file(t, "token-"+role)})
		}
	})
	for _, r := range poolRequests {
		for role := range rank {
			header := []string{"Authorization: Bearer token-" + role}
			if role == "" {
				header = nil
			}
			got := s.raw(t, request(fmt.Sprintf(r.line, "docs"), header, r.body)).StatusCode
			refused := got == 401 || got == 403
			if refused != (rank[role] < rank[r.role]) || (role == "") != (got == 401) {
				t.Errorf("%s with role %q: %d", r.line, role, got)
			}
		}
	}
}

// A pool whose shared state cannot be reached still assigns, but refuses changes
// that all processes would have to know.
func TestDegradedPool(t *testing.T) {
	redis := balance.DefaultRedisConfig()
	redis.Address = "127.0.0.1:1" // nobody listens there
	r, err := balance.DialRedis(redis, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closed(t, r) })
	cfg := balance.DefaultConfig()
	cfg.Name, cfg.Policy, cfg.State, cfg.Lease = "docs", "least_in_flight", "redis", time.Minute
	cfg.Endpoints = []balance.EndpointConfig{{Name: "a", URL: "http://127.0.0.1:8100", Weight: 1}}
	p, err := balance.Open(cfg, balance.Options{Redis: r})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	s := serve(t, func(c *setup) { c.options.Pools = []*balance.Pool{p} })
	made := s.do(t, "POST /v1/pools/docs/assignments")
	if made.StatusCode != 201 || decoded[assignmentJSON](t, made).ExpiresIn != "1m0s" {
		t.Errorf("assignment: %d %q", made.StatusCode, made.body)
	}
	id := decoded[assignmentJSON](t, made).Assignment
	if got := s.do(t, "PUT /v1/pools/docs/assignments/"+id); got.StatusCode != 200 {
		t.Errorf("renewal: %d", got.StatusCode)
	}
	if got := s.do(t, "DELETE /v1/pools/docs/assignments/"+id); got.StatusCode != 204 {
		t.Errorf("completion: %d", got.StatusCode)
	}
	for _, r := range poolRequests[1:] {
		got := s.raw(t, request(fmt.Sprintf(r.line, "docs"), nil, r.body))
		if got.StatusCode != 503 || got.Header.Get("Retry-After") == "" || !strings.Contains(got.body, "/problems/pool-degraded") {
			t.Errorf("%s: %d %q", r.line, got.StatusCode, got.body)
		}
	}
	pool := s.do(t, "GET /v1/pools/docs").body
	if !strings.Contains(pool, `"state":"redis","degraded":true`) || !strings.Contains(pool, `"outages":1,"local_picks":1`) {
		t.Errorf("pool %s", pool)
	}
	metrics := s.do(t, "GET /metrics").body
	for _, want := range []string{`kring_pool_degraded{pool="docs"} 1`, `kring_pool_outages_total{pool="docs"} 1`, `kring_pool_local_picks_total{pool="docs"} 1`} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("metrics lack %s", want)
		}
	}
}
