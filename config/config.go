// Package config turns a YAML file, environment variables and flags into one
// checked node.Config. A setting has the value of its flag, or else of the
// environment, the file, or the default; the package records which. An unknown
// name, a value of the wrong kind, and settings that cannot work together are
// errors of one line, which names the setting, the value and the place. It is
// the only package that imports viper.
//
// The package is used at start and reload. It keeps nothing between calls, so
// all of it is safe for concurrent use.
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

// DefaultFile is read when no file is given and it exists.
const DefaultFile = "config.yaml"

// Loaded is a checked configuration, and the sources of its settings.
type Loaded struct {
	Config node.Config
	// File is the file that was read; empty: no file.
	File string
	// Sources names the source of each setting that is not at its default:
	// "file config.yaml", "environment KRING_NODE_ID", "flag --node-id", or
	// "setting cluster.peers" if the value follows that setting. List items go
	// by their name: groups[docs].ttl.
	Sources map[string]string
	// Insecure says that --insecure turned off the checks of
	// node.Config.Exposure.
	Insecure bool
}

// Load reads file (empty: DefaultFile, if it exists), the environment, and the
// flags that AddFlags made; flags may be nil. It refuses a node that is open to
// strangers, unless --insecure is given.
func Load(file string, flags *pflag.FlagSet) (*Loaded, error) {
	return read(file, flags, func(c node.Config) []error { return append(c.Faults(), exposure(c, flags)...) })
}

// Check is Load for commands that do not serve: several nodes may share the
// file, without a node.id (see node.Config.Shared).
func Check(file string, flags *pflag.FlagSet) (*Loaded, error) {
	return read(file, flags, func(c node.Config) []error {
		return append(append(c.FaultsShared(), faults(c.CheckAddress())...), exposure(c, flags)...)
	})
}

// Look is Check, but accepts a node that is open to strangers or that the
// others would not find.
func Look(file string, flags *pflag.FlagSet) (*Loaded, error) {
	return read(file, flags, node.Config.FaultsShared)
}

// exposure lists what makes the node open to strangers, unless --insecure is
// given.
func exposure(c node.Config, flags *pflag.FlagSet) []error {
	if insecure(flags) {
		return nil
	}
	return faults(c.Exposure())
}

func faults(err error) []error {
	if err == nil {
		return nil
	}
	return []error{err}
}

func read(file string, flags *pflag.FlagSet, validate func(node.Config) []error) (*Loaded, error) {
	file, err := choose(file)
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
	l.validate(loaded, validate)
	if err := l.err(); err != nil {
		return nil, err
	}
	return loaded, nil
}

func choose(file string) (string, error) {
	if file != "" {
		return file, nil
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

// Locate adds to an error of a node the source of the setting at fault.
func (l *Loaded) Locate(err error) error {
	if fault, ok := errors.AsType[*node.FieldError](err); ok {
		return located(l.source(fault.Field), l.Explain(fault.Field, err))
	}
	return err
}

// CheckFiles reads the files that the configuration names, and reports all that
// serve would refuse.
func (l *Loaded) CheckFiles() error {
	var all loader
	for _, err := range l.Config.FileFaults() {
		all.add("", "", l.Locate(err))
	}
	return all.err()
}

// Explain adds to an error about a setting the other setting that it follows,
// if any, for a user who has not set it.
func (l *Loaded) Explain(path string, err error) error {
	if other, follows := strings.CutPrefix(l.Sources[path], "setting "); follows {
		return fmt.Errorf("%w; %s is not set, and follows %s", err, path, other)
	}
	return err
}

// source finds the source of a setting, or of the nearest section around it.
func (l *Loaded) source(path string) string {
	for path != "" {
		if s, ok := l.Sources[path]; ok {
			if other, follows := strings.CutPrefix(s, "setting "); follows {
				return l.source(other)
			}
			return s
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return ""
}

// located puts the source before an error, as in "config.yaml: …".
func located(source string, err error) error {
	if _, place, ok := strings.Cut(source, " "); ok {
		return fmt.Errorf("%s: %w", place, err)
	}
	return err
}

// loader is one call of Load.
type loader struct {
	viper   *viper.Viper
	flags   *pflag.FlagSet
	file    string
	secrets map[string]string // path → content of its …_FILE
	sources map[string]string
	// mistakes are the mistakes found so far.
	mistakes []mistake
}

func (l *loader) readFile() error {
	if l.file == "" {
		return nil
	}
	text, err := os.ReadFile(l.file)
	if err != nil {
		return fmt.Errorf("%s: %w", l.file, err)
	}
	document, err := parseYAML(text)
	if err != nil {
		return fmt.Errorf("%s: %w", l.file, err)
	}
	if document == nil {
		return nil
	}
	settings, ok := document.(map[string]any)
	if !ok {
		return fmt.Errorf("%s: %s is not a set of names and values", l.file, show(document))
	}
	return l.viper.MergeConfigMap(l.checkSection(root, settings, "file "+l.file))
}

// readEnvironment binds the variables. It refuses variables that look like a
// setting but are not one.
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
		secret, err := secretFrom(f, name)
		if err != nil {
			l.add("", f.path, err)
		} else if secret != "" {
			l.secrets[f.path] = secret
		}
	}
	for _, err := range checkVariables(os.Environ(), known) {
		l.add("", "", err)
	}
	return nil
}

// secretFrom reads the secret from the file that a variable names, or returns
// "" if the variable is not set.
func secretFrom(f *field, variable string) (string, error) {
	path := os.Getenv(variable)
	if path == "" {
		return "", nil
	}
	if os.Getenv(f.env()) != "" {
		return "", fmt.Errorf("%s: %s is set too; keep one of them", variable, f.env())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("%s: %s: %w", variable, f.path, err)
	}
	secret := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	if secret == "" {
		return "", fmt.Errorf("%s: %s: %q is empty", variable, f.path, path)
	}
	return secret, nil
}

// raw is the value of the most important source that sets f, and that source;
// nil if no source does.
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
