package agent

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestHome checks that nothing that was planted under a name is followed or waited for.
func TestHome(t *testing.T) {
	victim := filepath.Join(t.TempDir(), "victim")
	for name, plant := range map[string]func(file string) error{
		"nothing":       func(string) error { return nil },
		"file":          func(file string) error { return os.WriteFile(file, []byte("old"), 0o600) },
		"link":          func(file string) error { return os.Symlink(victim, file) },
		"dangling link": func(file string) error { return os.Symlink(victim+"2", file) },
		"FIFO":          func(file string) error { return syscall.Mkfifo(file, 0o600) },
		"directory":     func(file string) error { return os.MkdirAll(filepath.Join(file, "sub"), 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			file := filepath.Join(home, "deep", "x.json")
			if err := errors.Join(os.WriteFile(victim, []byte("secret"), 0o600), os.MkdirAll(filepath.Dir(file), 0o700),
				plant(file)); err != nil {
				t.Fatal(err)
			}
			root, err := os.OpenRoot(home)
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			if f, err := OpenIn(root, "deep/x.json"); (err == nil) != (name == "file") {
				t.Errorf("opened %v: %v", f, err)
			} else if err == nil {
				f.Close()
			}
			if err := ReplaceIn(root, "deep/x.json", strings.NewReader("new")); err != nil {
				t.Fatal(err)
			}
			f, err := OpenIn(root, "deep/x.json")
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if got, err := io.ReadAll(f); err != nil || string(got) != "new" {
				t.Errorf("it holds %q: %v", got, err)
			}
			if got, err := os.ReadFile(victim); err != nil || string(got) != "secret" {
				t.Errorf("the victim holds %q: %v", got, err)
			}
			if _, err := os.Lstat(victim + "2"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a file was made outside: %v", err)
			}
			if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) != 1 {
				t.Errorf("left are %v: %v", left, err)
			}
		})
	}
	home := t.TempDir()
	if err := os.Symlink(t.TempDir(), filepath.Join(home, "out")); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(home)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := ReplaceIn(root, "out/x", strings.NewReader("new")); err == nil {
		t.Error("a link of a directory led outside")
	}
}
