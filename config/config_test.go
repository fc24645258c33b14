package config_test

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"kring/config"
	"kring/node"
)

func TestNothingIsTheDefaults(t *testing.T) {
	t.Chdir(t.TempDir())
	l, err := config.Load("", nil)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(l.Config, node.DefaultConfig()) {
		t.Errorf("got  %+v\nwant %+v", l.Config, node.DefaultConfig())
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
