package balance_test

import (
	"errors"
	"strings"
	"testing"

	"kring/balance"
)

func TestHostsAreASCII(t *testing.T) {
	for raw, want := range map[string]string{
		"http://bücher.test:8080":            "xn--bcher-kva.test:8080",
		"http://bücher.test":                 "xn--bcher-kva.test",
		"http://BÜCHER.test/path":            "xn--bcher-kva.test",
		"http://b%C3%BCcher.test":            "xn--bcher-kva.test",
		"https://例え.テスト:8443":                "xn--r8jz45g.xn--zckzah:8443",
		"http://bücher。test":                 "xn--bcher-kva.test",
		"http://１２７.０.０.１:80":                "127.0.0.1:80",
		"http://xn--bcher-kva.test":          "xn--bcher-kva.test",
		"http://Plain.test:80":               "Plain.test:80", // ASCII stays unchanged
		"http://a_b.test":                    "a_b.test",
		"http://[::1]:8080":                  "[::1]:8080",
		"http://127.0.0.1:8100":              "127.0.0.1:8100",
		"http://ü" + strings.Repeat("ü", 70): "",
		"http://a\u00a0b.test":               "",
		"http://-ü-.test":                    "",
		"http://xn--ü.test":                  "",
		"http://a\"b.test":                   "",
		"http://bü|cher.test":                "",
	} {
		u, err := balance.ParseEndpointURL(raw)
		switch {
		case want == "" && err == nil:
			t.Errorf("%s: host %s, want an error", raw, u.Host)
		case want != "" && (err != nil || u.Host != want):
			t.Errorf("%s: %v, %v; want the host %s", raw, u, err, want)
		}

		// The configuration and the API refuse a URL that cannot be used.
		cfg := config("round_robin", 1)
		cfg.Endpoints[0].URL = raw
		if err := cfg.Validate(); (err == nil) != (want != "") || err != nil && !strings.Contains(err.Error(), "endpoints[a].url") {
			t.Errorf("%s in the configuration: %v", raw, err)
		}
		p := openLocal(t, config("round_robin", 1))
		var bad *balance.ChangeError
		if _, err := p.PutEndpoint(t.Context(), "new", balance.EndpointChange{URL: &raw}); (err == nil) != (want != "") || err != nil && !errors.As(err, &bad) {
			t.Errorf("%s over HTTP: %v", raw, err)
		}
	}
}
