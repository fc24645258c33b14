package httpapi

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"kring/cache"
)

// queryTTL reads ?ttl=30s. 0 stands for the group's own.
func queryTTL(query string) (time.Duration, error) {
	if query == "" {
		return 0, nil
	}
	if err := checkQuery(query, "ttl"); err != nil {
		return 0, err
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return 0, errBadRequest.With("the query cannot be parsed")
	}
	ttl := values["ttl"]
	if len(ttl) > 1 {
		return 0, cache.ErrBadTTL.With("ttl is given twice")
	}
	d, err := time.ParseDuration(ttl[0])
	if err != nil || d <= 0 {
		return 0, cache.ErrBadTTL.With("ttl is a duration above zero, such as 30s or 1h30m")
	}
	return d, nil
}

// checkQuery refuses a write with an unknown parameter. Either it is a slip, as in
// ?tll=30s, or it belongs to the key, whose ? should have been escaped. The write
// would do what its client did not mean.
func checkQuery(query string, known ...string) error {
	for query != "" {
		var one string
		one, query, _ = strings.Cut(query, "&")
		name, _, _ := strings.Cut(one, "=")
		if !slices.Contains(known, name) {
			return errBadRequest.With(fmt.Sprintf("unknown query parameter %+.40q (a ? in a key is %%3F)", name))
		}
	}
	return nil
}
