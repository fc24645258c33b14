package config

import (
	"strings"

	"github.com/spf13/pflag"
)

const (
	insecureFlag = "insecure"
	// notYet begins the help of settings that only a later version uses. Their
	// flags are accepted but not shown.
	notYet = "not in this version"
)

// AddFlags adds a flag for each setting: --cache-max-bytes for cache.max_bytes,
// and --listen for node.listen. Lists of sections are given as YAML.
func AddFlags(flags *pflag.FlagSet) {
	flags.SortFlags = false
	for _, f := range root.leaves() {
		flag := flags.VarPF(&text{kind: f.kind}, f.flag(), "", f.usage())
		flag.Hidden = strings.HasPrefix(about[f.path], notYet)
		if f.kind == kindBool {
			flag.NoOptDefVal = "true"
		}
	}
	flags.Bool(insecureFlag, false, "listen off loopback without a cluster secret or client tokens")
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		name = strings.ReplaceAll(name, "_", "-")
		if name == "node-listen" {
			name = "listen"
		}
		return pflag.NormalizedName(name)
	})
}

func insecure(flags *pflag.FlagSet) bool {
	if flags == nil {
		return false
	}
	f := flags.Lookup(insecureFlag)
	return f != nil && f.Value.String() == "true"
}

// text is a flag that is parsed later, when all sources are known. Its type is
// a name that viper does not know, because viper would convert an unreadable
// value to 0.
type text struct {
	kind  kind
	value string
}

func (t *text) String() string     { return t.value }
func (t *text) Set(s string) error { t.value = s; return nil }
func (t *text) Type() string       { return t.kind.String() }
