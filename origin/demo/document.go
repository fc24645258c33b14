package demo

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"mime"
	"net/http"
	"os"
	"path"
	"strconv"
	"strings"
	"time"
)

// document is the origin's value of a key. SHA256 is the hash of key, line
// break, version, line break, pad. It proves that a document is whole and
// belongs to the key.
type document struct {
	Key     string `json:"key"`
	Version string `json:"version"`
	SHA256  string `json:"sha256"`
	Pad     string `json:"pad"`
}

func newDocument(key, version string, size int) document {
	d := document{Key: key, Version: version, Pad: pad(key, version, size)}
	sum := sha256.Sum256([]byte(d.Key + "\n" + d.Version + "\n" + d.Pad))
	d.SHA256 = hex.EncodeToString(sum[:])
	return d
}

// pad is size letters that depend only on the arguments and do not compress to
// nothing.
func pad(key, version string, size int) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	source := rand.NewChaCha8(sha256.Sum256([]byte(key + "\n" + version)))
	text := make([]byte, size)
	var bits uint64
	for i := range text {
		if i%10 == 0 { // ten letters of six bits from each number
			bits = source.Uint64()
		}
		text[i] = letters[bits&63]
		bits >>= 6
	}
	return string(text)
}

func serveDocument(w http.ResponseWriter, r *http.Request, d document, modified time.Time) int {
	var body bytes.Buffer
	e := json.NewEncoder(&body)
	e.SetEscapeHTML(false)
	if err := e.Encode(d); err != nil {
		http.Error(w, "internal error", http.StatusInternalServerError)
		return http.StatusInternalServerError
	}
	return serveContent(w, r, content{
		body: &body, size: int64(body.Len()), mime: "application/json",
		tag: `"` + d.SHA256[:32] + `"`, modified: modified,
	})
}

// serveFile serves the file that key names inside the directory. os.Root keeps
// dots and links from leading out of it.
func (s *Server) serveFile(w http.ResponseWriter, r *http.Request, key string) int {
	f, info, err := s.openFile(key)
	if err != nil {
		status := http.StatusNotFound
		if !errors.Is(err, fs.ErrNotExist) {
			s.log.Info("demo origin refuses a file", "error", err)
		}
		http.Error(w, "not found", status)
		return status
	}
	defer f.Close()
	kind := mime.TypeByExtension(path.Ext(key))
	if kind == "" {
		kind = "application/octet-stream"
	}
	stamp := info.ModTime()
	return serveContent(w, r, content{
		body: io.LimitReader(f, info.Size()), size: info.Size(), mime: kind,
		tag:      `"` + strconv.FormatInt(stamp.UnixNano(), 36) + "-" + strconv.FormatInt(info.Size(), 36) + `"`,
		modified: stamp,
	})
}

func (s *Server) openFile(key string) (*os.File, fs.FileInfo, error) {
	if strings.ContainsRune(key, 0) || key == "" {
		return nil, nil, fs.ErrNotExist
	}
	// Stat is first, because opening a named pipe would wait for its writer.
	info, err := s.root.Stat(key)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fs.ErrNotExist
	}
	f, err := s.root.Open(key)
	if err != nil {
		return nil, nil, err
	}
	return f, info, nil
}

// content is an answer of status 200, or 304 if the client has it.
type content struct {
	body     io.Reader
	size     int64
	mime     string
	tag      string
	modified time.Time
}

// serveContent does less than http.ServeContent: a cache that has not asked for
// a part must not get a 206.
func serveContent(w http.ResponseWriter, r *http.Request, c content) int {
	h := w.Header()
	h.Set("ETag", c.tag)
	h.Set("Last-Modified", c.modified.UTC().Format(http.TimeFormat))
	if unchanged(r, c) {
		w.WriteHeader(http.StatusNotModified)
		return http.StatusNotModified
	}
	h.Set("Content-Type", c.mime)
	h.Set("Content-Length", strconv.FormatInt(c.size, 10))
	if r.Method == http.MethodHead {
		return http.StatusOK
	}
	if _, err := io.Copy(w, c.body); err != nil {
		return 0 // the client left; net/http closes the connection
	}
	return http.StatusOK
}

// unchanged follows RFC 9110: If-None-Match decides, and If-Modified-Since only
// where that is absent.
func unchanged(r *http.Request, c content) bool {
	if match := r.Header.Get("If-None-Match"); match != "" {
		for tag := range strings.SplitSeq(match, ",") {
			tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/")
			if tag == c.tag || tag == "*" {
				return true
			}
		}
		return false
	}
	since, err := http.ParseTime(r.Header.Get("If-Modified-Since"))
	return err == nil && !c.modified.Truncate(time.Second).After(since)
}
