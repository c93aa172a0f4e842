package claude

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/plait-run/plait/internal/agent/host"
	"github.com/plait-run/plait/internal/sys/proc"
)

// Find looks for Claude Code: at path if that is not empty, otherwise in PATH and then in its CacheDir.
// It asks the program for its version. Errors: *host.MissingError.
func (h *Host) Find(ctx context.Context, path string) (host.Program, error) {
	return h.Host.Find(ctx, Package, path, nil)
}

// Advice returns a remark about a program's version, "" if it is the tested one. The error says
// that it is too old.
func Advice(p host.Program) (string, error) {
	switch order := proc.CompareVersions(p.Version, Version); {
	case order < 0:
		return "", fmt.Errorf("this Claude Code is too old, %s; %s", p.Version, Package.Install())
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
	get := func(name string) string { return cmp.Or(c.Env[name], h.Getenv(name)) }
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
	dir := h.Getenv("CLAUDE_CONFIG_DIR")
	if dir == "" {
		dir = filepath.Join(h.Getenv("HOME"), ".claude")
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
