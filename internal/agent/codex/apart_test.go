package codex

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// TestLayApart checks that concurrent first attempts of a task find one home, also that of an earlier version.
func TestLayApart(t *testing.T) {
	for name, old := range map[string]bool{"new": false, "of an earlier version": true} {
		t.Run(name, func(t *testing.T) {
			home, parent := filepath.Join(t.TempDir(), "task"), filepath.Join(t.TempDir(), apartName)
			t.Cleanup(func() { os.Chmod(parent, 0o700) })
			n := 8
			if old {
				n = 1
				if err := os.MkdirAll(filepath.Join(homeLink(home), "sessions"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			var wg sync.WaitGroup
			for range n {
				wg.Go(func() {
					apart, err := makeApart(homeLink(home), parent)
					if err != nil || !apart {
						t.Errorf("got %t and %v", apart, err)
					} else if at := codexHome(home); filepath.Dir(at) != parent {
						t.Errorf("it lies in %s", at)
					} else if err := os.WriteFile(filepath.Join(at, "config.toml"), nil, 0o600); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if _, err := os.Stat(filepath.Join(codexHome(home), "sessions")); old != (err == nil) {
				t.Errorf("what was there: %v", err)
			}
			os.Chmod(parent, 0o700)
			if homes, err := os.ReadDir(parent); err != nil || len(homes) != 1 {
				t.Errorf("there are homes %v, %v", homes, err)
			}
		})
	}
}

// TestHomeIsNoLink checks that nothing is written where an agent in a sandbox made the home lead.
func TestHomeIsNoLink(t *testing.T) {
	home, other := t.TempDir(), t.TempDir()
	if err := os.Symlink(other, homeLink(home)); err != nil {
		t.Fatal(err)
	}
	if at := codexHome(home); at != homeLink(home) {
		t.Errorf("it lies in %s", at)
	}
	if err := (Config{}).writeHome(codexHome(home), "", nil); err == nil {
		t.Error("it was written")
	}
	if left, err := os.ReadDir(other); err != nil || len(left) > 0 {
		t.Errorf("there is %v, %v", left, err)
	}
}
