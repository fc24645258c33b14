package httpapi

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"kring/cache"
)

// A body of many tags ends at the first one too many.
func TestTagsAreCountedWhileTheyAreDecoded(t *testing.T) {
	body := []byte(`{"tags":["a"` + strings.Repeat(`,"a"`, maxPurgeBody/4) + `]}`)
	var before, after runtime.MemStats
	in := listOf(t, body)
	runtime.ReadMemStats(&before)
	_, err := decodeTags(in)
	runtime.ReadMemStats(&after)
	if !errors.Is(err, cache.ErrValueTooLarge) {
		t.Errorf("%d bytes of tags: %v", len(body), err)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > uint64(len(body)) {
		t.Errorf("%d bytes of tags took %d bytes to refuse", len(body), grown)
	}
	for n, ok := range map[int]bool{1: true, maxTags: true, maxTags + 1: false} {
		tags, err := decodeTags(listOf(t, []byte(`{"tags":["t"`+strings.Repeat(`,"t"`, n-1)+`]}`)))
		if (err == nil) != ok || ok && len(tags) != n {
			t.Errorf("%d tags: %d, %v", n, len(tags), err)
		}
	}
}

// Every body is read exactly, or refused as a bad request with a short detail.
func FuzzJSONObject(f *testing.F) {
	for _, body := range []string{`{"a":"x","n":1}`, `{"a":null}`, `{"A":"x"}`, `{"a":"x","a":"y"}`, `{} `, `{"a":["x"]}`, `[{}]`, `{"n":1e9}`} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var a *string
		var n *int
		err := readObject(body, `{"a":…}`, map[string]reader{
			"a": readValue(&a), "n": readValue(&n),
		})
		if err != nil {
			var said *cache.Error
			if !errors.As(err, &said) || !errors.Is(err, errBadRequest) || len(said.Detail) > 400 {
				t.Errorf("%q: %v", body, err)
			}
			return
		}
		members := 0
		for name, given := range map[string]bool{`"a"`: a != nil, `"n"`: n != nil} {
			if given {
				members++
			}
			if given && !strings.Contains(string(body), name) && !strings.Contains(string(body), `\u`) {
				t.Errorf("%q has no %s, and yet a value", body, name)
			}
		}
		if text := string(body); members == 0 && !strings.Contains(text, "{") {
			t.Errorf("%q is taken for an object", body)
		}
	})
}
