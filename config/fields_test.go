package config_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// The comment of each field that is a setting states its default.
func TestEachSettingSaysItsDefaultInTheCode(t *testing.T) {
	fields := 0
	for _, dir := range []string{"balance", "cache", "httpapi", "membership", "node", "origin"} {
		files, err := filepath.Glob(filepath.Join("..", dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				spec, ok := n.(*ast.TypeSpec)
				if !ok {
					return true
				}
				// node.Config has sections, not settings.
				if s, ok := spec.Type.(*ast.StructType); ok && (dir != "node" || spec.Name.Name != "Config") {
					fields += undocumented(t, dir+"."+spec.Name.Name, s)
				}
				return true
			})
		}
	}
	if fields < 60 {
		t.Errorf("only %d settings were looked at", fields)
	}
}

// undocumented reports the settings of a struct whose comments state no
// default, and returns the number of its settings.
func undocumented(t *testing.T, name string, s *ast.StructType) (settings int) {
	t.Helper()
	for _, f := range s.Fields.List {
		if f.Tag == nil || !strings.Contains(f.Tag.Value, "mapstructure:") || strings.Contains(f.Tag.Value, ",squash") || strings.Contains(f.Tag.Value, `"-"`) {
			continue
		}
		settings++
		if !strings.Contains(strings.Join(strings.Fields(f.Doc.Text()), " "), "Default:") {
			t.Errorf("%s.%s does not say its default", name, f.Names[0].Name)
		}
	}
	return settings
}
