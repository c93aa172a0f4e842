package codex

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/adrg/xdg"

	"github.com/plait-run/plait/internal/sys/proc"
)

// A Program is an installed Codex.
type Program struct {
	Path    string // the native binary, or a launcher if there is none next to it
	Version string // "0.169.0"
	From    string // "path", "PATH", "cache"
}

// Install says how to install Codex.
const Install = "install it with `npm install -g @openai/codex@" + Version + "`, or set path: in the agent's definition"

// minVersion is the oldest release that was tried and works: the sandbox consists of permissions
// profiles, which older releases have in other forms or not at all.
const minVersion = "0.169.0"

// ErrMissing is the error if Codex is not installed.
var ErrMissing = errors.New("Codex is not installed; " + Install) //lint:ignore ST1005 a name

// CacheDir is where `make test` and users may install a Codex for Plait alone, in
// one directory per version with npm's layout.
func CacheDir() string { return filepath.Join(xdg.CacheHome, "plait", "codex") }

// Find looks for Codex: at path if that is not empty, otherwise in PATH and then
// in CacheDir. It asks the program for its version.
func (h *Host) Find(ctx context.Context, path string) (Program, error) {
	p, err := h.find(path)
	if err != nil {
		return p, err
	}
	return h.version(ctx, p)
}

// find looks for the program without running it.
func (h *Host) find(path string) (Program, error) {
	if path != "" {
		found, err := nativeProgram(path)
		if err != nil {
			return Program{}, fmt.Errorf("find Codex: path %s: %w; correct the agent's path", path, err)
		}
		return Program{Path: found, From: "path"}, nil
	}
	if found, err := proc.InPath(h.cfg.Getenv("PATH"), "codex"); err == nil {
		if found, err = nativeProgram(found); err == nil {
			return Program{Path: found, From: "PATH"}, nil
		}
	}
	if found, err := nativeProgram(filepath.Join(CacheDir(), Version)); err == nil {
		return Program{Path: found, From: "cache"}, nil
	}
	return Program{}, ErrMissing
}

// binaries are where npm puts the native program, below node_modules/@openai.
var binaries = []string{"codex-*/vendor/*/bin/codex", "codex/node_modules/@openai/codex-*/vendor/*/bin/codex"}

// nativeProgram returns the native program for path: a file, an npm prefix, or npm's
// launcher, which is a script next to the program that it starts. The launcher is bypassed:
// it would get the signals, and its process id would be the one we know.
func nativeProgram(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", pathCause(err)
	}
	info, err := os.Stat(real)
	if err != nil {
		return "", pathCause(err)
	}
	if info.IsDir() {
		if found := glob(filepath.Join(real, "node_modules", "@openai")); found != "" {
			return found, nil
		}
		if found := glob(filepath.Join(real, "lib", "node_modules", "@openai")); found != "" {
			return found, nil
		}
		return "", errors.New("no Codex was installed here")
	}
	if info.Mode()&0o111 == 0 {
		return "", fs.ErrPermission
	}
	if !isScript(real) {
		return real, nil
	}
	// …/node_modules/@openai/codex/bin/codex.js
	if found := glob(filepath.Join(filepath.Dir(real), "..", "..")); found != "" {
		return found, nil
	}
	return real, nil
}

func glob(openai string) string {
	for _, pattern := range binaries {
		if found, err := filepath.Glob(filepath.Join(openai, pattern)); err == nil && len(found) > 0 {
			return found[0]
		}
	}
	return ""
}

func isScript(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head, err := bufio.NewReader(f).Peek(2)
	return err == nil && string(head) == "#!"
}

func pathCause(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// around returns the command line of a program outside attempts: a definition may name any program.
func (h *Host) around(p Program, args ...string) (string, []string) {
	if p.From != "path" {
		return p.Path, args
	}
	return h.cfg.Cell.Alone(nil, p.Path, args)
}

var versionLine = regexp.MustCompile(`\b(\d+)\.(\d+)\.(\d+)\b`)

// version asks a program for its version, once per program.
func (h *Host) version(ctx context.Context, p Program) (Program, error) {
	h.mu.Lock()
	known, ok := h.programs[p.Path]
	h.mu.Unlock()
	if ok {
		known.From = p.From
		return known, nil
	}
	var out bytes.Buffer
	path, args := h.around(p, "--version")
	res, err := proc.Run(ctx, proc.Config{
		Path: path, Args: args, Dir: string(filepath.Separator),
		Env: proc.Environ(nil, nil, nil, ""), Stdout: &out, Wall: 30 * time.Second, MaxBytes: 64 << 10,
	})
	if err != nil {
		return p, fmt.Errorf("ask %s for its version: %w", p.Path, err)
	}
	v := versionLine.FindString(out.String())
	if res.Exit != 0 || v == "" {
		return p, fmt.Errorf("%s does not say its version (exit code %d): is it Codex? %s", p.Path, res.Exit, Install)
	}
	p.Version = v
	h.mu.Lock()
	defer h.mu.Unlock()
	h.programs[p.Path] = p
	return p, nil
}

// Advice returns what a user should know about the program's version: an error if
// it cannot be used, a warning if it is not the tested one, otherwise "".
func (p Program) Advice() (warning string, err error) {
	if proc.CompareVersions(p.Version, minVersion) < 0 {
		return "", fmt.Errorf("this Codex %s (%s) is too old: %s or newer is needed; %s", p.Version, p.Path, minVersion,
			Install)
	}
	if p.Version != Version {
		return fmt.Sprintf("Codex %s (%s) is not the version that was tested, %s: what it says differently is kept "+
			"but may not be understood", p.Version, p.Path, Version), nil
	}
	return "", nil
}
