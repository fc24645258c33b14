// Command kring is a distributed read-through HTTP cache server.
package main

import (
	"os"

	"kring/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
