package loadgen_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func writeFile(name, text string) error { return os.WriteFile(name, []byte(text), 0o600) }
