package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// replacers are the ways to replace x in a directory with what write writes.
var replacers = map[string]func(dir string, write func(*os.File) error) error{
	"Replace": func(dir string, write func(*os.File) error) error {
		return Replace(filepath.Join(dir, "x"), 0o640, write)
	},
	"ReplaceIn": func(dir string, write func(*os.File) error) error {
		root, err := os.OpenRoot(filepath.Dir(dir))
		if err != nil {
			return err
		}
		defer root.Close()
		return ReplaceIn(root, filepath.Join(filepath.Base(dir), "x"), 0o640, write)
	},
}

// TestReplace replaces what can have a name, and fails to.
func TestReplace(t *testing.T) {
	failed := errors.New("failed")
	for how, replace := range replacers {
		for what, c := range map[string]struct {
			plant func(file, victim string) error
			fails bool // even if it is written
		}{
			"nothing":       {plant: func(string, string) error { return nil }},
			"file":          {plant: func(file, _ string) error { return os.WriteFile(file, []byte("old"), 0o600) }},
			"link":          {plant: func(file, victim string) error { return os.Symlink(victim, file) }},
			"dangling link": {plant: func(file, victim string) error { return os.Symlink(victim+"2", file) }},
			"FIFO":          {plant: func(file, _ string) error { return syscall.Mkfifo(file, 0o600) }},
			"directory": {plant: func(file, _ string) error { return os.MkdirAll(filepath.Join(file, "y"), 0o700) },
				fails: true},
		} {
			t.Run(how+"/"+what, func(t *testing.T) {
				dir, victim := t.TempDir(), filepath.Join(t.TempDir(), "victim")
				file := filepath.Join(dir, "x")
				if err := errors.Join(os.WriteFile(victim, []byte("secret"), 0o600), c.plant(file, victim)); err != nil {
					t.Fatal(err)
				}
				before, _ := os.Lstat(file)
				if err := replace(dir, func(f *os.File) error { f.WriteString("ne"); return failed }); !errors.Is(err, failed) {
					t.Errorf("error %v, want that of write", err)
				}
				if after, _ := os.Lstat(file); before == nil && after != nil || before != nil && !os.SameFile(before, after) {
					t.Errorf("a write that failed replaced %v with %v", before, after)
				}
				err := replace(dir, func(f *os.File) error { _, err := f.WriteString("new"); return err })
				if (err != nil) != c.fails {
					t.Errorf("error %v", err)
				}
				if data, err := os.ReadFile(file); !c.fails && (err != nil || string(data) != "new") {
					t.Errorf("holds %q, %v", data, err)
				}
				if info, err := os.Lstat(file); !c.fails && (err != nil || info.Mode() != 0o640) {
					t.Errorf("has the mode %v, %v", info.Mode(), err)
				}
				if data, err := os.ReadFile(victim); err != nil || string(data) != "secret" {
					t.Errorf("what a link led to holds %q, %v", data, err)
				}
				checkNoTemp(t, dir)
			})
		}
	}
}

// TestReadersSeeWhole checks that the old file can be read until the new one is complete, under a name that tells it.
func TestReadersSeeWhole(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "x")
	if err := Write(file, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := Replace(file, 0o600, func(f *os.File) error {
		f.WriteString("new")
		if data, err := os.ReadFile(file); err != nil || string(data) != "old" {
			t.Errorf("meanwhile it holds %q, %v", data, err)
		}
		if name := filepath.Base(f.Name()); !IsTemp(name) {
			t.Errorf("%s is not the name of a temporary file", name)
		}
		return f.Sync()
	})
	if data, _ := os.ReadFile(file); err != nil || string(data) != "new" {
		t.Errorf("holds %q, %v", data, err)
	}
	checkNoTemp(t, dir)
}

// TestStaysBelow checks that ReplaceIn does not follow a link out of its root.
func TestStaysBelow(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	if err := os.Symlink(outside, filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := ReplaceIn(root, "out/x", 0o600, func(*os.File) error { return nil }); err == nil {
		t.Error("a link out of the root was followed")
	}
	if list, err := os.ReadDir(outside); err != nil || len(list) > 0 {
		t.Errorf("outside is %v, %v", list, err)
	}
}

func TestMissingDirectory(t *testing.T) {
	if err := Write(filepath.Join(t.TempDir(), "none", "x"), nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

func checkNoTemp(t *testing.T, dir string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if IsTemp(e.Name()) {
			t.Errorf("left %s", e.Name())
		}
	}
}
