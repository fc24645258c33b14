package origin

import (
	"errors"
	"net"
	"slices"
	"strings"
	"syscall"
)

// shortages are the errors of a connection that this machine could not attempt,
// because it has no descriptors, buffers or local ports left.
var shortages = []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL}

// shortage reports whether err is this machine's own trouble. Then the endpoint
// is not to blame, and another one would not help.
func shortage(err error) bool {
	if slices.ContainsFunc(shortages, func(s error) bool { return errors.Is(err, s) }) {
		return true
	}
	// The resolver needs a socket, too, but does not wrap its error.
	lookup, ok := errors.AsType[*net.DNSError](err)
	return ok && (strings.Contains(lookup.Err, syscall.EMFILE.Error()) || strings.Contains(lookup.Err, syscall.ENFILE.Error()))
}
