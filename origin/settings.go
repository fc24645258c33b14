package origin

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/textproto"
	"os"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// The range of max_header_bytes. A usual head has several hundred bytes, and
// each load may hold a whole head in memory.
const (
	minHeader = 1 << 10
	maxHeader = 16 << 20
)

// Validate checks the settings of the pool of this name without reading files.
// The error names field and value, but never a header's value.
func (c *Config) Validate(pool string) error {
	bad := func(field string, value any, why string) error {
		return fmt.Errorf("pools[%s].%s: %v: %s", pool, field, value, why)
	}
	switch {
	case c.MaxLoads < 1:
		return bad("max_loads", c.MaxLoads, "must be at least 1")
	case c.MaxBodyBytes < 1:
		return bad("max_body_bytes", c.MaxBodyBytes, "must be at least 1")
	case !(c.RetryBudget >= 0 && c.RetryBudget <= 1):
		return bad("retry_budget", c.RetryBudget, "must be a share from 0 to 1")
	case c.MaxHeaderBytes < minHeader || c.MaxHeaderBytes > maxHeader:
		return bad("max_header_bytes", c.MaxHeaderBytes, fmt.Sprintf("must be %d to %d bytes", minHeader, maxHeader))
	case c.MaxConnectionAge < 0:
		return bad("max_connection_age", c.MaxConnectionAge, "must not be negative (0 is no limit)")
	}
	seen := map[string]bool{}
	for i, h := range c.Headers {
		field := fmt.Sprintf("headers[%d].name", i)
		name := textproto.CanonicalMIMEHeaderKey(h.Name)
		switch {
		case !httpguts.ValidHeaderFieldName(h.Name):
			return bad(field, fmt.Sprintf("%q", h.Name), "is not a header's name")
		case ownHeaders[name]:
			return bad(field, h.Name, "is set by this program alone")
		case seen[name]:
			return bad(field, h.Name, "is there twice")
		case h.Value != "" && h.ValueFile != "":
			return bad(fmt.Sprintf("headers[%d]", i), h.Name, "has both value and value_file")
		case !httpguts.ValidHeaderFieldValue(h.Value):
			return bad(fmt.Sprintf("headers[%d].value", i), h.Name, "has a character that no header may have")
		case name == "Host" && h.ValueFile == "" && !httpguts.ValidHostHeader(h.Value):
			return bad(fmt.Sprintf("headers[%d].value", i), h.Name, "is not a host")
		}
		seen[name] = true
	}
	return nil
}

// CheckFiles reads the files of the settings of the pool of this name. Its
// errors are those that New would return.
func (c *Config) CheckFiles(pool string) error {
	if _, err := c.readHeader(pool, ""); err != nil {
		return err
	}
	_, err := c.readCA(pool)
	return err
}

// ownHeaders may not be configured: they would break the exchange, or make
// answers depend on more than the key.
var ownHeaders = map[string]bool{
	"Accept-Encoding": true, "Connection": true, "Content-Length": true, "Expect": true, "If-Match": true,
	"If-Modified-Since": true, "If-None-Match": true, "If-Range": true, "If-Unmodified-Since": true, "Keep-Alive": true,
	"Proxy-Connection": true, "Range": true, "Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
}

// header is the fixed part of every request except its Host.
type header struct {
	host  string // "": the endpoint's
	lines string // with their line ends
}

// readHeader makes the fixed part of the requests. It reads values from files.
func (c *Config) readHeader(pool, agent string) (header, error) {
	var h header
	values := []HeaderConfig{{Name: "User-Agent", Value: agent}, {Name: "Accept", Value: "*/*"}}
	for i, f := range c.Headers {
		f.Name = textproto.CanonicalMIMEHeaderKey(f.Name)
		if f.ValueFile != "" {
			field := fmt.Sprintf("pools[%s].headers[%d].value_file: %s", pool, i, f.ValueFile)
			b, err := os.ReadFile(f.ValueFile)
			if err != nil {
				return h, fmt.Errorf("%s: %w", field, cause(err))
			}
			f.Value = string(bytes.TrimSuffix(bytes.TrimSuffix(b, []byte("\n")), []byte("\r")))
			if !httpguts.ValidHeaderFieldValue(f.Value) || f.Name == "Host" && !httpguts.ValidHostHeader(f.Value) {
				return h, fmt.Errorf("%s: has a character that the header %s must not have", field, f.Name)
			}
		}
		switch f.Name {
		case "Host":
			h.host = f.Value
		case "User-Agent":
			values[0] = f
		case "Accept":
			values[1] = f
		default:
			values = append(values, f)
		}
	}
	var b strings.Builder
	b.WriteString("Accept-Encoding: identity\r\n")
	for _, f := range values {
		b.WriteString(f.Name + ": " + strings.Trim(f.Value, " \t") + "\r\n")
	}
	h.lines = b.String()
	return h, nil
}

// readCA reads the certificates that verify https endpoints.
func (c *Config) readCA(pool string) (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, ClientSessionCache: tls.NewLRUClientSessionCache(0)}
	if c.CAFile == "" {
		return cfg, nil
	}
	pem, err := os.ReadFile(c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("pools[%s].ca_file: %s: %w", pool, c.CAFile, cause(err))
	}
	cfg.RootCAs = x509.NewCertPool()
	if !cfg.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("pools[%s].ca_file: %s: holds no certificate (PEM)", pool, c.CAFile)
	}
	return cfg, nil
}

// cause is a file error without the path, which the message already has.
func cause(err error) error {
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		return pe.Err
	}
	return err
}
