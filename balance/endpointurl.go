package balance

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

const (
	maxURLBytes  = 2048
	maxHostBytes = 253 // of a name in the DNS
	maxLabel     = 63
)

// ParseEndpointURL reads an endpoint's URL from the configuration, the API or
// Redis. The URL is http or https, a host (a name or an address), and
// optionally a port and a path, which is put in front of all paths. The
// result's host is in ASCII (RFC 5891), as package net/http sends it: it goes
// into the Host header, to the resolver and into TLS. The error shows the URL
// without a password.
func ParseEndpointURL(raw string) (*url.URL, error) {
	bad := func(why string) (*url.URL, error) { return nil, fmt.Errorf("%q: %s", shownURL(raw), why) }
	if len(raw) > maxURLBytes {
		return bad(fmt.Sprintf("must have at most %d bytes", maxURLBytes))
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return bad(parseProblem(err))
	case u.Scheme != "http" && u.Scheme != "https":
		return bad("must begin with http:// or https://")
	case u.User != nil:
		return bad("must not hold a user or password: use headers")
	case strings.ContainsAny(raw, "?#"):
		return bad("must not have a query or fragment")
	case u.Hostname() == "":
		return bad("has no host")
	}
	host, err := asciiHost(u.Hostname())
	if err != nil {
		return bad("the host must be a name that can be looked up: " + err.Error())
	}
	if why := checkHost(host); why != "" {
		return bad(why)
	}
	if u.Port() == "" && strings.HasSuffix(u.Host, ":") || u.Port() != "" && !isPort(u.Port()) {
		return bad(portProblem)
	}
	if host != u.Hostname() {
		port := u.Port()
		if u.Host = host; port != "" {
			u.Host = net.JoinHostPort(host, port)
		}
	}
	return u, nil
}

const portProblem = "the port must be a number from 1 to 65535"

// parseProblem says why package url refused a URL.
func parseProblem(err error) string {
	var one *url.Error
	if errors.As(err, &one) && strings.HasPrefix(one.Err.Error(), "invalid port ") {
		return portProblem
	}
	return "is not a URL (try http://127.0.0.1:8100)"
}

func isPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0
}

// checkHost says what is wrong with a host's name or address in ASCII. It
// returns "" for a good host.
func checkHost(host string) string {
	if _, err := netip.ParseAddr(host); err == nil {
		return ""
	}
	if len(host) > maxHostBytes {
		return fmt.Sprintf("the host must be of at most %d bytes", maxHostBytes)
	}
	for label := range strings.SplitSeq(strings.TrimSuffix(host, "."), ".") {
		if label == "" || len(label) > maxLabel || strings.ContainsFunc(label, notOfHost) {
			return fmt.Sprintf("the host must be an address, or names of letters, digits, '-' and '_' with dots between, each 1 to %d bytes", maxLabel)
		}
	}
	return ""
}

func notOfHost(r rune) bool {
	return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
}

// asciiHost is a host as the network knows it: "bücher.test" becomes
// "xn--bcher-kva.test". ASCII and IP addresses stay unchanged.
func asciiHost(host string) (string, error) {
	if isASCII(host) {
		return host, nil
	}
	if !utf8.ValidString(host) {
		return "", errors.New("it is not UTF-8")
	}
	return idna.Lookup.ToASCII(host)
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// credentials match all that stands before the last @: in a malformed URL a
// password may be in a part that looks like the path.
var credentials = regexp.MustCompile(`(?s)^((?:[A-Za-z][A-Za-z0-9+.-]*:)?/*)(.*)@`)

// shownURL is a URL that is safe to show: short, and without a password.
func shownURL(raw string) string {
	shown := credentials.ReplaceAllStringFunc(raw, func(s string) string {
		part := credentials.FindStringSubmatch(s)
		user, _, found := strings.Cut(part[2], ":")
		if !found {
			return s
		}
		return part[1] + user + ":xxxxx@"
	})
	if len(shown) > 200 {
		shown = strings.ToValidUTF8(shown[:200], "") + "…"
	}
	return shown
}
