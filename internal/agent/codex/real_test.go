package codex

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/plait-run/plait/internal/agent/host"
	"github.com/plait-run/plait/internal/testing/agenttest"
)

func TestMain(m *testing.M) {
	agenttest.FakeMain()
	flag.Parse()
	if testing.Short() {
		fmt.Println("NOT TESTED with -short: Codex")
		return
	}
	state, err := os.MkdirTemp("", "plait-codex-")
	if err != nil {
		log.Fatal(err)
	}
	os.Setenv("XDG_STATE_HOME", state) // where homes that are apart are: see makeHome
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.Chmod(filepath.Join(state, "plait", "codex"), 0o700)
		os.RemoveAll(state)
		os.Exit(code)
	}))
}

// needCodex returns a host and the real Codex it found. Without one, it skips the
// test, or fails it where no test may be skipped.
func needCodex(t *testing.T) (*Host, host.Program) {
	t.Helper()
	h := NewHost(host.New(host.Config{}))
	p, err := h.Find(t.Context(), "")
	switch {
	case err == nil:
		return h, p
	case os.Getenv("CI") != "" || !errors.As(err, new(*host.MissingError)):
		t.Fatalf("NO REAL CODEX: %v", err)
	}
	t.Skipf("NO REAL CODEX, SO NOTHING OF IT IS TESTED HERE: %v", err)
	return nil, p
}
