package httpapi

import (
	"net/url"
	"strings"

	"kring/cache"
)

const maxGroupBytes = 63

// checkGroup accepts [a-z0-9][a-z0-9_-]{0,62}.
func checkGroup(group string) error {
	if group == "" || len(group) > maxGroupBytes {
		return errBadGroup.With("a group has 1 to 63 characters")
	}
	for i := range len(group) {
		switch b := group[i]; {
		case 'a' <= b && b <= 'z', '0' <= b && b <= '9':
		case (b == '-' || b == '_') && i > 0:
		default:
			return errBadGroup.With("a group is lower-case letters, digits, - and _, and begins with a letter or digit")
		}
	}
	return nil
}

// pathKey takes group and key from a path that begins with prefix. The key is the
// rest of the path behind the group, percent-decoded once and otherwise not
// changed.
//
// Where net/url keeps no RawPath, the path that was sent has no escaped slash and
// decodes to Path, so Path can be cut as it is. Otherwise RawPath is the path that
// was sent. URL.EscapedPath does not serve: a path with invalid characters gets
// another spelling from it, in which a%2Fb and a/b are the same.
func pathKey(u *url.URL, prefix string) (cache.Key, error) {
	path, escaped := u.Path, u.RawPath != ""
	if escaped {
		path = u.RawPath
	}
	rest, ok := strings.CutPrefix(path, prefix)
	if !ok {
		return cache.Key{}, errBadRequest.With("the path must have no needless escapes before the group")
	}
	group, key, _ := strings.Cut(rest, "/")
	if escaped {
		var err error
		if group, err = url.PathUnescape(group); err != nil {
			return cache.Key{}, errBadGroup.With("the group has an invalid percent escape")
		}
		if key, err = url.PathUnescape(key); err != nil {
			return cache.Key{}, cache.ErrBadKey.With("the key has an invalid percent escape")
		}
	}
	return cache.Key{Group: group, Key: key}, checkGroup(group)
}
