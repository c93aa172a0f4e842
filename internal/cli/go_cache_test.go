package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
)

// compiledLibrary returns a cache of the go command that has what testing examples/fix/broken compiles of Go's library:
// twenty seconds of work, kept from one run of the tests to the next.
var compiledLibrary = sync.OnceValues(func() (string, error) {
	caches, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(caches, "plait", "go", runtime.Version())
	cmd := exec.Command("go", "test", "-run", "^$", ".")
	cmd.Dir = filepath.Join("..", "..", "examples", "fix", "broken")
	cmd.Env = append(os.Environ(), "GOCACHE="+dir, "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("compile Go's library: %w\n%s", err, out)
	}
	return dir, nil
})

// giveGoCache gives a task that has not run yet a cache with Go's library compiled.
func giveGoCache(userCache, task string) error {
	library, err := compiledLibrary()
	if err != nil {
		return err
	}
	return os.CopyFS(filepath.Join(userCache, "plait", "tasks", task, "cache", "go-build"), os.DirFS(library))
}

// usage: gocache TASK gives a task that has not run yet a cache with Go's library compiled.
func goCacheOf(ts *testscript.TestScript, neg bool, args []string) {
	ts.Check(giveGoCache(ts.Getenv("XDG_CACHE_HOME"), args[0]))
}
