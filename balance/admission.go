package balance

import (
	"fmt"
	"net/url"
	"strings"
)

// barred names the rule of admission that keeps an endpoint added at run time
// out of the pool; "" means that no rule does. The text shows only scheme and
// host of the URL.
func (p *Pool) barred(raw string) string {
	u, err := ParseEndpointURL(raw)
	if err != nil {
		return "its URL cannot be read"
	}
	for _, e := range p.cfg.Endpoints {
		if c, err := ParseEndpointURL(e.URL); err == nil && c.Scheme == u.Scheme && strings.EqualFold(c.Host, u.Host) {
			return ""
		}
	}
	for _, rule := range p.allowed {
		if allows(rule, u) {
			return ""
		}
	}
	return fmt.Sprintf("%s://%s is not in auth.allowed_origin_hosts", u.Scheme, u.Host)
}

// allows reports whether a rule covers the host of u.
func allows(rule string, u *url.URL) bool {
	scheme, host, ok := strings.Cut(rule, "://")
	if !ok {
		host = scheme
	} else if !strings.EqualFold(scheme, u.Scheme) {
		return false
	}
	name := strings.ToLower(u.Hostname())
	host = ruleHost(host)
	if domain, ok := strings.CutPrefix(host, "*."); ok {
		return strings.HasSuffix(name, "."+domain)
	}
	return host == name || host == "["+name+"]" || host == strings.ToLower(u.Host)
}

// ruleHost brings a rule's host into the form that ParseEndpointURL returns:
// "*.bücher.test" allows www.xn--bcher-kva.test.
func ruleHost(rule string) string {
	star := ""
	if domain, ok := strings.CutPrefix(rule, "*."); ok {
		star, rule = "*.", domain
	}
	if u, err := ParseEndpointURL("http://" + rule); err == nil {
		rule = u.Host
	}
	return star + strings.ToLower(rule)
}

// CheckAllowedHost says what is wrong with an item of
// auth.allowed_origin_hosts. It returns "" for a good item.
func CheckAllowedHost(rule string) string {
	scheme, host, ok := strings.Cut(rule, "://")
	if !ok {
		scheme, host = "http", rule
	}
	u, err := url.Parse(scheme + "://" + host)
	switch {
	case scheme != "http" && scheme != "https":
		return "the scheme must be http or https"
	case err != nil || host == "" || u.Host != host || u.Hostname() == "":
		return "must be a host, host:port or *.domain"
	case strings.Contains(strings.TrimPrefix(u.Hostname(), "*."), "*"):
		return "a * stands for the first labels only"
	case strings.HasSuffix(u.Host, ":") || u.Port() != "" && !isPort(u.Port()):
		return portProblem
	}
	name, err := asciiHost(strings.TrimPrefix(u.Hostname(), "*."))
	if err != nil {
		return "the host is not a name that can be looked up"
	}
	return checkHost(name)
}
