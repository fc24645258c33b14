package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

const prefix = "KRING_"

// variables are known variables that are not settings. Commands that call a
// node and scripts read them.
var variables = []string{"KRING_TOKEN", "KRING_BASE_PORT"}

// service matches the variables that Kubernetes and Docker set for a Service or
// link whose name begins with kring: KRING_SERVICE_HOST,
// KRING_NODE_PORT_8001_TCP.
var service = regexp.MustCompile(`^KRING(_.+)?_(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

// checkVariables finds variables that are named like a setting but are not one:
// the user believes that they do something. Empty variables count as unset.
// Variables that resemble no setting belong to another program and are ignored.
func checkVariables(environment []string, known map[string]bool) (mistakes []error) {
	for _, variable := range slices.Sorted(slices.Values(environment)) {
		name, value, _ := strings.Cut(variable, "=")
		switch {
		case value == "" || known[name] || !strings.HasPrefix(name, prefix) || slices.Contains(variables, name):
		case service.MatchString(name) || strings.HasSuffix(name, "_PORT") && strings.Contains(value, "://"):
		case name == prefix+"CONFIG" || name == prefix+"CONFIG_FILE":
			mistakes = append(mistakes, fmt.Errorf("%s: unknown setting; name the file with --config", name))
		default:
			settings := slices.Sorted(maps.Keys(known))
			meant := meantVariable(name, settings)
			if meant != "" || slices.ContainsFunc(settings, func(k string) bool { return section(k) == section(name) }) {
				mistakes = append(mistakes, fmt.Errorf("%s: unknown setting%s", name, meant))
			}
		}
	}
	return mistakes
}

// section is the first word of a variable's name: CACHE of
// KRING_CACHE_MAX_BYTES.
func section(name string) string {
	word, _, _ := strings.Cut(strings.TrimPrefix(name, prefix), "_")
	return word
}

// meantVariable is Suggest, but prefers names that lack only the section:
// KRING_LISTEN is KRING_NODE_LISTEN.
func meantVariable(name string, known []string) string {
	end := strings.TrimPrefix(name, prefix)
	if end == "PORT" || end == "ADDR" || end == "ADDRESS" {
		end = "LISTEN" // the name in most other programs
	}
	var meant []string
	for _, k := range known {
		section, ok := strings.CutSuffix(strings.TrimPrefix(k, prefix), "_"+end)
		if ok && !strings.Contains(section, "_") {
			meant = append(meant, k)
		}
	}
	if len(meant) == 1 {
		return "; did you mean " + meant[0] + "?"
	}
	return Suggest(name, known)
}
