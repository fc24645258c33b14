// Package cli is the command line of kring.
package cli

import "io"

// Main runs kring with its arguments and returns the exit code: 0 clean, 1
// failed while running, 2 usage or configuration, 3 cannot bind.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int { return 0 }
