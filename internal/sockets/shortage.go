package sockets

import (
	"errors"
	"net"
	"slices"
	"strings"
	"syscall"
)

var shortages = []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL}

// Shortage reports whether err, of a dial, means that this machine lacks
// something to connect with: descriptors, buffers, or ports to call from. The
// other side is not to be blamed for it, nor would another one help.
func Shortage(err error) bool {
	if slices.ContainsFunc(shortages, func(s error) bool { return errors.Is(err, s) }) {
		return true
	}
	// The resolver needs a socket, too, but wraps nothing.
	lookup, ok := errors.AsType[*net.DNSError](err)
	return ok && (strings.Contains(lookup.Err, syscall.EMFILE.Error()) || strings.Contains(lookup.Err, syscall.ENFILE.Error()))
}
