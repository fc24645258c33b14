package main_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// mayImport is who may import whom, among the packages of this module. A
// folder that is not named here may not exist.
var mayImport = map[string][]string{
	"kring":                   {"kring/cli"},
	"kring/cli":               {"kring/config", "kring/node", "kring/origin/demo", "kring/consistenthash", "kring/membership", "kring/httpapi", "kring/client", "kring/loadgen"},
	"kring/config":            {"kring/node", "kring/cache", "kring/membership", "kring/balance", "kring/origin", "kring/httpapi"},
	"kring/node":              {"kring/httpapi", "kring/cluster", "kring/peers", "kring/membership", "kring/origin", "kring/balance", "kring/cache", "kring/consistenthash"},
	"kring/node/nodetest":     {"kring/node", "kring/httpapi", "kring/cluster", "kring/peers", "kring/membership", "kring/origin", "kring/balance", "kring/cache", "kring/consistenthash", "kring/internal/testlog"},
	"kring/httpapi":           {"kring/httpserver", "kring/cluster", "kring/cache", "kring/peers", "kring/balance"},
	"kring/httpserver":        {},
	"kring/cluster":           {"kring/cache", "kring/peers", "kring/membership"},
	"kring/peers":             {"kring/cache", "kring/internal/sockets", "kring/internal/throttle", "kring/link", "kring/membership"},
	"kring/peers/memnet":      {},
	"kring/link":              {"kring/internal/sockets"},
	"kring/origin":            {"kring/cache", "kring/balance", "kring/internal/sockets", "kring/internal/throttle"},
	"kring/origin/demo":       {},
	"kring/loadgen":           {"kring/client"},
	"kring/client":            {"kring/balance"},
	"kring/balance":           {},
	"kring/cache":             {},
	"kring/e2e":               {}, // tests alone
	"kring/membership":        {"kring/consistenthash"},
	"kring/consistenthash":    {},
	"kring/internal/sockets":  {},
	"kring/internal/throttle": {},
	"kring/internal/testlog":  {}, // for tests
	"kring/bench":             {"kring/bench/drive", "kring/bench/rival", "kring/balance", "kring/cache", "kring/consistenthash"},
	"kring/bench/drive":       {},
	"kring/bench/rival":       {"kring/cache", "kring/cluster", "kring/consistenthash", "kring/httpapi", "kring/membership", "kring/peers"},
}

// inBench: the bench measures libraries beside Kring, so it may import them.
const inBench = "kring/bench"

// onlyIn names the libraries that one package alone may import.
var onlyIn = map[string]string{
	"github.com/gin-gonic/gin":        "kring/httpapi",
	"github.com/spf13/viper":          "kring/config",
	"github.com/golang/groupcache/":   "kring/cache",
	"github.com/hashicorp/memberlist": "kring/peers",
	"github.com/redis/go-redis/":      "kring/balance",
}

func TestImports(t *testing.T) {
	out, err := exec.Command("go", "list", "-tags", "nomsgpack,nethttpomithttp2", "-json=ImportPath,Imports", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	seen := 0
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; seen++ {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		allowed, ok := mayImport[p.ImportPath]
		if !ok {
			t.Errorf("%s is not in the table of allowed imports", p.ImportPath)
		}
		for _, imp := range p.Imports {
			if (imp == "kring" || strings.HasPrefix(imp, "kring/")) && !slices.Contains(allowed, imp) {
				t.Errorf("%s may not import %s", p.ImportPath, imp)
			}
			for lib, owner := range onlyIn {
				if strings.HasPrefix(imp, lib) && p.ImportPath != owner && !strings.HasPrefix(p.ImportPath, inBench) {
					t.Errorf("%s imports %s; only %s may", p.ImportPath, imp, owner)
				}
			}
		}
	}
	if seen < len(mayImport)/2 {
		t.Errorf("go list named %d packages only", seen)
	}
}
