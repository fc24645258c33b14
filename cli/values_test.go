package cli_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"testing"
	"time"
)

// A tag of Surrogate-Key may contain commas, and one of Cache-Tag spaces:
// neither is split.
func TestPurgeDoesNotSplitTags(t *testing.T) {
	asked := make(chan string, 9)
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("read the request: %v", err)
		}
		asked <- r.Method + " " + r.URL.EscapedPath() + " " + string(body)
		w.Header().Set("Kring-Node", "fake")
		w.WriteHeader(http.StatusNoContent)
	}))
	defer node.Close()
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--tag", "a,b", "--tag", "c d", "--tag=é\"1"}, `POST /v1/purge/docs {"tags":["a,b","c d","é\"1"]}`},
		{nil, "DELETE /v1/cache/docs "},
	} {
		cmd := exec.Command("kring", append([]string{"purge", "docs", "--node", node.URL}, tt.args...)...)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := runWithin(cmd); err != nil || out.Len() > 0 {
			t.Fatalf("%v: %v, output %q", tt.args, err, &out)
		}
		select {
		case got := <-asked:
			if got != tt.want {
				t.Errorf("%v: the node was asked %q, want %q", tt.args, got, tt.want)
			}
		default:
			t.Errorf("%v: the node was not asked, want %q", tt.args, tt.want)
		}
	}
	if len(asked) > 0 {
		t.Errorf("the node was asked for more: %q", <-asked)
	}
}

// A reader that closes the pipe ends get: the other keys are not requested.
func TestGetIntoAClosedPipe(t *testing.T) {
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Kring-Node", "fake")
		_, _ = w.Write(bytes.Repeat([]byte("x"), 1<<20)) // the client may have left
	}))
	defer node.Close()
	cmd := exec.Command("kring", "get", "kv", "a", "b", "--node", node.URL)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(stdout, make([]byte, 1)); err != nil {
		t.Errorf("nothing was printed: %v", err)
	}
	if err := stdout.Close(); err != nil {
		t.Error(err)
	}
	late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() }) // the process may have ended
	err = cmd.Wait()
	if !late.Stop() {
		t.Errorf("it did not end within %v", patience)
	}
	if err == nil {
		t.Error("exit code 0, though what was read is not all")
	}
}
