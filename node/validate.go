package node

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"kring/balance"
	"kring/cache"
	"kring/origin"
)

// FieldError is an impossible setting. Field is its dotted name, with list
// items by their name (groups[docs].ttl). Problem says what is wrong, with the
// value.
type FieldError struct {
	Field   string
	Problem string
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Problem }

// asField turns another package's error into a FieldError. By the rule of this
// project its message begins with the field.
func asField(err error) error {
	if err == nil {
		return nil
	}
	if field, problem, ok := strings.Cut(err.Error(), ": "); ok && !strings.Contains(field, " ") {
		return &FieldError{Field: field, Problem: problem}
	}
	return err
}

// check returns a FieldError unless ok.
func check(ok bool, field, format string, args ...any) error {
	if ok {
		return nil
	}
	return &FieldError{Field: field, Problem: fmt.Sprintf(format, args...)}
}

// Validate reports a setting that cannot work, alone or with others. The error
// is a *FieldError, the first of Faults.
func (c Config) Validate() error { return firstOf(c.Faults()...) }

// Faults are the settings that cannot work: the first one of each part of the
// configuration.
func (c Config) Faults() []error { return c.faults(c.validateOwnCluster) }

// FaultsShared is Faults for commands that only check a configuration. The
// configuration may be Shared, and the caller must call CheckAddress.
func (c Config) FaultsShared() []error { return c.faults(c.validateSharedCluster) }

func (c Config) faults(cluster func() error) (faults []error) {
	add := func(errs ...error) {
		for _, err := range errs {
			if err != nil {
				faults = append(faults, asField(err))
			}
		}
	}
	add(c.validateIdentity(), c.validateUnavailable(), c.validateSecret(), cluster(), c.validateCache())
	add(c.validatePools()...)
	add(c.validateGroups()...)
	add(c.validateAuth()...)
	add(c.validateLimits(), c.validateLog())
	told := map[string]bool{}
	for _, err := range faults {
		if fault, ok := errors.AsType[*FieldError](err); ok {
			told[fault.Field] = true
		}
	}
	for _, err := range c.validateRanges() {
		if fault, ok := errors.AsType[*FieldError](err); ok && !told[fault.Field] {
			add(err)
		}
	}
	return faults
}

func (c Config) validateIdentity() error {
	if _, _, err := splitAddress(c.Node.Listen); err != nil {
		return &FieldError{"node.listen", err.Error()}
	}
	if c.Node.Advertise == "" {
		return nil
	}
	return checkURL("node.advertise", c.Node.Advertise)
}

// validateSecret refuses a secret of white space, as from a file with a blank
// line, because it is easy to guess. The error does not show it.
func (c Config) validateSecret() error {
	return check(c.Cluster.Secret == "" || strings.TrimSpace(c.Cluster.Secret) != "", "cluster.secret", "is nothing but white space")
}

// splitAddress splits host:port. The port must be a number.
func splitAddress(address string) (host string, port int, err error) {
	host, number, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, fmt.Errorf("%q is not host:port (try 127.0.0.1:8001)", address)
	}
	port, err = strconv.Atoi(number)
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("%q: the port must be a number from 0 to 65535", address)
	}
	if strings.ContainsAny(host, " \t/\\@") {
		return "", 0, fmt.Errorf("%q is not host:port (try 127.0.0.1:8001)", address)
	}
	return host, port, nil
}

func checkURL(field, text string) error {
	u, err := url.Parse(text)
	return check(err == nil && portOf(u) && u.Scheme == "http" && u.Hostname() != "" && u.User == nil && strings.Trim(u.Path, "/") == "" && u.RawQuery == "" && u.Fragment == "",
		field, "%q is not a URL of the form http://host:port", text)
}

// portOf reports whether the port of a URL, if it has one, is valid.
func portOf(u *url.URL) bool {
	if u.Port() == "" {
		return true
	}
	port, err := strconv.Atoi(u.Port())
	return err == nil && port >= 1 && port <= 65535
}

func (c Config) validateCache() error {
	k := c.Cache
	return firstOf(
		k.Validate(),
		check(k.MaxValueBytes <= k.MaxBytes, "cache.max_value_bytes", "%d is more than cache.max_bytes, %d", k.MaxValueBytes, k.MaxBytes),
	)
}

func (c Config) validateGroups() (errs []error) {
	seen := map[string]bool{}
	for _, g := range c.Groups {
		at := "groups[" + g.Name + "]."
		err := firstOf(
			g.Validate(),
			check(!seen[g.Name], at+"name", "%q is there twice", g.Name),
			check(g.LoadTimeout > 0, at+"load_timeout", "%v must be more than 0", g.LoadTimeout),
			c.checkOrigin(at, g.Origin),
		)
		errs = append(errs, err)
		seen[g.Name] = true
	}
	return append(errs, check(len(c.Groups) > 0, "groups", "[]: there must be at least one"))
}

