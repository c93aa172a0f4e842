package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// left returns the files below a directory.
func left(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestInstaller installs from a server and from a directory, and removes it again as it says.
func TestInstaller(t *testing.T) {
	key, signers := newKey(t)
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	r := newRelease(t, server.URL, key)
	server.Config.Handler = http.FileServer(http.Dir(r.out))
	script := r.file("install.sh")
	home := t.TempDir()
	env := []string{"HOME=" + home, "PLAIT_MIRROR="}

	said := run(t, env, 0, "sh", script, "--signers", signers)
	plait := filepath.Join(home, ".local", "bin", "plait")
	if !strings.Contains(said, "Installed plait v1.2.3 as "+plait+", its SHA-256 checked, and its signature.") {
		t.Errorf("it says %q", said)
	}
	if got := run(t, env, 0, plait, "hello"); !strings.HasSuffix(got, ": hello\n") {
		t.Errorf("what it installed prints %q", got)
	}
	_, remove, _ := strings.Cut(said, "To uninstall it, which leaves the record alone:\n")
	run(t, env, 0, "sh", "-ec", remove)
	if files := left(t, home); len(files) > 0 {
		t.Errorf("what it says removes all but %v", files)
	}

	prefix := filepath.Join(t.TempDir(), "a b")
	for range 2 { // over itself, too
		run(t, append(env, "PLAIT_MIRROR="+r.out), 0, "sh", "install.sh", "--prefix", prefix)
	}
	if files := left(t, home); len(files) > 0 {
		t.Errorf("with --prefix it writes %v", files)
	}
	run(t, env, 0, filepath.Join(prefix, "bin", "plait"), "--version")
}

// TestInstallerRefuses checks that nothing is installed of a release that is not what was signed, or not there.
func TestInstallerRefuses(t *testing.T) {
	key, signers := newKey(t)
	_, others := newKey(t)
	r := newRelease(t, "", key)
	archives, err := filepath.Glob(r.file("*.tar.gz"))
	if err != nil || len(archives) != len(platforms) {
		t.Fatalf("archives: %v %v", archives, err)
	}
	sums, err := os.ReadFile(r.file("SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	prefix := filepath.Join(t.TempDir(), "prefix")
	refused := func(says string, code int, mirror string, args ...string) {
		t.Helper()
		args = append([]string{"install.sh", "--prefix", prefix}, args...)
		said := run(t, []string{"PLAIT_MIRROR=" + mirror}, code, "sh", args...)
		if !strings.Contains(said, says) {
			t.Errorf("it says %q, want %q", said, says)
		}
		if _, err := os.Lstat(prefix); err == nil {
			t.Fatalf("it wrote %v", left(t, prefix))
		}
	}
	refused("set PLAIT_MIRROR", 2, "")
	refused("unknown argument --root", 2, r.out, "--root")
	refused("--signers wants a value", 2, r.out, "--signers")
	refused("cannot get "+prefix+"/SHA256SUMS", 1, prefix)
	refused("the signature of SHA256SUMS is not by a key in", 1, r.out, "--signers", others)
	for _, archive := range archives {
		if err := os.WriteFile(archive, []byte("another"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	refused("nothing was installed", 1, r.out, "--signers", signers)
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(r.file("SHA256SUMS"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(string(sums) + "\n")
	refused("the signature of SHA256SUMS is not by a key in", 1, r.out, "--signers", signers)
	write(strings.ReplaceAll(string(sums), "plait-v1.2.3", "plait-../x"))
	refused("names no archive", 1, r.out)
	write(string(sums) + strings.ReplaceAll(string(sums), "v1.2.3", "v1.2.4"))
	refused("names several archives", 1, r.out)
}
