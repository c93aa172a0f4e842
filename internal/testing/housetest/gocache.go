package housetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
)

// compiledLibrary returns a cache of the go command with the part of Go's library that examples/fix/broken needs for
// its tests: twenty seconds of work, kept from one run of the tests to the next.
var compiledLibrary = sync.OnceValues(func() (string, error) {
	caches, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(caches, "plait", "go", runtime.Version())
	cmd := exec.Command("go", "test", "-run", "^$", ".")
	cmd.Dir = filepath.Join("..", "..", "..", "examples", "fix", "broken")
	cmd.Env = append(os.Environ(), "GOCACHE="+dir, "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("compile Go's library: %w\n%s", err, out)
	}
	return dir, nil
})

// GoCache copies a cache of the go command, with Go's library compiled, into the cache directory of a task that has
// not run yet. The test's package must be two directories below the module's.
func GoCache(cache string) error {
	library, err := compiledLibrary()
	if err != nil {
		return err
	}
	return os.CopyFS(filepath.Join(cache, "go-build"), os.DirFS(library))
}
