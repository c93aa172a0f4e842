package acp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/adrg/xdg"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/gateway"
	"github.com/plait-run/plait/internal/sys/proc"
)

// A Program is an installed agent.
type Program struct {
	Line    []string // command line without the arguments of its kind
	Path    string   // where it was found
	Version string   // "" if not reported
}

// A MissingError is the error if an agent is not installed.
type MissingError struct{ Kind Kind }

func (e *MissingError) Error() string { return e.Kind.Title + " is not installed; " + e.Kind.Install() }

// CacheDir is where `make` and users may install an agent for Plait alone, in one directory per
// version with npm's layout.
func (k Kind) CacheDir() string { return filepath.Join(xdg.CacheHome, "plait", k.Name) }

// nodeVersion is the Node that `make agents` installs, from npm, for agents that need it.
const nodeVersion = "22.23.3"

// Find looks for an agent: at path if that is not empty, otherwise in PATH and then in CacheDir.
// It asks the agent for its version.
func (h *Host) Find(ctx context.Context, k Kind, path string) (Program, error) {
	if k.Package.Name == "" { // found by its command
		found, err := h.look(k.Title)
		if err != nil {
			return Program{}, fmt.Errorf("find the agent %q: %w; correct its command", k.Title, err)
		}
		return Program{Line: []string{found}, Path: found}, nil
	}
	p, err := h.locate(k, path)
	if err != nil {
		return p, err
	}
	h.mu.Lock()
	p.Version = h.versions[p.Path]
	h.mu.Unlock()
	if p.Version == "" {
		if p.Version, err = h.version(ctx, k, p, path != ""); err != nil {
			return p, err
		}
		h.mu.Lock()
		h.versions[p.Path] = p.Version
		h.mu.Unlock()
	}
	return p, nil
}

// look finds a program by its name in PATH, or by its path.
func (h *Host) look(name string) (string, error) {
	if filepath.IsAbs(name) {
		return exec.LookPath(name)
	}
	found, err := proc.InPath(h.cfg.Getenv("PATH"), name)
	if err != nil {
		return "", errors.New("it is not in PATH")
	}
	return found, nil
}

// locate finds a known agent, and what runs it.
func (h *Host) locate(k Kind, path string) (Program, error) {
	var p Program
	switch found, err := h.look(k.Binary()); {
	case path != "":
		if p.Path = k.installed(path); p.Path == "" {
			return p, fmt.Errorf("find %s: there is none at %s; correct the agent's path", k.Title, path)
		}
	case err == nil:
		p.Path = k.installed(found)
	default:
		if p.Path = k.installed(filepath.Join(k.CacheDir(), k.Package.Version)); p.Path == "" {
			return p, &MissingError{k}
		}
	}
	p.Line = []string{p.Path}
	if k.Package.Node && strings.Contains(filepath.Ext(p.Path), "js") {
		node := filepath.Join(xdg.CacheHome, "plait", "node", nodeVersion, "node_modules", "node", "bin", "node")
		if _, err := os.Stat(node); err != nil {
			if node, err = h.look("node"); err != nil {
				return p, fmt.Errorf("find %s: it needs Node 22 or newer: %w", k.Title, err)
			}
		}
		p.Line = []string{node, p.Path}
	}
	return p, nil
}

// Binary returns the name of an agent in PATH.
func (k Kind) Binary() string {
	if name := map[string]string{"claude-acp": "claude-agent-acp"}[k.Name]; name != "" {
		return name
	}
	return k.Name
}

// installed returns the program for path, which is that file or the directory where npm installed
// it, or "".
func (k Kind) installed(path string) string {
	return proc.Installed(path, k.Package.Program, k.Package.Node)
}

var versionForm = regexp.MustCompile(`[0-9]+\.[0-9]+\.[0-9]+`)

// version returns an agent's version: that of the script's package, otherwise as it reports. It
// also lets an agent unpack itself, as some do on first start. named says that a definition names the program, which may
// be any.
func (h *Host) version(ctx context.Context, k Kind, p Program, named bool) (string, error) {
	for dir := filepath.Dir(p.Path); k.Package.Node && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		var pkg struct{ Name, Version string }
		data, err := os.ReadFile(filepath.Join(dir, "package.json"))
		if err == nil && json.Unmarshal(data, &pkg) == nil && pkg.Name == k.Package.Name {
			return pkg.Version, nil
		}
	}
	dir, err := os.MkdirTemp("", "plait-version-")
	if err != nil {
		return "", fmt.Errorf("ask %s for its version: %w", k.Title, err)
	}
	defer os.RemoveAll(dir)
	env := map[string]string{"HOME": dir}
	for name, value := range k.Env {
		env[name] = k.fill(value, dir, "", "", "")
	}
	program, args := p.Line[0], slices.Concat(p.Line[1:], []string{"--version"})
	if named {
		program, args = h.cfg.Cell.Alone([]string{dir}, program, args)
	}
	var out bytes.Buffer
	_, err = proc.Run(ctx, proc.Config{Path: program, Args: args, Dir: dir,
		Env: proc.Environ(nil, env, nil, ""), Stdout: &out, Wall: time.Minute, MaxBytes: 64 << 10})
	version := versionForm.FindString(out.String())
	if err != nil || version == "" {
		return "", fmt.Errorf("find %s: %s does not tell its version: %w", k.Title, p.Path, cmp.Or(err, errors.New("it said nothing")))
	}
	return version, nil
}

