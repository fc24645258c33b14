package balance

import (
	"errors"
	"net"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/idna"
)

// ParseURL reads an endpoint's URL as it is used: its host is the one that goes
// into the Host header, to the resolver and into TLS, in ASCII (RFC 5891), as
// package net/http has it. What checkURL passes can be read.
func ParseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, err
	}
	host, err := asciiHost(u.Hostname())
	if err != nil {
		return nil, err
	}
	if host != u.Hostname() {
		port := u.Port()
		if u.Host = host; port != "" {
			u.Host = net.JoinHostPort(host, port)
		}
	}
	if !httpguts.ValidHostHeader(u.Host) {
		return nil, errors.New("the host has characters that no name has")
	}
	return u, nil
}

// asciiHost is a host as the network knows it: "bücher.test" is
// "xn--bcher-kva.test". ASCII stays as it is, IP addresses too.
func asciiHost(host string) (string, error) {
	if isASCII(host) {
		return host, nil
	}
	ascii, err := idna.Lookup.ToASCII(host)
	if err != nil {
		return "", err
	}
	for label := range strings.SplitSeq(ascii, ".") {
		if len(label) > 63 {
			return "", errors.New("a part of the name is longer than 63 bytes")
		}
	}
	return ascii, nil
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}
