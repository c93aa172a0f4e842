package taskdir

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The files for people state that they are not read, but never overwrite what a person wrote.
func TestNotRead(t *testing.T) {
	ws := t.TempDir()
	d := At(ws, "T")
	read := func(name string) string {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(d.Path(), name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	if err := d.Create(Program{}, false); err != nil {
		t.Fatal(err)
	}
	mine := read(manifestFile) + "# mine\n"
	if err := os.WriteFile(filepath.Join(d.Path(), manifestFile), []byte(mine), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := d.Leave(Program{}); err != nil {
		t.Fatal(err)
	}
	if got := read(notesFile); !strings.Contains(got, "plait resume T -p") {
		t.Errorf("notes that nobody wrote to say %q", got)
	}
	if got := read(manifestFile); got != mine {
		t.Errorf("what a person wrote is now %q", got)
	}
	if err := At(ws, "U").Leave(Program{}); err != nil {
		t.Errorf("a directory that is not there: %v", err)
	}
}
