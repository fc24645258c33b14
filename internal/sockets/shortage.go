package sockets

import (
	"errors"
	"net"
	"slices"
	"strings"
	"syscall"
)

var shortages = []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL}

// Shortage reports whether a dial failed with err because this machine has no
// descriptors, buffers or local ports left. Then the other side is not to blame, and
// another one would not help.
func Shortage(err error) bool {
	if slices.ContainsFunc(shortages, func(s error) bool { return errors.Is(err, s) }) {
		return true
	}
	// The resolver needs a socket, too, but does not wrap its error.
	lookup, ok := errors.AsType[*net.DNSError](err)
	return ok && (strings.Contains(lookup.Err, syscall.EMFILE.Error()) || strings.Contains(lookup.Err, syscall.ENFILE.Error()))
}
