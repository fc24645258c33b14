package balance_test

import (
	"errors"
	"strings"
	"testing"

	"kring/balance"
)

// There is one validation: the configuration and the API refuse and accept the
// same URLs, in the same words.
func TestURLsOfEndpointsAreCheckedAlikeEverywhere(t *testing.T) {
	const (
		port, host    = "the port must be a number from 1 to 65535", "the host must be"
		scheme, noURL = "must begin with http:// or https://", "is not a URL"
		user, query   = "must not hold a user or password", "must not have a query or fragment"
	)
	for raw, why := range map[string]string{
		"http://h":                              "",
		"https://h.test:65535":                  "",
		"http://h:1/base/path/":                 "",
		"HTTP://H.Test.":                        "",
		"http://a_b-c.test":                     "",
		"http://127.0.0.1:8100":                 "",
		"http://[::1]:80":                       "",
		"http://[fe80::1%25eth0]:80":            "",
		"http://h:0":                            port,
		"http://h:00":                           port,
		"http://h:65536":                        port,
		"http://h:99999":                        port,
		"http://h:99999999999999999999":         port,
		"http://h:":                             port,
		"http://h:http":                         port,
		"http://h:-1":                           port,
		"http://h:+1":                           port,
		"http://[::1]:0":                        port,
		"":                                      scheme,
		"h":                                     scheme,
		"h:80":                                  scheme,
		"//h":                                   scheme,
		"ftp://h":                               scheme,
		"unix:///sock":                          scheme,
		"http:h":                                "has no host",
		"http:/h":                               "has no host",
		"http://":                               "has no host",
		"http:///path":                          "has no host",
		"http://:80":                            "has no host",
		"http://[]:80":                          noURL,
		"http://u@h":                            user,
		"http://u:secret@h":                     user,
		"http://:secret@h":                      user,
		"http://@h":                             user,
		"http://h?":                             query,
		"http://h/?q":                           query,
		"http://h#":                             query,
		"http://h/#f":                           query,
		"http://h\n":                            noURL,
		"http://h/\r\nHost: evil":               noURL,
		"http://h\x00":                          noURL,
		"http://h\x7f/":                         noURL,
		" http://h":                             noURL,
		"http://a b":                            noURL,
		"http://h\t":                            noURL,
		"http://h/%zz":                          noURL,
		"http://[::1":                           noURL,
		"http://u:secret@h:x":                   port,
		"http://u:secret@h/%zz":                 noURL,
		"http://u:sec/secret@h":                 port,
		"http://a..b":                           host,
		"http://.h":                             host,
		"http://.":                              host,
		"http://h*":                             host,
		"http://*.h":                            host,
		"http://h<x>":                           host,
		`http://h"x"`:                           host,
		"http://h,i":                            host,
		"http://[::g]":                          noURL,
		"http://%ff":                            host,
		"http://" + strings.Repeat("x", 64):     host,
		"http://" + strings.Repeat("x.", 150):   host,
		"http://h/" + strings.Repeat("x", 3000): "must have at most 2048 bytes",
		"http://" + strings.Repeat("x", 63):     "",
		"http://" + strings.Repeat(strings.Repeat("x", 63)+".", 3) + strings.Repeat("x", 61): "", // 253 bytes
		"http://" + strings.Repeat(strings.Repeat("x", 63)+".", 3) + strings.Repeat("x", 62): "the host must be of at most 253 bytes",
		"http://h/" + strings.Repeat("x", 2039):                                              "", // 2048 bytes
		"http://h/" + strings.Repeat("x", 2040):                                              "must have at most 2048 bytes",
		"http://h\u00a0x":                                                                    host,
		"http://h\u202ex":                                                                    host,
		"http://u:secret@h" + strings.Repeat("x", 3000):                                      "must have at most 2048 bytes",
	} {
		cfg := config("round_robin", 1)
		cfg.Endpoints[0].URL = raw
		_, inFile := balance.New(cfg, nil)
		p := newPool(t, config("round_robin", 1))
		_, overHTTP := p.PutEndpoint(t.Context(), "z", balance.EndpointChange{URL: &raw})
		if why == "" {
			if inFile != nil || overHTTP != nil {
				t.Errorf("%q is refused: %v; %v", raw, inFile, overHTTP)
			}
			continue
		}
		var bad *balance.ChangeError
		if inFile == nil || !strings.Contains(inFile.Error(), why) || !errors.As(overHTTP, &bad) {
			t.Errorf("%.80q: %v; %v; want both refused: %s", raw, inFile, overHTTP, why)
			continue
		}
		if file, http := strings.TrimPrefix(inFile.Error(), "pools[test].endpoints[a]."), overHTTP.Error(); file != http {
			t.Errorf("%.80q: the file says %s, HTTP says %s", raw, file, http)
		}
		if msg := inFile.Error(); strings.Contains(msg, "secret") || strings.ContainsAny(msg, "\n\r\x00") || len(msg) > 600 {
			t.Errorf("%.80q: the message %q shows a password, has several lines, or is long", raw, msg)
		}
	}
}

// FuzzEndpointURL: an accepted URL can stand in a request, and parses to the
// same again.
func FuzzEndpointURL(f *testing.F) {
	for _, raw := range []string{"http://h", "https://u:p@h:0/x?y#z", "http://[::1%25a]:80", "http://b\u00fccher.test/\u00e4"} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := balance.ParseEndpointURL(raw)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\r\n") {
				t.Errorf("%q: message %q", raw, err)
			}
			return
		}
		if u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.ContainsAny(u.Host+u.EscapedPath(), " \r\n\x00") {
			t.Errorf("%q is accepted as %+v", raw, u)
		}
		if again, err := balance.ParseEndpointURL(u.String()); err != nil || again.Host != u.Host || again.Path != u.Path {
			t.Errorf("%q is written %q and read as %+v, %v", raw, u, again, err)
		}
	})
}
