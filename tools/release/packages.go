package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
)

// files are what packages are made of.
//
//go:embed files
var files embed.FS

// tool is a command of tools/packaging, which has a go.mod of its own. It is built the same everywhere: a bill of
// materials has the sum of what wrote it.
func tool(name string, args ...string) *exec.Cmd {
	cmd := exec.Command("go", append([]string{"tool", "-modfile=tools/packaging/go.mod", name}, args...)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath -buildvcs=false")
	return cmd
}

// system writes the packages of Debian and of RPM, by nfpm.
func (r *release) system() error {
	for _, p := range platforms {
		if p.os != "linux" {
			continue
		}
		for _, kind := range []string{"deb", "rpm"} {
			cmd := tool("nfpm", "package", "--config", "tools/release/files/nfpm.yaml", "--packager", kind,
				"--target", r.file("plait_"+r.number()+"_"+p.arch+"."+kind))
			cmd.Env = append(cmd.Env, "VERSION="+r.version, "ARCH="+p.arch, "AUTHOR="+r.author,
				"HOMEPAGE=https://"+r.module, "WORK="+r.work, "BINARY="+r.binary(p),
				fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.date.Unix()))
			if err := say(cmd); err != nil {
				return err
			}
		}
	}
	return nil
}

// nodes are names of npm for systems and processors.
var nodes = map[string]string{"amd64": "x64", "arm64": "arm64", "linux": "linux", "darwin": "darwin"}

// npm writes the package plait, and one with the binary for each platform, of which npm installs the one that fits.
func (r *release) npm() error {
	license, err := os.ReadFile("LICENSE")
	if err != nil {
		return err
	}
	about := func(name, description string) map[string]any {
		return map[string]any{"name": name, "version": r.number(), "description": description, "license": "Apache-2.0",
			"homepage": "https://" + r.module, "repository": map[string]string{"type": "git",
				"url": "git+https://" + r.module + ".git"}}
	}
	optional := map[string]string{}
	for _, p := range platforms {
		system, processor := nodes[p.os], nodes[p.arch]
		name := "plait-" + system + "-" + processor
		optional[name] = r.number()
		info := about(name, "The binary of plait for "+system+" on "+processor)
		info["os"], info["cpu"], info["preferUnplugged"] = []string{system}, []string{processor}, true
		binary, err := os.ReadFile(r.binary(p))
		if err != nil {
			return err
		}
		if err := r.npmPackage(name, info, entry{"bin/plait", 0o755, binary},
			entry{"LICENSE", 0o644, license}); err != nil {
			return err
		}
	}
	info := about("plait", "Run multi-agent workflows with a record you can verify")
	info["bin"], info["optionalDependencies"] = map[string]string{"plait": "plait.js"}, optional
	info["engines"] = map[string]string{"node": ">=18"}
	script, err := files.ReadFile("files/plait.js")
	if err != nil {
		return err
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		return err
	}
	return r.npmPackage("plait", info, entry{"plait.js", 0o755, script}, entry{"README.md", 0o644, readme},
		entry{"LICENSE", 0o644, license})
}

func (r *release) npmPackage(name string, info map[string]any, entries ...entry) error {
	data, err := json.MarshalIndent(info, "", "  ")
	if err != nil {
		return err
	}
	entries = append(entries, entry{"package.json", 0o644, append(data, '\n')})
	return r.archive(name+"-"+r.number()+".tgz", "package/", entries)
}

// formula writes the formula of Homebrew.
func (r *release) formula() error { return r.fill("plait.rb", "plait.rb") }

// installer writes install.sh, which knows the address of this release.
func (r *release) installer() error {
	text, err := os.ReadFile("install.sh")
	if err != nil {
		return err
	}
	const unset = "mirror=${PLAIT_MIRROR:-}\n"
	if bytes.Count(text, []byte(unset)) != 1 {
		return fmt.Errorf("install.sh: want one line %q", unset)
	}
	text = bytes.Replace(text, []byte(unset), []byte("mirror=${PLAIT_MIRROR:-"+r.mirror+"}\n"), 1)
	return os.WriteFile(r.file("install.sh"), text, 0o755)
}

// notes says how to verify the release.
func (r *release) notes() error { return r.fill("notes.md", "NOTES.md") }

// fill writes a file from its template.
func (r *release) fill(from, to string) error {
	t, err := template.New(from).Funcs(template.FuncMap{"sum": r.sum, "has": r.has}).ParseFS(files, "files/"+from)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := t.Execute(&text, r.about()); err != nil {
		return err
	}
	return os.WriteFile(r.file(to), text.Bytes(), 0o644)
}

// bills writes a bill of materials for each binary, in the format of CycloneDX.
func (r *release) bills() error {
	for _, p := range platforms {
		if err := say(tool("cyclonedx-gomod", "bin", "-json", "-std", "-noserial", "-notimestamp", "-version", r.version,
			"-output", r.file(r.name(p)+".cdx.json"), r.binary(p))); err != nil {
			return err
		}
	}
	return nil
}

// sum returns the SHA-256 of a file, in hexadecimal.
func (r *release) sum(name string) (string, error) {
	data, err := os.ReadFile(r.file(name))
	return fmt.Sprintf("%x", sha256.Sum256(data)), err
}

func (r *release) has(name string) bool { _, err := os.Stat(r.file(name)); return err == nil }

// sums writes the sums of all files, and signs them.
func (r *release) sums() error {
	names, err := filepath.Glob(r.file("*"))
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, name := range names { // in order
		base := filepath.Base(name)
		if !strings.HasPrefix(base, "plait") && base != "install.sh" {
			continue
		}
		sum, err := r.sum(base)
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%s  %s\n", sum, base)
	}
	if err := os.WriteFile(r.file("SHA256SUMS"), []byte(text.String()), 0o644); err != nil || r.key == "" {
		return err
	}
	return say(exec.Command("ssh-keygen", "-Y", "sign", "-n", "file", "-f", r.key, r.file("SHA256SUMS")))
}

// proof writes what was tested on exactly these files, by the task that did it, signed by the key.
func (r *release) proof() error {
	if r.task == "" {
		return nil
	}
	tree, err := output("git", "rev-parse", "HEAD^{tree}")
	if err != nil {
		return err
	}
	said, err := output("go", "run", "./cmd/plait", "attest", r.task)
	if err != nil {
		return err
	}
	var statement struct {
		Subject []struct{ Digest struct{ GitTree string } }
	}
	if err := json.Unmarshal([]byte(said), &statement); err != nil {
		return fmt.Errorf("read the statement of %s: %w", r.task, err)
	}
	for _, s := range statement.Subject {
		if s.Digest.GitTree == tree {
			return say(exec.Command("go", "run", "./cmd/plait", "attest", r.task, "--proof", "--key", r.key, "-o",
				r.file("plait-"+r.version+".plait")))
		}
	}
	return fmt.Errorf("task %s did not test the files of this commit, which are tree %s", r.task, tree)
}

func sorted(entries []entry) []entry {
	return slices.SortedFunc(slices.Values(entries), func(a, b entry) int { return cmp.Compare(a.name, b.name) })
}
