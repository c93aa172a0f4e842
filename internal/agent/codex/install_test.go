package codex

import (
	"os"
	"strings"
	"testing"
)

// TestMakefileInstallsThisVersion checks that `make test` installs the version that the package is tested with.
func TestMakefileInstallsThisVersion(t *testing.T) {
	data, err := os.ReadFile("../../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), "\nCODEX := "+Version+"\n") {
		t.Errorf("the Makefile does not install Codex %s", Version)
	}
}
