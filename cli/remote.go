package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"kring/config"
)

// remote is a running node that a command asks.
type remote struct {
	node      string // URL; empty: the one that the configuration describes
	file      string // configuration
	tokenFile string
	timeout   time.Duration
	writes    bool // what it asks for changes something
}

// maxAnswer bounds what is read of a node's answer.
const maxAnswer = 64 << 20

func (r *remote) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&r.node, "node", "", "`URL` of the node (default: that of the configuration, http://127.0.0.1:8001; of one for several nodes, the first unless KRING_NODE_ID says which)")
	f.StringVar(&r.tokenFile, "token-file", "", "`FILE` with the token to send (or the environment's KRING_TOKEN)")
	f.DurationVar(&r.timeout, "timeout", cmp.Or(r.timeout, 3*time.Second), "longest wait for an answer")
}

// resolve settles which node is asked.
func (r *remote) resolve() error {
	if r.node == "" {
		l, err := config.Look(r.file, nil)
		if err != nil {
			return err
		}
		if r.node, err = nodeOf(l); err != nil {
			return err
		}
	}
	address := r.node
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return fmt.Errorf("--node: %q is not a URL (try http://127.0.0.1:8001)", r.node)
	}
	r.node = strings.TrimSuffix(address, "/")
	if r.timeout <= 0 {
		return fmt.Errorf("--timeout: %v must be more than 0", r.timeout)
	}
	return nil
}

// nodeOf is the node that a configuration is of, at the address that the list
// has for it unless it says where it listens; of one that several nodes share,
// the first of them.
func nodeOf(l *config.Loaded) (string, error) {
	if _, said := l.Sources["node.listen"]; !said && len(l.Config.Cluster.Peers) > 0 {
		view, err := l.Config.Ring()
		if err != nil {
			return "", err
		}
		if l.Config.Shared() {
			return view.Members[0].URL, nil
		}
		for _, m := range view.Members {
			if m.ID == l.Config.Node.ID {
				return m.URL, nil
			}
		}
	}
	host, port, err := net.SplitHostPort(l.Config.Node.Listen)
	if err != nil {
		return "", fmt.Errorf("node.listen: %q: %w", l.Config.Node.Listen, err)
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port), nil
}

func (r *remote) token() (string, error) {
	text, from := os.Getenv("KRING_TOKEN"), "KRING_TOKEN"
	if r.tokenFile != "" {
		file, err := os.ReadFile(r.tokenFile)
		if err != nil {
			return "", fmt.Errorf("--token-file: %w", err)
		}
		text, from = string(file), "--token-file: "+r.tokenFile
	}
	text = strings.TrimSpace(text)
	switch {
	case text == "" && r.tokenFile != "":
		return "", fmt.Errorf("%s: is empty", from)
	case strings.ContainsFunc(text, unicode.IsSpace):
		return "", fmt.Errorf("%s: wants one line, the token, without spaces; it is the first line of what kring token prints", from)
	case strings.HasPrefix(text, "sha256:"):
		return "", fmt.Errorf("%s: is a token's hash, which the nodes keep; the client sends the token, the first line of what kring token prints", from)
	}
	return text, nil
}

// get asks the node. An answer other than 200 is an error that says what the
// node said.
func (r *remote) get(ctx context.Context, path string) ([]byte, error) {
	if err := r.resolve(); err != nil {
		return nil, err
	}
	token, err := r.token()
	if err != nil {
		return nil, err
	}
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.node+path, nil)
	if err != nil {
		return nil, fmt.Errorf("--node: %w", err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true}, // and no proxy: nodes are near
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, failed(fmt.Errorf("ask %s: %w", r.node, reason(err, r.timeout)))
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, failed(fmt.Errorf("read the answer of %s: %w", r.node, reason(err, r.timeout)))
	}
	if response.StatusCode != http.StatusOK {
		return nil, failed(&refusedError{r.node + path, problem(response.Status, body)})
	}
	return body, nil
}

// refusedError is an answer other than 200: the node is there, and says why not.
type refusedError struct{ url, reason string }

func (e *refusedError) Error() string { return e.url + ": " + e.reason }

// getJSON is get with the answer decoded.
func (r *remote) getJSON(ctx context.Context, path string, into any) error {
	body, err := r.get(ctx, path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return failed(fmt.Errorf("%s%s: the answer is no JSON of a node: %w", r.node, path, err))
	}
	return nil
}

// reason strips what net/http says around an error: method and URL are named
// already.
func reason(err error, timeout time.Duration) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %v", timeout)
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// problem is what a problem document (RFC 9457) says, or else the status.
func problem(status string, body []byte) string {
	var p struct{ Title, Detail string }
	if err := json.Unmarshal(body, &p); err != nil || p.Title+p.Detail == "" {
		return status
	}
	if text := cmp.Or(p.Detail, p.Title); text != "" {
		return status + ": " + text
	}
	return status
}
