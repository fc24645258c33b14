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

// remote is the running node that a command calls.
type remote struct {
	node      string // URL; empty: the node of the configuration
	file      string // configuration file
	tokenFile string
	timeout   time.Duration
	writes    bool // the command changes something
}

// maxAnswer bounds a node's answer in bytes.
const maxAnswer = 64 << 20

func (r *remote) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&r.node, "node", "", "`URL` of the node (default: the configuration's node, http://127.0.0.1:8001; in a file for several nodes the first one, unless KRING_NODE_ID names another)")
	f.StringVar(&r.tokenFile, "token-file", "", "`FILE` with the token to send (or the environment's KRING_TOKEN)")
	f.DurationVar(&r.timeout, "timeout", cmp.Or(r.timeout, 3*time.Second), "longest wait for an answer")
}

// resolve sets the node's URL and checks it.
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

// nodeOf is the URL of the configuration's node: its listen address, or else
// its address in cluster.peers. Of a file that several nodes share, it is the
// first node.
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
		return "", fmt.Errorf("%s: must hold one line, the token, without spaces; it is the first line of what kring token prints", from)
	case strings.HasPrefix(text, "sha256:"):
		return "", fmt.Errorf("%s: is a token's hash, which the nodes keep; the client sends the token, the first line of what kring token prints", from)
	}
	return text, nil
}

// get sends a request to the node. An answer other than 200 is an error with
// the node's reason.
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
		Transport:     &http.Transport{DisableKeepAlives: true}, // no proxy: nodes are near
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

// refusedError is an answer other than 200, with the node's reason.
type refusedError struct{ url, reason string }

func (e *refusedError) Error() string { return e.url + ": " + e.reason }

// getJSON is get, and decodes the answer.
func (r *remote) getJSON(ctx context.Context, path string, into any) error {
	body, err := r.get(ctx, path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return failed(fmt.Errorf("%s%s: the answer is not a node's JSON: %w", r.node, path, err))
	}
	return nil
}

// reason drops net/http's words around an error, because the message names
// method and URL already.
func reason(err error, timeout time.Duration) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %v", timeout)
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// problem is the text of a problem document (RFC 9457), or else the status.
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
