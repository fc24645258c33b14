// Package config turns a YAML file, environment variables and flags into one
// checked node.Config. A setting's value is that of the flag, else the
// environment, else the file, else the default; where it came from is kept.
// A name that does not exist, a value of the wrong kind, and settings that
// cannot work together are errors of one line that name the setting, the value
// and the place. It is the only package that imports viper.
//
// Everything here is called at start or reload; nothing is kept between calls,
// so that all of it is safe for concurrent use.
package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"kring/node"
)

// DefaultFile is read when no file is named and it exists.
const DefaultFile = "config.yaml"

// Loaded is a configuration that has been checked, and where it came from.
type Loaded struct {
	Config node.Config
	// File is the file that was read; empty: none.
	File string
	// Sources says for each setting that is not at its default where its value
	// came from: "file config.yaml", "environment KRING_NODE_ID", "flag
	// --node-id". Items of lists are named by their name: groups[docs].ttl.
	Sources map[string]string
	// Insecure: the operator asked, by flag, to go without the checks of
	// node.Config.Exposure.
	Insecure bool
}

// Load reads file (empty: DefaultFile, if there is one), the environment and
// those of flags that AddFlags made; flags may be nil. It refuses what would
// let strangers in, unless --insecure is given.
func Load(file string, flags *pflag.FlagSet) (*Loaded, error) {
	return reachable(read(file, flags, node.Config.Validate))
}

// Check is Load for those who do not serve: the file may be one that all nodes
// share, without a node.id (see node.Config.Shared).
func Check(file string, flags *pflag.FlagSet) (*Loaded, error) {
	return reachable(read(file, flags, node.Config.ValidateShared))
}

// Look is Check, and minds neither a node that would be open to strangers nor
// one that the others would not find.
func Look(file string, flags *pflag.FlagSet) (*Loaded, error) {
	return read(file, flags, node.Config.ValidateShared)
}

// reachable checks what concerns those who serve: that the others find the
// node, and strangers do not.
func reachable(l *Loaded, err error) (*Loaded, error) {
	if err != nil {
		return nil, err
	}
	if err := l.Config.CheckAddress(); err != nil {
		return nil, l.Locate(err)
	}
	if l.Insecure {
		return l, nil
	}
	if err := l.Config.Exposure(); err != nil {
		return nil, l.Locate(err)
	}
	return l, nil
}

func read(file string, flags *pflag.FlagSet, validate func(node.Config) error) (*Loaded, error) {
	file, err := choose(file, flags)
	if err != nil {
		return nil, err
	}
	l := &loader{viper: viper.New(), flags: flags, file: file, secrets: map[string]string{}, sources: map[string]string{}}
	if err := l.readFile(); err != nil {
		return nil, err
	}
	if err := l.readEnvironment(); err != nil {
		return nil, err
	}
	cfg, err := l.decode()
	if err != nil {
		return nil, err
	}
	loaded := &Loaded{Config: cfg, File: file, Sources: l.sources, Insecure: insecure(flags)}
	if err := validate(cfg); err != nil {
		return nil, loaded.Locate(err)
	}
	return loaded, nil
}

func choose(file string, flags *pflag.FlagSet) (string, error) {
	if file != "" {
		return file, nil
	}
	if flags != nil && flags.Changed("config") { // --config "$UNSET"
		return "", errors.New(`--config: "" is no file`)
	}
	switch _, err := os.Stat(DefaultFile); {
	case err == nil:
		return DefaultFile, nil
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	default:
		return "", fmt.Errorf("look for %s: %w", DefaultFile, err)
	}
}

// Locate adds to a node's error where the value at fault came from.
func (l *Loaded) Locate(err error) error {
	if fault, ok := errors.AsType[*node.FieldError](err); ok {
		return located(l.source(fault.Field), err)
	}
	return err
}

// source finds where a setting, or the nearest thing around it, came from.
func (l *Loaded) source(path string) string {
	for path != "" {
		if s, ok := l.Sources[path]; ok {
			return s
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return ""
}

// located puts the place before an error: "config.yaml: …", "KRING_NODE_ID: …".
func located(source string, err error) error {
	if _, place, ok := strings.Cut(source, " "); ok {
		return fmt.Errorf("%s: %w", place, err)
	}
	return err
}

// loader is one run of Load.
type loader struct {
	viper   *viper.Viper
	flags   *pflag.FlagSet
	file    string
	secrets map[string]string // path → content of its …_FILE
	sources map[string]string
}

func (l *loader) readFile() error {
	if l.file == "" {
		return nil
	}
	text, err := os.ReadFile(l.file)
	if err != nil {
		return fmt.Errorf("%s: %w", l.file, err)
	}
	document := map[string]any{}
	decoder, err := viper.NewCodecRegistry().Decoder("yaml")
	if err != nil {
		return fmt.Errorf("%s: %w", l.file, err)
	}
	if err := decoder.Decode(text, document); err != nil {
		return fmt.Errorf("%s: %s", l.file, oneLine(err.Error()))
	}
	v := viper.New()
	if err := v.MergeConfigMap(document); err != nil {
		return fmt.Errorf("%s: %w", l.file, err)
	}
	settings := v.AllSettings() // without the names that have no value
	if err := root.checkNames(settings, v.AllKeys(), emptyMaps(document, "")); err != nil {
		return fmt.Errorf("%s: %w", l.file, err)
	}
	return l.viper.MergeConfigMap(settings)
}

// emptyMaps are the dotted names of maps without anything in them, which are
// none of viper's keys: a misspelt one would not be noticed.
func emptyMaps(m map[string]any, path string) []string {
	var empty []string
	for name, value := range m {
		below, ok := asMap(value)
		at := join(path, strings.ToLower(name))
		switch {
		case ok && len(below) == 0:
			empty = append(empty, at)
		case ok:
			empty = append(empty, emptyMaps(below, at)...)
		}
	}
	return empty
}

// readEnvironment binds the variables, and refuses those that look like a
// setting but are none.
func (l *loader) readEnvironment() error {
	known := map[string]bool{}
	for _, f := range root.leaves() {
		known[f.env()] = true
		if err := l.viper.BindEnv(f.path, f.env()); err != nil {
			return fmt.Errorf("bind %s: %w", f.env(), err)
		}
		if !f.secret() {
			continue
		}
		name := f.env() + "_FILE"
		known[name] = true
		path := os.Getenv(name)
		if path == "" {
			continue
		}
		if os.Getenv(f.env()) != "" {
			return fmt.Errorf("%s: %s is set too; keep one of them", name, f.env())
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", name, f.path, err)
		}
		secret := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
		if secret == "" {
			return fmt.Errorf("%s: %s: %q is empty", name, f.path, path)
		}
		l.secrets[f.path] = secret
	}
	return checkVariables(os.Environ(), known)
}

// raw is what the most important source says of a setting, and which that is;
// nil: none says anything.
func (l *loader) raw(f *field) (value any, source string) {
	if l.flags != nil {
		if flag := l.flags.Lookup(f.flag()); flag != nil && flag.Changed {
			return l.viper.Get(f.path), "flag --" + flag.Name
		}
	}
	if secret, ok := l.secrets[f.path]; ok {
		return secret, "environment " + f.env() + "_FILE"
	}
	value = l.viper.Get(f.path)
	switch {
	case value == nil:
		return nil, ""
	case os.Getenv(f.env()) != "":
		return value, "environment " + f.env()
	default:
		return value, "file " + l.file
	}
}

// oneLine keeps a message of several lines on one.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