// fill replaces placeholders in a text of a kind.
func (k Kind) fill(text, home, url, token, model string) string {
	return strings.NewReplacer("{home}", home, "{url}", url, "{token}", token, "{model}", model,
		"{cache}", filepath.Join(k.CacheDir(), "unpacked")).Replace(text)
}

// Advice returns a remark about the program's version, "" if it is the tested one.
func (k Kind) Advice(p Program) string {
	if k.Package.Version == "" || p.Version == k.Package.Version {
		return ""
	}
	return fmt.Sprintf("%s %s is here; Plait is tested with %s", k.Title, p.Version, k.Package.Version)
}

// A Login says how to reach the model.
type Login struct {
	OK   bool
	Text string
	Do   string // what to do if it is not OK

	route    *Route // nil: the agent's own way
	upstream gateway.Upstream
}

// keys are the environment variables for each API, and the default URL.
var keys = map[string]struct{ key, url, vendor string }{
	Messages:  {"ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "https://api.anthropic.com"},
	Responses: {"OPENAI_API_KEY", "OPENAI_BASE_URL", "https://api.openai.com/v1"},
	Chat:      {"OPENAI_API_KEY", "OPENAI_BASE_URL", "https://api.openai.com/v1"},
	Gemini:    {"GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL", "https://generativelanguage.googleapis.com"},
}

// Login returns how an agent reaches its model: with its own login if one is passed to it,
// otherwise through the first of its routes that has a key.
func (h *Host) Login(k Kind, c Config) Login {
	get := func(name string) string { return cmp.Or(c.Env[name], h.cfg.Getenv(name)) }
	for i, r := range k.Routes {
		if c.Endpoint != "" {
			up, err := url.Parse(c.Endpoint)
			return Login{OK: err == nil, Text: "with its own endpoint", route: &k.Routes[i], upstream: gateway.Upstream{URL: up}}
		}
		at := keys[r.API]
		key, base := get(at.key), cmp.Or(get(at.url), at.vendor)
		if key == "" || h.passes(k, c) != "" {
			continue
		}
		up, err := url.Parse(base)
		if err != nil || up.Scheme != "http" && up.Scheme != "https" || up.Host == "" {
			return Login{Text: fmt.Sprintf("%q is not the address of a model server", base), Do: "correct " + at.url}
		}
		if c.Model == "" {
			return Login{Text: k.Title + " must be told which model to ask by the key in " + at.key, Do: "set model: in the agent's definition"}
		}
		switch r.API {
		case Messages:
			up = up.JoinPath("v1")
		case Gemini:
			up = up.JoinPath("v1beta")
		}
		return Login{OK: true, Text: "by the key in " + at.key, route: &k.Routes[i],
			upstream: gateway.Upstream{URL: up, Key: key,
				Bearer: r.API != Messages && r.API != Gemini, Google: r.API == Gemini}}
	}
	name := h.passes(k, c)
	switch {
	case name != "":
		return Login{OK: true, Text: "by " + name + ", directly; usage is as reported by the agent"}
	case k.Package.Name == "":
		return Login{OK: true, Text: "by itself, directly; usage is as reported by the agent"}
	}
	var names []string
	for _, r := range k.Routes {
		names = append(names, keys[r.API].key)
	}
	do := "set " + strings.Join(slices.Compact(names), " or ")
	if len(names) == 0 {
		do = "set " + k.Tokens[0] + " and name it in pass: of the agent's definition"
	} else {
		do += ", or try it with --offline"
	}
	return Login{Text: k.Title + " has no key for a model", Do: do}
}

// passes returns the variable with the agent's own login that the user passes to it, "" for
// none.
func (h *Host) passes(k Kind, c Config) string {
	for _, name := range k.Tokens {
		if c.Env[name] != "" || slices.Contains(c.Pass, name) && h.cfg.Getenv(name) != "" {
			return name
		}
	}
	return ""
}

// known records that a session was opened in the task's home.
func (a *Agent) known(req agent.Request, session string) error {
	home := a.SessionHome(req.Home)
	name, err := filepath.Rel(home, a.mark(req.Home, session))
	if err != nil {
		return fmt.Errorf("note the session: %w", err)
	}
	root, err := os.OpenRoot(home)
	if err != nil {
		return fmt.Errorf("note the session: %w", err)
	}
	defer root.Close()
	if _, err := root.Lstat(name); err == nil {
		return nil
	}
	if err := agent.ReplaceIn(root, name, strings.NewReader("")); err != nil {
		return fmt.Errorf("note the session: %w", err)
	}
	return nil
}
