package origin

import (
	"errors"
	"net"
	"slices"
	"strings"
	"syscall"
)

// shortages are the errors of a connection that was not attempted for want of
// something of this machine's own: descriptors, buffers, or ports to call from.
var shortages = []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL}

// shortage reports whether err is this machine's own trouble. An endpoint is
// not to be blamed for it, nor would another one help.
func shortage(err error) bool {
	if slices.ContainsFunc(shortages, func(s error) bool { return errors.Is(err, s) }) {
		return true
	}
	// The resolver needs a socket, too, but wraps nothing.
	lookup, ok := errors.AsType[*net.DNSError](err)
	return ok && (strings.Contains(lookup.Err, syscall.EMFILE.Error()) || strings.Contains(lookup.Err, syscall.ENFILE.Error()))
}
