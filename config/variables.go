package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

const prefix = "KRING_"

// variables are no settings, but known: to the commands that ask a node, and to
// the scripts.
var variables = []string{"KRING_TOKEN", "KRING_BASE_PORT"}

// service matches what Kubernetes and Docker make of a Service or link whose
// name is kring or begins with it: KRING_SERVICE_HOST, KRING_NODE_PORT_8001_TCP.
var service = regexp.MustCompile(`^KRING(_.+)?_(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

// checkVariables finds the variables that are named as a setting's would be, and
// are none's: whoever set one believes that it does something. Empty ones are
// unset. Those that resemble no setting are somebody else's, a script's or a
// test's, and left alone.
func checkVariables(environment []string, known map[string]bool) (mistakes []error) {
	for _, variable := range slices.Sorted(slices.Values(environment)) {
		name, value, _ := strings.Cut(variable, "=")
		switch {
		case value == "" || known[name] || !strings.HasPrefix(name, prefix) || slices.Contains(variables, name):
		case service.MatchString(name) || strings.HasSuffix(name, "_PORT") && strings.Contains(value, "://"):
		case name == prefix+"CONFIG" || name == prefix+"CONFIG_FILE":
			mistakes = append(mistakes, fmt.Errorf("%s: unknown setting; the file is named by --config", name))
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

// section is the first word of a variable's name: CACHE of KRING_CACHE_MAX_BYTES.
func section(name string) string {
	word, _, _ := strings.Cut(strings.TrimPrefix(name, prefix), "_")
	return word
}

// meantVariable is Suggest, but prefers names in which only the section is
// missing: KRING_LISTEN is KRING_NODE_LISTEN.
func meantVariable(name string, known []string) string {
	end := strings.TrimPrefix(name, prefix)
	if end == "PORT" || end == "ADDR" || end == "ADDRESS" {
		end = "LISTEN" // as most programs call it
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
