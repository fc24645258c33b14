package httpapi

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"os"
	"strings"

	"github.com/gin-gonic/gin"
	"golang.org/x/time/rate"
)

// role is what a token allows. Each role includes those before it.
type role uint8

const (
	roleNone role = iota // open to all
	roleRead
	roleWrite
	roleAdmin
)

func (r role) String() string { return [...]string{"none", "read", "write", "admin"}[r] }

var roles = map[string]role{"read": roleRead, "write": roleWrite, "admin": roleAdmin}

// bearer is one token that the configuration names.
type bearer struct {
	sum    [sha256.Size]byte // of the token; the token itself is not kept
	role   role
	groups map[string]bool // nil: all
	rate   *rate.Limiter   // nil: no limit
}

// authority knows the tokens. Without tokens everything is allowed, and the node
// listens on loopback only.
type authority struct{ bearers []bearer }

// CheckFiles reads the token files, and returns the error that New would return.
func (a Auth) CheckFiles() error {
	_, err := newAuthority(a, 0)
	return err
}

// tokenField is how messages name an item of auth.tokens: by its name if it has
// one, else by its place.
func tokenField(i int, t Token) string {
	if t.Name != "" {
		return "auth.tokens[" + t.Name + "]"
	}
	return fmt.Sprintf("auth.tokens[%d]", i)
}

func newAuthority(cfg Auth, perSecond float64) (*authority, error) {
	a := &authority{}
	for i, t := range cfg.Tokens {
		field := tokenField(i, t)
		b := bearer{role: roles[t.Role]}
		if b.role == roleNone {
			return nil, fmt.Errorf("%s.role: %q is not read, write or admin", field, t.Role)
		}
		line, err := os.ReadFile(t.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("%s.token_file: %w", field, err)
		}
		b.sum, err = tokenSum(strings.TrimRight(string(line), "\r\n"))
		if err != nil {
			return nil, fmt.Errorf("%s.token_file: %s: %w", field, t.TokenFile, err)
		}
		for j := range a.bearers {
			if a.bearers[j].sum == b.sum {
				return nil, fmt.Errorf("%s.token_file: %s: the same token as that of %s", field, t.TokenFile, tokenField(j, cfg.Tokens[j]))
			}
		}
		for _, g := range t.Groups {
			if err := checkGroup(g); err != nil {
				return nil, fmt.Errorf("%s.groups: %q: %w", field, g, err)
			}
			if b.groups == nil {
				b.groups = make(map[string]bool)
			}
			b.groups[g] = true
		}
		if perSecond > 0 {
			b.rate = rate.NewLimiter(rate.Limit(perSecond), max(1, int(perSecond)))
		}
		a.bearers = append(a.bearers, b)
	}
	return a, nil
}

// tokenSum reads a token file's line: the token, or sha256:HEX of it.
func tokenSum(line string) (sum [sha256.Size]byte, err error) {
	if digits, ok := strings.CutPrefix(line, "sha256:"); ok {
		b, err := hex.DecodeString(digits)
		if err != nil || len(b) != len(sum) {
			return sum, fmt.Errorf("sha256: wants %d hexadecimal digits", 2*len(sum))
		}
		return [sha256.Size]byte(b), nil
	}
	if strings.Contains(line, "\n") {
		// kring token prints two lines: the client keeps one, the node the other.
		return sum, fmt.Errorf("wants one line, but has %d; of what kring token prints, the client keeps the first line and this file has the last, sha256:…",
			1+strings.Count(line, "\n"))
	}
	if line == "" || strings.ContainsAny(line, " \t\r") {
		return sum, fmt.Errorf("wants one line, the token, without spaces")
	}
	return sha256.Sum256([]byte(line)), nil
}

// open reports whether clients need no token.
func (a *authority) open() bool { return len(a.bearers) == 0 }

// allow checks that a request's token has a role, and is for the group if one is
// named. Each request counts against its token's rate, also a failed one.
func (a *authority) allow(c *gin.Context, need role, group string) error {
	if a.open() || need == roleNone {
		return nil
	}
	b := a.bearer(c)
	if b == nil {
		return errUnauthorized
	}
	if b.rate != nil && !b.rate.Allow() {
		return errRateLimited
	}
	return b.may(need, group)
}

// may is allow once more for the same request, when its body has shown that it
// needs a higher role.
func (a *authority) may(c *gin.Context, need role, group string) error {
	if a.open() {
		return nil
	}
	b := a.bearer(c)
	if b == nil {
		return errUnauthorized
	}
	return b.may(need, group)
}

func (b *bearer) may(need role, group string) error {
	if b.role < need {
		return errForbidden.With("this needs the role " + need.String() + ", and the token has the role " + b.role.String())
	}
	if group != "" && b.groups != nil && !b.groups[group] {
		return errForbidden.With("the token is not for this group")
	}
	return nil
}

// bearer finds the bearer whose token the request carries, or nil. It compares
// the sums of all tokens, in constant time.
func (a *authority) bearer(c *gin.Context) (found *bearer) {
	header := c.Request.Header["Authorization"]
	if len(header) != 1 {
		return nil
	}
	scheme, token, _ := strings.Cut(header[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return nil
	}
	sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
	for i := range a.bearers {
		if subtle.ConstantTimeCompare(sum[:], a.bearers[i].sum[:]) == 1 {
			found = &a.bearers[i]
		}
	}
	return found
}
