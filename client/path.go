package client

import "strings"

const hexDigits = "0123456789ABCDEF"

// escape percent-encodes every byte that is not unreserved (RFC 3986 §2.3). So
// a key is one segment of the path, and no proxy sees a slash to merge. In a
// key that is a dot segment the dots are encoded as well. This only helps with
// some proxies, others decode dots; Kring itself needs no help.
func escape(dst []byte, key string) []byte {
	dots := key == "." || key == ".."
	for i := range len(key) {
		switch c := key[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9',
			c == '-', c == '_', c == '~', c == '.' && !dots:
			dst = append(dst, c)
		default:
			dst = append(dst, '%', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return dst
}

// keyPath is the route of a key. The nodes refuse keys that Kring cannot hold,
// but the client refuses the empty key, whose route would be the group's.
func keyPath(op, group, key string) (string, error) {
	if err := checkGroup(op, group); err != nil {
		return "", err
	}
	if key == "" {
		return "", &Error{Op: op, Code: ErrBadKey.Code, Status: 400, Detail: "the key is empty"}
	}
	b := make([]byte, 0, len("/v1/cache/")+len(group)+1+len(key)+16)
	b = append(b, "/v1/cache/"...)
	b = append(b, group...)
	b = append(b, '/')
	return string(escape(b, key)), nil
}

func groupPath(op, route, group string) (string, error) {
	if err := checkGroup(op, group); err != nil {
		return "", err
	}
	return route + group, nil
}

// checkGroup refuses a group's name that would change the route. The name is
// not escaped in the path.
func checkGroup(op, group string) error {
	bad := group == "" || len(group) > 63 || strings.ContainsFunc(group, func(r rune) bool {
		return !('a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '-' || r == '_')
	}) || group[0] == '-' || group[0] == '_'
	if bad {
		return &Error{Op: op, Code: ErrBadGroup.Code, Status: 400, Detail: "a group is [a-z0-9][a-z0-9_-]{0,62}"}
	}
	return nil
}