func (c Config) checkOrigin(at string, o cache.OriginConfig) error {
	if o.Pool == "" {
		return nil
	}
	known := slices.ContainsFunc(c.Pools, func(p PoolConfig) bool { return p.Name == o.Pool })
	if !known {
		return check(false, at+"origin.pool", "%q is not in the list pools", o.Pool)
	}
	if err := origin.CheckPath(o.Path); err != nil {
		return check(false, at+"origin.path", "%v", err)
	}
	return nil
}

func (c Config) validatePools() (errs []error) {
	seen := map[string]bool{}
	for i, p := range c.Pools {
		if p.Name == "" {
			errs = append(errs, check(false, fmt.Sprintf("pools[%d].name", i), `"" must be set`))
			continue
		}
		at := "pools[" + p.Name + "]."
		err := firstOf(
			check(!seen[p.Name], at+"name", "%q is there twice", p.Name),
			p.Validate(),
			p.Origin.Validate(p.Name),
			check(p.State != "redis" || c.Redis.Configured(), at+"state", "redis needs redis.addresses, which is empty"),
		)
		errs = append(errs, err)
		seen[p.Name] = true
	}
	return append(errs, c.Redis.Validate())
}

func (c Config) validateAuth() (errs []error) {
	for _, host := range c.Auth.AllowedOriginHosts {
		why := balance.CheckAllowedHost(host)
		errs = append(errs, check(why == "", "auth.allowed_origin_hosts", "%q: %s", host, why))
	}
	seen := map[string]bool{}
	for i, t := range c.Auth.Tokens {
		at := fmt.Sprintf("auth.tokens[%d].", i)
		if t.Name != "" {
			at = "auth.tokens[" + t.Name + "]."
		}
		errs = append(errs,
			check(t.Name != "", at+"name", `"" must be set`),
			check(t.Name == "" || !seen[t.Name], at+"name", "%q is there twice", t.Name),
			check(t.TokenFile != "", at+"token_file", `"" must name a file`),
			check(slices.Contains([]string{"read", "write", "admin"}, t.Role), at+"role", "%q must be read, write or admin", t.Role),
			c.checkGroups(at+"groups", t.Groups),
		)
		seen[t.Name] = true
	}
	return errs
}

func (c Config) checkGroups(field string, names []string) error {
	for _, name := range names {
		known := slices.ContainsFunc(c.Groups, func(group cache.GroupConfig) bool { return group.Name == name })
		if !known {
			return check(false, field, "%q is not in the list groups", name)
		}
	}
	return nil
}

func (c Config) validateLimits() error {
	l := c.Limits
	return firstOf(
		check(l.RequestTimeout > 0, "limits.request_timeout", "%v must be more than 0", l.RequestTimeout),
		check(l.MaxConnections > 0, "limits.max_connections", "%d must be more than 0", l.MaxConnections),
		check(l.ConnectionsPerAddress > 0, "limits.connections_per_address", "%d must be more than 0", l.ConnectionsPerAddress),
		check(l.RequestsInFlight > 0, "limits.requests_in_flight", "%d must be more than 0", l.RequestsInFlight),
		check(l.MaxWaiters > 0, "limits.max_waiters", "%d must be more than 0", l.MaxWaiters),
		check(l.MaxWaitersPerKey > 0, "limits.max_waiters_per_key", "%d must be more than 0", l.MaxWaitersPerKey),
		check(l.BatchKeys > 0, "limits.batch_keys", "%d must be more than 0", l.BatchKeys),
		l.CheckResponses(),
		check(l.RatePerToken >= 0, "limits.rate_per_token", "%v is negative", l.RatePerToken),
		check(c.Handoff.DrainTimeout > 0, "handoff.drain_timeout", "%v must be more than 0", c.Handoff.DrainTimeout),
	)
}

func (c Config) validateLog() error {
	return firstOf(
		check(slices.Contains([]string{"debug", "info", "warn", "error"}, c.Log.Level), "log.level", "%q must be debug, info, warn or error", c.Log.Level),
		check(c.Log.Format == "text" || c.Log.Format == "json", "log.format", "%q must be text or json", c.Log.Format),
	)
}

// Exposure refuses a node that strangers could use: it listens beyond loopback,
// and the cluster has no secret or clients need no token.
func (c Config) Exposure() error {
	host, _, err := splitAddress(c.Node.Listen)
	if err != nil {
		return &FieldError{"node.listen", err.Error()}
	}
	if ip := net.ParseIP(host); host == "localhost" || (ip != nil && ip.IsLoopback()) {
		return nil
	}
	var missing []string
	if c.Cluster.Secret == "" {
		missing = append(missing, "cluster.secret")
	}
	if len(c.Auth.Tokens) == 0 {
		missing = append(missing, "auth.tokens")
	}
	return check(len(missing) == 0, "node.listen",
		"%q is open to other machines: set %s (or start with --insecure)", c.Node.Listen, strings.Join(missing, " and "))
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
