package attempt

import (
	"os"
	"path/filepath"
	"testing"
)

// What agents put in their scratch directory leads Plait to nothing outside it.
func TestScratchIsOutOfReach(t *testing.T) {
	for name, put := range map[string]func(bin, elsewhere string) error{
		"nothing": func(string, string) error { return nil },
		"a link":  func(bin, elsewhere string) error { return os.Symlink(elsewhere, bin) },
		"a file":  func(bin, _ string) error { return os.WriteFile(bin, nil, 0o600) },
		"another program": func(bin, _ string) error {
			if err := os.Mkdir(bin, 0o700); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(bin, "plait"), nil, 0o700)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, "write", nil)
			elsewhere := t.TempDir()
			program := filepath.Join(elsewhere, "plait")
			h.cfg.Host.Scratch, h.cfg.Host.Bin = t.TempDir(), program
			if err := os.WriteFile(program, []byte("the program"), 0o700); err != nil {
				t.Fatal(err)
			}
			dir, err := h.scratch("t")
			if err != nil {
				t.Fatal(err)
			}
			bin := filepath.Join(dir, "bin")
			if err := os.RemoveAll(bin); err != nil {
				t.Fatal(err)
			}
			if err := put(bin, elsewhere); err != nil {
				t.Fatal(err)
			}
			if _, err := h.scratch("t"); err != nil {
				t.Fatal(err)
			}
			if to, err := os.Readlink(filepath.Join(bin, "plait")); err != nil || to != program {
				t.Errorf("plait is a link to %q, %v", to, err)
			}
			if data, err := os.ReadFile(program); err != nil || string(data) != "the program" {
				t.Errorf("the program has %q, %v", data, err)
			}
		})
	}
}
