package host

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/adrg/xdg"

	"github.com/plait-run/plait/internal/sys/proc"
)

// A Package is the npm package of an agent.
type Package struct {
	Name    string // what the agent is called in commands and directories: claude
	Title   string // and in sentences: Claude Code
	NPM     string
	Version string // that Plait is tested with
	Oldest  string // that works; "": any
	Program string // a pattern in the directory it was installed to
	Binary  string // its name in PATH; "": Name
	Node    bool   // it is a script that needs Node 22 or newer
	// Native returns the program that a path refers to, "" for none; nil: what Program matches. It is for programs
	// that npm starts by a script.
	Native func(path string) string
}

// nodeVersion is the Node that `make agents` installs, from npm, for agents that need it.
const nodeVersion = "22.23.3"

// CacheDir is where `make` and users may install an agent for Plait alone, in one directory per
// version with npm's layout.
func (p Package) CacheDir() string { return filepath.Join(xdg.CacheHome, "plait", p.Name) }

// Install says how to install it.
func (p Package) Install() string {
	node := ""
	if p.Node {
		node = " (it needs Node 22 or newer)"
	}
	return fmt.Sprintf("install it with `npm install -g %s@%s`%s, or set path: in the agent's definition", p.NPM,
		p.Version, node)
}

// A MissingError is the error if an agent is not installed.
type MissingError struct{ Package Package }

func (e *MissingError) Error() string {
	return e.Package.Title + " is not installed; " + e.Package.Install()
}

// Where programs are found.
const (
	Named   = "path" // the agent's definition says where it is
	InPath  = "PATH"
	InCache = "cache" // see [Package.CacheDir]
)

// A Program is an installed agent.
type Program struct {
	Line    []string // command line without the agent's arguments
	Path    string   // where it was found
	From    string   // Named, InPath or InCache
	Version string   // 2.1.330; "" if not reported
}

// Advice returns a remark about a program's version, "" if it is the tested one. The error says that it is too old.
func (p Package) Advice(found Program) (string, error) {
	switch {
	case p.Oldest != "" && proc.CompareVersions(found.Version, p.Oldest) < 0:
		return "", fmt.Errorf("this %s %s (%s) is too old: %s or newer is needed; %s", p.Title, found.Version, found.Path,
			p.Oldest, p.Install())
	case p.Version != "" && found.Version != p.Version:
		return fmt.Sprintf("%s %s (%s) is not the version that was tested, %s: what it says differently is kept but may "+
			"not be understood", p.Title, found.Version, found.Path, p.Version), nil
	}
	return "", nil
}

// Find looks for a package: at path if that is not empty, otherwise in PATH and then in its CacheDir.
// It asks the program for its version, with the variables that environ returns for a home; nil: none.
// Errors: *MissingError.
func (h *Host) Find(ctx context.Context, pkg Package, path string,
	environ func(home string) map[string]string) (Program, error) {
	p, err := h.locate(pkg, path)
	if err != nil {
		return p, err
	}
	h.mu.Lock()
	p.Version = h.versions[p.Path]
	h.mu.Unlock()
	if p.Version != "" {
		return p, nil
	}
	if p.Version = pkg.installed(p.Path); p.Version == "" {
		p.Version, err = h.ask(ctx, p, environ)
	}
	if err != nil {
		return p, fmt.Errorf("find %s: %s does not say its version: %w; is it %s? %s", pkg.Title, p.Path, err, pkg.Title,
			pkg.Install())
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.versions[p.Path] = p.Version
	return p, nil
}

// Look finds a program by its name in PATH, or by its path.
func (h *Host) Look(name string) (string, error) {
	if filepath.IsAbs(name) {
		return exec.LookPath(name)
	}
	found, err := proc.InPath(h.Getenv("PATH"), name)
	if err != nil {
		return "", errors.New("it is not in PATH")
	}
	return found, nil
}

// locate finds a program, and what runs it.
func (h *Host) locate(pkg Package, path string) (Program, error) {
	p := Program{From: Named}
	if path != "" {
		if p.Path = pkg.at(path); p.Path == "" {
			return p, fmt.Errorf("find %s: there is none at %s; correct the agent's path", pkg.Title, path)
		}
	} else {
		if found, err := h.Look(cmp.Or(pkg.Binary, pkg.Name)); err == nil {
			p.Path, p.From = pkg.at(found), InPath
		}
		if p.Path == "" {
			p.Path, p.From = pkg.at(filepath.Join(pkg.CacheDir(), pkg.Version)), InCache
		}
		if p.Path == "" {
			return p, &MissingError{pkg}
		}
	}
	p.Line = []string{p.Path}
	if pkg.Node && strings.Contains(filepath.Ext(p.Path), "js") {
		node := filepath.Join(xdg.CacheHome, "plait", "node", nodeVersion, "node_modules", "node", "bin", "node")
		if _, err := os.Stat(node); err != nil {
			if node, err = h.Look("node"); err != nil {
				return p, fmt.Errorf("find %s: it needs Node 22 or newer: %w", pkg.Title, err)
			}
		}
		p.Line = []string{node, p.Path}
	}
	return p, nil
}

// at returns the program that a path refers to, "" for none.
func (p Package) at(path string) string {
	if p.Native != nil {
		return p.Native(path)
	}
	return proc.Installed(path, p.Node, p.Program)
}

// installed returns the version of the package that a script at path belongs to, "" if that is not known.
func (p Package) installed(path string) string {
	for dir := filepath.Dir(path); p.Node && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		var pkg struct{ Name, Version string }
		data, err := os.ReadFile(filepath.Join(dir, "package.json"))
		if err == nil && json.Unmarshal(data, &pkg) == nil && pkg.Name == p.NPM {
			return pkg.Version
		}
	}
	return ""
}

var versionForm = regexp.MustCompile(`[0-9]+\.[0-9]+\.[0-9]+`)

// Around returns the command line of a program outside of attempts, which has directories of its own: one that a
// definition names may be any.
func (h *Host) Around(p Program, own []string, args ...string) (string, []string) {
	path, args := p.Line[0], slices.Concat(p.Line[1:], args)
	if p.From != Named {
		return path, args
	}
	return h.Cell.Alone(own, path, args)
}

// ask asks a program for its version. It also lets an agent unpack itself, as some do on first start.
func (h *Host) ask(ctx context.Context, p Program, environ func(home string) map[string]string) (string, error) {
	dir, err := os.MkdirTemp("", "plait-version-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	env := map[string]string{"HOME": dir}
	if environ != nil {
		maps.Copy(env, environ(dir))
	}
	program, args := h.Around(p, []string{dir}, "--version")
	var out bytes.Buffer
	res, err := proc.Run(ctx, proc.Config{Path: program, Args: args, Dir: dir,
		Env: proc.Environ(nil, env, nil, ""), Stdout: &out, Wall: time.Minute, MaxBytes: 64 << 10})
	version := versionForm.FindString(out.String())
	if version == "" {
		err = cmp.Or(err, fmt.Errorf("its output has none (exit code %d)", res.Exit))
	}
	return version, err
}
