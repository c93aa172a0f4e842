package cli

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
)

// compiledLibrary is a cache of the go command with what it compiles of its library to test examples/fix/broken:
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

// giveGoCache begins the cache of a task that is still to be run with what is compiled of Go's library. The go command
// never changes a file of its cache, so links do.
func giveGoCache(userCache, task string) error {
	from, err := compiledLibrary()
	if err != nil {
		return err
	}
	to := filepath.Join(userCache, "plait", "tasks", task, "cache", "go-build")
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		}
		if os.Link(path, filepath.Join(to, rel)) == nil {
			return nil
		}
		data, err := os.ReadFile(path) // that lies on another file system
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), data, 0o600)
	})
}

// usage: gocache TASK gives a task that is still to be run a cache with Go's library.
func goCacheOf(ts *testscript.TestScript, neg bool, args []string) {
	ts.Check(giveGoCache(ts.Getenv("XDG_CACHE_HOME"), args[0]))
}
