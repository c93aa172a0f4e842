package proc

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// needWalls returns the path of bubblewrap, and skips the test where there is none, except in CI.
func needWalls(t *testing.T) string {
	t.Helper()
	bwrap := Bubblewrap()
	if bwrap == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("bubblewrap is not installed")
		}
		t.Skip("NOT TESTED: bubblewrap is not installed")
	}
	return bwrap
}

// TestMounts checks that a program sees one place in place of another, and that the other stays unchanged.
func TestMounts(t *testing.T) {
	bwrap := needWalls(t)
	dir := t.TempDir()
	for _, name := range []string{"mine/.git", "copy/.git", "mine/empty"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"mine/f", "copy/f", "mine/.git/HEAD", "mine/empty/it"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w := Sandbox{Mounts: []Mount{{From: dir + "/copy", At: dir + "/mine", Write: true},
		{From: dir + "/mine/.git", At: dir + "/mine/.git"}}}
	inner := Sandbox{Network: true, Tree: []string{dir + "/mine"}, Guard: []string{dir + "/mine/.git"}}
	script := "cat f .git/HEAD; echo new > " + dir + "/mine/f; touch .git/new || echo no; touch ../mine/g; touch ../h " +
		"|| echo no"
	path, args := inner.Around(bwrap, "/bin/sh", []string{"-c", script}) // a sandbox in a sandbox
	path, args = w.Around(bwrap, path, args)
	var out bytes.Buffer
	_, err := Run(t.Context(), Config{Path: path, Args: args, Dir: dir + "/mine",
		Env:    []string{"PATH=" + os.Getenv("PATH")},
		Stdout: &out})
	if want := "copy/f\nmine/.git/HEAD\nno\nno\n"; err != nil || out.String() != want {
		t.Errorf("%v, it sees %q, want %q", err, out.String(), want)
	}
	for name, want := range map[string]string{"mine/f": "mine/f\n", "copy/f": "new\n", "copy/g": ""} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s holds %q, want %q: %v", name, got, want, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "mine/g")); err == nil {
		t.Error("what it makes is where it seems to be")
	}
}

// TestNestedPlaces checks that the deepest place wins, whatever the order of the lists.
func TestNestedPlaces(t *testing.T) {
	bwrap := needWalls(t)
	dir := t.TempDir()
	for _, name := range []string{"tree/logins/tool", "tree/src"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"tree/key", "tree/src/f", "tree/logins/key", "tree/logins/tool/run", "other"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w := Sandbox{Sealed: true, Hide: []string{dir + "/tree/logins", dir + "/tree/key", dir}, Tree: []string{dir + "/tree"},
		Read: []string{dir + "/tree", dir + "/tree/logins/tool"}}
	script := "cat src/f key logins/key logins/tool/run ../other; for f in src/g logins/g logins/tool/g ../g; do touch " +
		"$f && echo $f; done"
	path, args := w.Around(bwrap, "/bin/sh", []string{"-c", script})
	var out bytes.Buffer
	_, err := Run(t.Context(), Config{Path: path, Args: args, Dir: dir + "/tree",
		Env: []string{"PATH=" + os.Getenv("PATH")}, Stdout: &out})
	if want := "tree/src/f\ntree/logins/tool/run\nsrc/g\n"; err != nil || out.String() != want {
		t.Errorf("%v, it sees %q, want %q", err, out.String(), want)
	}
}

// TestSandbox tries, from inside, to reach what a sandbox keeps out.
func TestSandbox(t *testing.T) {
	bwrap := needWalls(t)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().String()[strings.LastIndexByte(l.Addr().String(), ':')+1:]
	dir := t.TempDir()
	for _, name := range []string{"tree", "home/task", "home/lent", "other", "tree/.git/mine"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"home/secret", "home/task/mine", "home/lent/it", "login", "other/file"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("a secret\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w := Sandbox{
		Hide: []string{dir + "/home", dir + "/login"}, Read: []string{dir + "/home/lent"},
		Tree: []string{dir + "/tree"}, Guard: []string{dir + "/tree/.git"},
		Write: []string{dir + "/tree/.git/mine", dir + "/home/task", dir + "/none"},
	}
	for script, want := range map[string]string{
		"echo x > tree/new && cat tree/new":                                    "x",
		"echo x > home/task/new && cat home/task/mine":                         "a secret",
		"touch tree/.git/new || echo no; touch tree/.git/mine/new && echo yes": "no\nyes",
		"cat home/secret login":                                                "",
		"cat home/lent/it; touch home/lent/it || echo no":                      "a secret\nno",
		"cat other/file":                                                     "a secret",
		"echo x > other/file || echo no":                                     "no",
		"echo x > other/new || echo no":                                      "no",
		"ls -d /proc/" + strconv.Itoa(os.Getpid()) + " || echo no":           "no",
		"(exec 3<>/dev/tcp/127.0.0.1/" + port + ") && echo there || echo no": "no",
	} {
		path, args := w.Around(bwrap, "/bin/bash", []string{"-c", script})
		var out bytes.Buffer
		res, err := Run(t.Context(), Config{Path: path, Args: args, Dir: dir, Env: []string{"PATH=" + os.Getenv("PATH")},
			Stdout: &out})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSpace(out.String()); got != want {
			t.Errorf("%s: %q, want %q (exit %d)", script, got, want, res.Exit)
		}
	}
	w.Network = true
	path, args := w.Around(bwrap, "/bin/bash", []string{"-c", "(exec 3<>/dev/tcp/127.0.0.1/" + port + ") && echo there"})
	var out bytes.Buffer
	if _, err := Run(t.Context(), Config{Path: path, Args: args, Dir: dir, Env: []string{"PATH=" + os.Getenv("PATH")},
		Stdout: &out}); err != nil ||
		out.String() != "there\n" {
		t.Errorf("with the network: %q, %v", out.String(), err)
	}
}
