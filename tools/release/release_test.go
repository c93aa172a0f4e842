package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// fake is the binary of a test: it says which platform it is for, and does what its arguments say.
const fake = `#!/bin/sh
case $1 in
--version) echo "plait v1.2.3" ;;
exit) exit "$2" ;;
wait) trap 'echo stopped; exit 130' TERM; echo ready; while :; do sleep 0.05; done ;;
*) echo "%s: $*" ;;
esac
`

// newRelease makes a release of fake binaries in a directory, without what needs tools of their own.
func newRelease(t *testing.T, mirror, key string) *release {
	t.Helper()
	t.Chdir(filepath.Join("..", "..")) // back again if it is called twice
	r, err := begin("v1.2.3", t.TempDir(), mirror, key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(r.work) })
	for _, p := range platforms {
		if err := os.WriteFile(r.binary(p), fmt.Appendf(nil, fake, p.os+" "+p.arch), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []func() error{r.pages, r.archives, r.npm, r.formula, r.installer, r.sums, r.notes} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// newKey makes an SSH key, and a file that says that plait signs with it.
func newKey(t *testing.T) (key, signers string) {
	t.Helper()
	key = filepath.Join(t.TempDir(), "key")
	run(t, nil, 0, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", key)
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	signers = filepath.Join(t.TempDir(), "signers")
	if err := os.WriteFile(signers, append([]byte("plait "), public...), 0o644); err != nil {
		t.Fatal(err)
	}
	return key, signers
}

// run runs a command, checks its exit code, and returns what it printed.
func run(t *testing.T, env []string, code int, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Fatalf("%s %s: exit code %d, want %d\n%s", name, strings.Join(args, " "), got, code, out)
	}
	return string(out)
}

// unpack returns the files of an archive, by name.
func unpack(t *testing.T, name string) map[string][]byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	packed, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for r := tar.NewReader(packed); ; {
		h, err := r.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSame checks that a release is the same each time that it is made, and in its sums.
func TestSame(t *testing.T) {
	key, signers := newKey(t)
	one, two := newRelease(t, "https://example.org/plait", key), (*release)(nil)
	t.Run("again", func(t *testing.T) {
		t.Chdir(filepath.Join("tools", "release"))
		two = newRelease(t, "https://example.org/plait", key)
		for _, name := range []string{"SHA256SUMS", "SHA256SUMS.sig", "NOTES.md"} {
			a, err := os.ReadFile(one.file(name))
			if err != nil {
				t.Fatal(err)
			}
			if b, err := os.ReadFile(two.file(name)); err != nil || !bytes.Equal(a, b) {
				t.Errorf("%s is another one: %v\n%s\n%s", name, err, a, b)
			}
		}
	})
	sums, err := os.Open(one.file("SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	defer sums.Close()
	verify := exec.Command("ssh-keygen", "-Y", "verify", "-f", signers, "-I", "plait", "-n", "file", "-s",
		one.file("SHA256SUMS.sig"))
	verify.Stdin = sums
	if out, err := verify.CombinedOutput(); err != nil {
		t.Errorf("its signature: %v: %s", err, out)
	}
	t.Chdir(one.out)
	run(t, nil, 0, "sha256sum", "-c", "--strict", "SHA256SUMS")
	page := unpack(t, one.file("plait-v1.2.3-linux-amd64.tar.gz"))["plait-v1.2.3-linux-amd64/man/plait-run.1.gz"]
	text, err := gzip.NewReader(bytes.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	man, err := io.ReadAll(text)
	if err != nil || !bytes.Contains(man, []byte("Plait v1.2.3")) {
		t.Errorf("the man page of run: %v\n%.300s", err, man)
	}
}

// TestFormula checks that each address in the formula leads to a file with the sum that stands there, and that its
// text is Ruby, where there is one.
func TestFormula(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	r := newRelease(t, server.URL, "")
	server.Config.Handler = http.FileServer(http.Dir(r.out))
	text, err := os.ReadFile(r.file("plait.rb"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`url "(.*)"\n\s+sha256 "(.*)"`).FindAllSubmatch(text, -1)
	if len(found) != len(platforms) {
		t.Fatalf("%d addresses with sums:\n%s", len(found), text)
	}
	for _, m := range found {
		file := filepath.Join(t.TempDir(), "got")
		run(t, nil, 0, "curl", "-fsS", "-o", file, string(m[1]))
		if got := run(t, nil, 0, "sha256sum", file); !strings.HasPrefix(got, string(m[2])) {
			t.Errorf("%s has the sum %s, not %s", m[1], got, m[2])
		}
	}
	if _, err := exec.LookPath("ruby"); err == nil {
		run(t, nil, 0, "ruby", "-c", r.file("plait.rb"))
	}
}

// registry serves the packages of a release as a registry of npm does.
func registry(t *testing.T, r *release) string {
	t.Helper()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	archives, err := filepath.Glob(r.file("*.tgz"))
	if err != nil || len(archives) != 1+len(platforms) {
		t.Fatalf("packages of npm: %v %v", archives, err)
	}
	for _, archive := range archives {
		data, err := os.ReadFile(archive)
		if err != nil {
			t.Fatal(err)
		}
		var info map[string]any
		if err := json.Unmarshal(unpack(t, archive)["package/package.json"], &info); err != nil {
			t.Fatal(err)
		}
		name, number := info["name"].(string), info["version"].(string)
		sum := sha512.Sum512(data)
		info["dist"] = map[string]string{"tarball": server.URL + "/-/" + filepath.Base(archive),
			"integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:])}
		about, err := json.Marshal(map[string]any{"name": name, "dist-tags": map[string]string{"latest": number},
			"versions": map[string]any{number: info}})
		if err != nil {
			t.Fatal(err)
		}
		mux.HandleFunc("GET /"+name, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Write(about)
		})
		mux.HandleFunc("GET /-/"+filepath.Base(archive), func(w http.ResponseWriter, _ *http.Request) { w.Write(data) })
	}
	return server.URL
}

// TestNPM checks that npx plait, which runs no script of a package, runs the binary of this platform, and ends as it
// does.
func TestNPM(t *testing.T) {
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip("NOT TESTED: there is no npm")
	}
	r := newRelease(t, "", "")
	t.Chdir(t.TempDir())
	env := []string{"npm_config_registry=" + registry(t, r), "npm_config_cache=" + t.TempDir(),
		"npm_config_ignore_scripts=true", "npm_config_update_notifier=false", "npm_config_userconfig=" + os.DevNull}
	if got, want := run(t, env, 0, "npx", "--yes", "plait", "run", "-p", "a b"), runtime.GOOS+" "+runtime.GOARCH+
		": run -p a b\n"; !strings.HasSuffix(got, want) {
		t.Errorf("npx prints %q, want %q", got, want)
	}
	run(t, env, 0, "npm", "install", "--no-audit", "--no-fund", "plait")
	others, err := filepath.Glob("node_modules/plait-*")
	if err != nil || len(others) != 1 {
		t.Errorf("it installed %v, %v; want one platform", others, err)
	}
	run(t, env, 4, "node_modules/.bin/plait", "exit", "4")
	stopped(t, exec.Command("node_modules/.bin/plait", "wait"))
	// As an older Node, which starts the binary as a child.
	stopped(t, exec.Command("node", "-e",
		"process.execve = undefined; process.argv.splice(1, 0, 'plait'); require('plait/plait.js')", "wait"))
	if err := os.RemoveAll(others[0]); err != nil {
		t.Fatal(err)
	}
	want := "there is no package " + filepath.Base(others[0])
	if got := run(t, env, 1, "node_modules/.bin/plait"); !strings.Contains(got, want) {
		t.Errorf("without the binary it prints %q", got)
	}
}

// stopped starts a command, ends it with SIGTERM once it is ready, and checks that the binary decided how.
func stopped(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	ready := make([]byte, len("ready\n"))
	if _, err := io.ReadFull(out, ready); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(out)
	if cmd.Wait(); cmd.ProcessState.ExitCode() != 130 || string(rest) != "stopped\n" {
		t.Errorf("stopped, it prints %q and ends with %d", rest, cmd.ProcessState.ExitCode())
	}
}
