package config

import "slices"

// secrets are never shown, and may come from a file named by …_FILE.
var secrets = []string{"cluster.secret"}

func (f *field) secret() bool { return slices.Contains(secrets, f.path) }

func (f *field) usage() string { return f.path }
