package client_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"kring/client"
)

// Compare the two: the difference is the client's cost on top of net/http.
func BenchmarkGet(b *testing.B) {
	s := httptest.NewServer(say(200, "value", "Content-Type", "text/plain", "Kring-Node", "kring-1", "Kring-Owner", "kring-1",
		"Cache-Status", "kring-1; hit; ttl=37", "Etag", `"0123456789abcdef"`))
	defer s.Close()
	b.Run("client", func(b *testing.B) {
		c, err := client.New(client.Config{Nodes: []string{s.URL}})
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		b.ReportAllocs()
		buffer := make([]byte, 64)
		for b.Loop() {
			if _, err := c.GetWith(b.Context(), "docs", "key", client.GetOptions{Buffer: buffer}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("net-http", func(b *testing.B) {
		transport := &http.Transport{DisableCompression: true}
		defer transport.CloseIdleConnections()
		c := &http.Client{Transport: transport}
		b.ReportAllocs()
		for b.Loop() {
			r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, s.URL+"/v1/cache/docs/key", nil)
			if err != nil {
				b.Fatal(err)
			}
			resp, err := c.Do(r)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadAll(resp.Body); err != nil {
				b.Fatal(err)
			}
			if err := resp.Body.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
