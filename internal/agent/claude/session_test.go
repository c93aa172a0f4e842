package claude

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/plait-run/plait/internal/agent"
)

// write writes files below a directory.
func write(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte("one"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCopySession checks that a session is copied, and that links and FIFOs in either home are not followed.
func TestCopySession(t *testing.T) {
	const name = "projects/p/s.jsonl"
	a := &Agent{}
	for _, tt := range []struct {
		name         string
		source, dest func(file, victim string) error
		ok           bool
	}{
		{"plain", nil, nil, true},
		{"link to", nil, func(file, victim string) error { return os.Symlink(victim, file) }, true},
		{"FIFO to", nil, func(file, _ string) error { return syscall.Mkfifo(file, 0o600) }, true},
		{"link from", func(file, victim string) error { return os.Symlink(victim, file) }, nil, false},
		{"FIFO from", func(file, _ string) error { return syscall.Mkfifo(file, 0o600) }, nil, false},
	} {
		other, home, victim := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "victim")
		from, to := filepath.Join(a.SessionHome(other), name), filepath.Join(a.SessionHome(home), name)
		write(t, filepath.Dir(victim), "victim")
		if err := errors.Join(os.MkdirAll(filepath.Dir(from), 0o700), os.MkdirAll(filepath.Dir(to), 0o700)); err != nil {
			t.Fatal(err)
		}
		if tt.source == nil {
			tt.source = func(file, _ string) error { return os.WriteFile(file, []byte("session"), 0o600) }
		}
		if err := tt.source(from, victim); err != nil {
			t.Fatal(err)
		}
		if tt.dest != nil {
			if err := tt.dest(to, victim); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.copySession(a.SessionHome(home), agent.Branch{Home: other, Session: "s"}); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
		if got, err := os.ReadFile(victim); err != nil || string(got) != "one" {
			t.Errorf("%s: the victim holds %q: %v", tt.name, got, err)
		}
		if got, err := os.ReadFile(to); tt.ok && string(got) != "session" || !tt.ok && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: copied is %q: %v", tt.name, got, err)
		}
	}
}
