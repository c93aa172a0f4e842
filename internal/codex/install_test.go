package codex

import (
	"os"
	"strings"
	"testing"
)

// What `make test` installs must be what the package is tested with.
func TestMakefileInstallsThisVersion(t *testing.T) {
	data, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), "\nCODEX := "+Version+"\n") {
		t.Errorf("the Makefile does not install Codex %s", Version)
	}
}
