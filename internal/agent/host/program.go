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
	Program string // a pattern in the directory it was installed to
	Binary  string // its name in PATH; "": Name
	Node    bool   // it is a script that needs Node 22 or newer
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

// A Program is an installed agent.
type Program struct {
	Line    []string // command line without the agent's arguments
	Path    string   // where it was found
	Version string   // 2.1.330; "" if not reported
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
		p.Version, err = h.ask(ctx, p, path != "", environ)
	}
	if err != nil {
		return p, fmt.Errorf("find %s: %s does not tell its version: %w", pkg.Title, p.Path, err)
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
	var p Program
	if path != "" {
		if p.Path = proc.Installed(path, pkg.Program, pkg.Node); p.Path == "" {
			return p, fmt.Errorf("find %s: there is none at %s; correct the agent's path", pkg.Title, path)
		}
	} else {
		if found, err := h.Look(cmp.Or(pkg.Binary, pkg.Name)); err == nil {
			p.Path = proc.Installed(found, pkg.Program, pkg.Node)
		}
		if p.Path == "" {
			p.Path = proc.Installed(filepath.Join(pkg.CacheDir(), pkg.Version), pkg.Program, pkg.Node)
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

// ask asks a program for its version. It also lets an agent unpack itself, as some do on first start. named says that a
// definition names the program, which may be any.
func (h *Host) ask(ctx context.Context, p Program, named bool,
	environ func(home string) map[string]string) (string, error) {
	dir, err := os.MkdirTemp("", "plait-version-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	env := map[string]string{"HOME": dir}
	if environ != nil {
		maps.Copy(env, environ(dir))
	}
	program, args := p.Line[0], slices.Concat(p.Line[1:], []string{"--version"})
	if named {
		program, args = h.Cell.Alone([]string{dir}, program, args)
	}
	var out bytes.Buffer
	_, err = proc.Run(ctx, proc.Config{Path: program, Args: args, Dir: dir,
		Env: proc.Environ(nil, env, nil, ""), Stdout: &out, Wall: time.Minute, MaxBytes: 64 << 10})
	version := versionForm.FindString(out.String())
	if version == "" {
		err = cmp.Or(err, errors.New("it said nothing"))
	}
	return version, err
}
