package claude

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/adrg/xdg"

	"github.com/plait-run/plait/internal/sys/proc"
)

// A Program is an installed Claude Code.
type Program struct {
	Path    string // the native binary
	Version string // "2.1.330"
}

// ErrMissing is the error if Claude Code is not installed.
var ErrMissing = errors.New("Claude Code is not installed; " + Install) //lint:ignore ST1005 a name

// CacheDir is where `make test` and users may install a Claude Code for Plait alone, in one
// directory per version with npm's layout.
func CacheDir() string { return filepath.Join(xdg.CacheHome, "plait", "claude") }

// Find looks for the program: at path if that is not empty, otherwise in PATH and then in
// CacheDir. It asks the program for its version.
func (h *Host) Find(ctx context.Context, path string) (Program, error) {
	var p Program
	switch {
	case path != "":
		if p.Path = native(path); p.Path == "" {
			return p, fmt.Errorf("find Claude Code: there is none at %s; correct the agent's path", path)
		}
	default:
		if found, err := proc.InPath(h.cfg.Getenv("PATH"), "claude"); err == nil {
			p.Path = native(found)
		}
		if p.Path == "" {
			p.Path = native(filepath.Join(CacheDir(), Version))
		}
		if p.Path == "" {
			return p, ErrMissing
		}
	}
	h.mu.Lock()
	p.Version = h.versions[p.Path]
	h.mu.Unlock()
	if p.Version != "" {
		return p, nil
	}
	var out bytes.Buffer
	program, args := p.Path, []string{"--version"}
	if path != "" { // a definition may name any program
		program, args = h.cfg.Cell.Alone(nil, program, args)
	}
	_, err := proc.Run(ctx, proc.Config{Path: program, Args: args, Dir: string(filepath.Separator),
		Env: proc.Environ(nil, nil, nil, ""), Stdout: &out, Wall: 30 * time.Second, MaxBytes: 64 << 10})
	if p.Version, _, _ = strings.Cut(strings.TrimSpace(out.String()), " "); err != nil || p.Version == "" {
		return p, fmt.Errorf("find Claude Code: %s does not tell its version: %w", p.Path, cmp.Or(err, errors.New("it said nothing")))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.versions[p.Path] = p.Version
	return p, nil
}

// native returns the native program for path, which is that file or the directory where npm
// installed it, or "".
func native(path string) string {
	return proc.Installed(path, "node_modules/@anthropic-ai/claude-code-*/claude", false)
}

// Advice returns a remark about the program's version, "" if it is the tested one. The error says
// that it is too old.
func (p Program) Advice() (string, error) {
	switch order := proc.CompareVersions(p.Version, Version); {
	case order < 0:
		return "", fmt.Errorf("this Claude Code is too old, %s; %s", p.Version, Install)
	case order > 0:
		return fmt.Sprintf("Claude Code %s is newer than %s, with which Plait is tested", p.Version, Version), nil
	}
	return "", nil
}

// A Login says how to reach the model.
type Login struct {
	OK   bool
	Text string
	Do   string // what to do if it is not OK

	url, key string
	bearer   bool
	direct   bool // uses Claude's own login, which cannot go through a gateway
}

// anthropic is the URL of Anthropic's API.
const anthropic = "https://api.anthropic.com"

// Login returns how an agent reaches its model: with a key from the environment, otherwise with
// the login of the user's own Claude Code.
func (h *Host) Login(c Config) Login {
	get := func(name string) string { return cmp.Or(c.Env[name], h.cfg.Getenv(name)) }
	if c.Endpoint != "" {
		return Login{OK: true, Text: "with its own endpoint", url: c.Endpoint}
	}
	l := Login{OK: true, url: cmp.Or(get("ANTHROPIC_BASE_URL"), anthropic)}
	l.url = strings.TrimSuffix(l.url, "/")
	if l.key = get("ANTHROPIC_API_KEY"); l.key != "" {
		l.Text = "by the key in ANTHROPIC_API_KEY"
		return l
	}
	if l.key = get("ANTHROPIC_AUTH_TOKEN"); l.key != "" {
		l.Text, l.bearer = "by the token in ANTHROPIC_AUTH_TOKEN", true
		return l
	}
	if _, err := os.Stat(h.credentials()); err == nil {
		return Login{OK: true, direct: true, Text: "by the login of Claude Code, directly; usage is as reported by the agent"}
	}
	return Login{Text: "Claude Code is not logged in", Do: "set ANTHROPIC_API_KEY, run `claude` and log in, or try it with --offline"}
}

// credentials returns the file with the login of the user's own Claude Code.
func (h *Host) credentials() string {
	dir := h.cfg.Getenv("CLAUDE_CONFIG_DIR")
	if dir == "" {
		dir = filepath.Join(h.cfg.Getenv("HOME"), ".claude")
	}
	return filepath.Join(dir, ".credentials.json")
}

// linkLogin links the user's login into a home, so that renewing it there renews it for all.
func (h *Host) linkLogin(home string) error {
	link := filepath.Join(home, ".credentials.json")
	if to, err := os.Readlink(link); err == nil && to == h.credentials() {
		return nil
	}
	os.Remove(link) // an older one
	if err := os.Symlink(h.credentials(), link); err != nil {
		return fmt.Errorf("lend the login of Claude Code: %w", err)
	}
	return nil
}
