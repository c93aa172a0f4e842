// Command release makes everything that a release of Plait consists of, in a directory that any web server can hand
// out:
//
//	go run ./tools/release -version v1.2.3 [-out dist] [-mirror URL] [-key FILE [-task TASK]]
//
// Static binaries, archives with man pages and completions, packages for Debian, RPM, npm and Homebrew, the script
// that installs from such a directory, a bill of materials for each binary, and the sums of all these. With -key, an
// SSH key signs the sums. With -task, the record of this machine gives a proof of what was tested on the files.
//
// The same commit and Go make the same bytes, but for the proof, which is therefore not among the sums. Nothing is
// uploaded, and nothing names a host but the module path in go.mod, unless -mirror does.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// A platform is what a binary is for.
type platform struct{ os, arch string }

var platforms = []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}

// A release is one that is being made.
type release struct {
	version string // v1.2.3
	module  string
	mirror  string // the address of its files
	commit  string
	author  string // of the commit
	out     string // where its files go
	work    string // what they are made of
	date    time.Time
	key     string // signs its sums, "" for none
	task    string // tested its files, "" if none did
}

func main() {
	version := flag.String("version", "", "the `version`, such as v1.2.3")
	out := flag.String("out", "dist", "the `directory` to fill; releases in it are removed")
	mirror := flag.String("mirror", "", "the `address` that the files will have (default: releases of the module's host)")
	key := flag.String("key", "", "the SSH key, in a `file`, that signs the sums")
	task := flag.String("task", "", "the `task` that tested these files, for a proof of it; it takes -key")
	flag.Parse()
	if flag.NArg() > 0 || !semver.IsValid(*version) || semver.Canonical(*version) != *version {
		fmt.Fprintf(os.Stderr, "release: %q is no version: want one such as v1.2.3 (make release VERSION=v1.2.3)\n", *version)
		os.Exit(2)
	}
	if *task != "" && *key == "" {
		fmt.Fprintln(os.Stderr, "release: -task wants -key, which signs the proof")
		os.Exit(2)
	}
	r, err := begin(*version, *out, *mirror, *key)
	if err == nil {
		defer os.RemoveAll(r.work)
		r.task = *task
		err = r.make(r.build)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// begin reads what a release takes from the repository, and empties its directory.
func begin(version, out, mirror, key string) (*release, error) {
	data, err := os.ReadFile("go.mod")
	if err != nil {
		return nil, err
	}
	r := &release{version: version, module: modfile.ModulePath(data), mirror: strings.TrimSuffix(mirror, "/"), key: key}
	if r.mirror == "" {
		r.mirror = r.published()
	}
	commit, err := output("git", "log", "-1", "--format=%ct %H %an <%ae>")
	if err != nil {
		return nil, err
	}
	epoch, rest, _ := strings.Cut(commit, " ")
	r.commit, r.author, _ = strings.Cut(rest, " ")
	if set := os.Getenv("SOURCE_DATE_EPOCH"); set != "" {
		epoch = set
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("read the time of the commit: %w", err)
	}
	r.date = time.Unix(seconds, 0).UTC()
	if r.out, err = filepath.Abs(out); err != nil {
		return nil, err
	}
	old, err := filepath.Glob(filepath.Join(r.out, "plait?*"))
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"SHA256SUMS", "SHA256SUMS.sig", "install.sh", "NOTES.md"} {
		old = append(old, r.file(name))
	}
	for _, name := range old {
		if err := os.RemoveAll(name); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return nil, err
	}
	r.work, err = os.MkdirTemp("", "plait-release-")
	return r, err
}

// make makes all files; build puts a binary into a file.
func (r *release) make(build func(platform, string) error) error {
	for _, p := range platforms {
		if err := build(p, r.binary(p)); err != nil {
			return fmt.Errorf("build %s: %w", r.binary(p), err)
		}
	}
	for _, step := range []func() error{r.pages, r.archives, r.system, r.npm, r.formula, r.installer, r.bills, r.sums,
		r.proof, r.notes} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// build compiles the binary of a platform.
func (r *release) build(p platform, to string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -buildid= -X main.release="+r.version, "-o", to, "./cmd/plait")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.os, "GOARCH="+p.arch, "GOFLAGS=")
	return say(cmd)
}

// facts are what templates say of a release.
type facts struct{ Version, Number, Module, Mirror, Other, Commit, Go, Proof string }

func (r *release) about() facts {
	f := facts{Version: r.version, Number: r.number(), Module: r.module, Mirror: r.mirror, Commit: r.commit,
		Go: runtime.Version(), Proof: "plait-" + r.version + ".plait"}
	if r.mirror != r.published() {
		f.Other = r.mirror
	}
	return f
}

// For returns the archive of a platform.
func (f facts) For(platform string) map[string]string {
	return map[string]string{"Mirror": f.Mirror, "Archive": "plait-" + f.Version + "-" + platform + ".tar.gz"}
}

// published is where the host of the module has the files of a release.
func (r *release) published() string {
	return "https://" + r.module + "/releases/download/" + r.version
}

// number is the version as packages have it: 1.2.3.
func (r *release) number() string { return strings.TrimPrefix(r.version, "v") }

func (r *release) file(name string) string { return filepath.Join(r.out, name) }

func (r *release) name(p platform) string { return "plait-" + r.version + "-" + p.os + "-" + p.arch }

func (r *release) binary(p platform) string { return r.file(r.name(p)) }

// say runs a command, with what it says on stderr.
func say(cmd *exec.Cmd) error {
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
	}
	return nil
}

// output returns the first line that a command prints.
func output(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return "", fmt.Errorf("%s %s: %w: %s", name, args[0], err, exit.Stderr)
		}
		return "", err
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return line, nil
}
