package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"

	"github.com/plait-run/plait/internal/testing/soak"
)

// debian makes a Debian without Go, in a directory of its own or the one that PLAIT_DEBIAN names, and returns it.
func debian(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("PLAIT_DEBIAN")
	if dir == "" {
		dir = filepath.Join(t.TempDir(), "debian")
	}
	if _, err := os.Stat(filepath.Join(dir, "etc", "debian_version")); err != nil {
		run(t, nil, 0, "debootstrap", "--variant=minbase", "--include=git,nodejs", "bookworm", dir)
	}
	return dir
}

// inside returns a function that runs a shell script in dir as its root, with only what is there, and npm, which Debian
// has as hundreds of packages.
func inside(t *testing.T, dir string) func(script string) string {
	npm := strings.TrimSpace(run(t, nil, 0, "sh", "-c", `dirname "$(dirname "$(realpath "$(command -v npm)")")"`))
	return func(script string) string {
		t.Helper()
		return run(t, nil, 0, "unshare", "--mount", "--pid", "--fork", "sh", "-ec", `mount -t proc proc "$1/proc"
			mount -t tmpfs tmpfs "$1/tmp"
			mkdir -p "$1/tmp/release"
			mount --bind "$2" "$1/tmp/release"
			mkdir "$1/tmp/npm"
			mount --bind "$4" "$1/tmp/npm"
			exec chroot "$1" /usr/bin/env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME=/root LANG=C.UTF-8 \
				sh -ec "$3"`,
			"sh", dir, os.Getenv("PLAIT_RELEASE"), script, npm)
	}
}

// traces returns the files of dir, but for those that package managers keep for themselves.
func traces(t *testing.T, dir string) string {
	t.Helper()
	out, err := exec.Command("find", dir, "-xdev", "(", "-path", dir+"/var/lib/dpkg", "-o", "-path", dir+"/var/log", "-o",
		"-path", dir+"/var/cache", ")", "-prune", "-o", "-not", "-type", "d", "-print").Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// demo runs what a newcomer does first, and says where it kept anything.
const demo = `
	cd /root
	plait --version
	plait demo --yes > /tmp/demo 2>&1 || { cat /tmp/demo; exit 1; }
	grep -q Codex /tmp/demo
	! command -v go
`

// TestInstall installs each kind of package in a Debian without Go, runs the demo, removes the package again, and
// checks that nothing is left. PLAIT_RELEASE names the directory of a release that make release made.
func TestInstall(t *testing.T) {
	if os.Getenv("PLAIT_INSTALL") == "" && os.Getenv(soak.Env) == "" {
		t.Skip("NOT TESTED here, but by make install-test and make soak: installing takes a Debian of its own")
	}
	if os.Getuid() != 0 {
		t.Fatal("a Debian of its own takes root")
	}
	if os.Getenv("PLAIT_RELEASE") == "" {
		t.Setenv("PLAIT_RELEASE", t.TempDir())
		t.Chdir(filepath.Join("..", ".."))
		run(t, nil, 0, "go", "run", "./tools/release", "-version", "v0.0.1", "-out", os.Getenv("PLAIT_RELEASE"))
	}
	dir := debian(t)
	do := inside(t, dir)
	processor := runtime.GOARCH
	for kind, c := range map[string]struct{ install, uninstall string }{
		"deb": {
			fmt.Sprintf("dpkg -i /tmp/release/plait_*_%s.deb; test -f /usr/share/man/man1/plait-run.1.gz", processor),
			"dpkg -P plait",
		},
		"archive": {
			"PLAIT_MIRROR=/tmp/release sh /tmp/release/install.sh --prefix /usr/local > /root/said",
			"sed '1,/^To uninstall/d' /root/said | sh -e; rm /root/said",
		},
		"npm": {
			fmt.Sprintf("node /tmp/npm/bin/npm-cli.js install -g --prefix /usr/local --ignore-scripts --offline --no-audit "+
				"--no-fund /tmp/release/plait-linux-%s-*.tgz /tmp/release/plait-[0-9]*.tgz", nodes[processor]),
			fmt.Sprintf("node /tmp/npm/bin/npm-cli.js uninstall -g --prefix /usr/local plait plait-linux-%s; "+
				"rm -rf /root/.npm", nodes[processor]),
		},
	} {
		t.Run(kind, func(t *testing.T) {
			before := traces(t, dir)
			said := do(c.install + "\n" + demo)
			t.Log(said)
			if !strings.Contains(said, "plait v") {
				t.Errorf("no version is printed: %s", said)
			}
			do(c.uninstall)
			if after := traces(t, dir); after != before {
				t.Errorf("%s leaves something behind:\n%s", kind, difference(before, after))
			}
			t.Attr(soak.Attr, kind+": installed, ran the demo, removed without traces")
		})
	}
}

// difference returns the lines of after that before has not.
func difference(before, after string) (lines string) {
	for line := range strings.Lines(after) {
		if !strings.Contains(before, line) {
			lines += line
		}
	}
	return lines
}

// TestGoInstall installs a version of the module, as a proxy would hand it out, with the go command.
func TestGoInstall(t *testing.T) {
	if os.Getenv("PLAIT_INSTALL") == "" && os.Getenv(soak.Env) == "" {
		t.Skip("NOT TESTED here, but by make install-test and make soak: it compiles Plait")
	}
	t.Chdir(filepath.Join("..", ".."))
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	m := module.Version{Path: modfile.ModulePath(mod), Version: "v0.0.1"}
	proxy := t.TempDir()
	dir := filepath.Join(proxy, filepath.FromSlash(m.Path), "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	if err := zip.CreateFromVCS(&packed, m, ".", "HEAD", ""); err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{".info": []byte(`{"Version":"v0.0.1"}`), ".mod": mod, ".zip": packed.Bytes()}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, m.Version+name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	bin := t.TempDir()
	own := goEnv(t, "GOMODCACHE")
	env := []string{"GOBIN=" + bin, "GOFLAGS=-modcacherw", "GONOSUMDB=" + m.Path,
		"GOMODCACHE=" + filepath.Join(t.TempDir(), "mod"),
		"GOPROXY=file://" + proxy + ",file://" + own + "/cache/download," + goEnv(t, "GOPROXY")}
	run(t, env, 0, "go", "-C", t.TempDir(), "install", m.Path+"/cmd/plait@"+m.Version)
	if got := run(t, nil, 0, filepath.Join(bin, "plait"), "version"); !strings.HasPrefix(got, "plait v0.0.1 ") ||
		!strings.HasSuffix(got, ", by go install\n") {
		t.Errorf("plait version prints %q", got)
	}
	t.Attr(soak.Attr, "go install of a version")
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	return strings.TrimSpace(run(t, nil, 0, "go", "env", name))
}
