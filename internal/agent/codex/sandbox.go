package codex

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/sys/proc"
)

// A Sandbox is what the user allows an agent's commands beyond the role's access.
type Sandbox struct {
	Write   []string // absolute, or relative to the request's directory
	Network bool
	Env     map[string]string
	Pass    []string // names of Plait's own variables
}

// granted returns, for the record, what the sandbox allows beyond the role's access.
func (s Sandbox) granted() string {
	var parts []string
	if s.Network {
		parts = append(parts, "network")
	}
	for _, path := range s.Write {
		parts = append(parts, "write "+path)
	}
	names := slices.Concat(slices.Collect(maps.Keys(s.Env)), s.Pass)
	slices.Sort(names)
	if names = slices.Compact(names); len(names) > 0 {
		parts = append(parts, "env "+strings.Join(names, " "))
	}
	if len(parts) == 0 {
		return ""
	}
	return " + " + strings.Join(parts, ", ")
}

// sandboxes maps a role's access to Codex's name for it.
var sandboxes = map[agent.Access]string{
	"":          "read-only",
	agent.Read:  "read-only",
	agent.Write: "workspace-write",
	agent.Full:  "danger-full-access",
}

// projectFiles are the directories of a tree from which Plait takes commands. A person agrees to their files as they
// were when they were first used.
var projectFiles = []string{".plait", ".workflows"}

// helpers is the directory, below Codex's home, of the programs by which it starts commands.
var helpers = filepath.Join("tmp", "arg0-"+runtime.GOOS)

// A profile is a permissions profile of Codex: the sandbox of one role.
type profile struct {
	name     string
	granted  string // what it allows beyond the role's access
	settings map[string]any
}

// enforced returns the sandbox that Codex says it enforced: ours, or in its own words. Ours
// always has writable places, which Codex calls workspace-write.
func (s *setup) enforced(req agent.Request, profile, said string) string {
	if profile != "" && profile == s.profile.name {
		said = sandboxes[req.Access] + s.profile.granted
	}
	if req.Traffic != nil && s.route == nil {
		said += ", via: direct"
	}
	return said
}

// profile returns the sandbox of an attempt. Commands may read all but what is hidden: the
// record, Codex's files about other sessions, and the user's login. They may write to their
// own temporary and cache directories, to the artifacts, and as the role's access and the
// definition allow. It fails if the definition allows writing to what is hidden or only read.
func (c Config) profile(h *Host, s *setup, req agent.Request) (profile, error) {
	files := map[string]any{":root": "read"}
	for _, dir := range append(slices.Clone(h.hidden()), filepath.Join(userHome(h.Getenv), "auth.json")) {
		if real, err := filepath.EvalSymlinks(dir); err == nil && filepath.IsAbs(real) {
			files[real] = "deny"
		}
	}
	if s.apart {
		if err := hideSessions(files, resolve(s.home)); err != nil {
			return profile{}, err
		}
	}
	// Its helpers, by which commands are started. In a hidden directory only writable places are
	// visible, and within those also the places that may only be read.
	files[filepath.Join(resolve(s.home), "tmp")], files[filepath.Join(resolve(s.home), helpers)] = "write", "read"
	files[resolve(s.tmp())], files[resolve(s.cache())] = "write", "write"
	if a := req.Desk.Artifacts; a != "" {
		files[resolve(a)] = "write"
	}
	if lent := req.Desk.Context; lent != "" {
		files[resolve(lent)] = "read"
	}
	dir := resolve(s.dir)
	if req.Access == agent.Write {
		files[dir] = "write"
		for _, name := range projectFiles {
			if info, err := os.Lstat(filepath.Join(dir, name)); err == nil && info.IsDir() {
				files[filepath.Join(dir, name)] = "read"
			}
		}
	} else if files[dir] == nil {
		files[dir] = "read"
	}
	granted, err := req.Granted(c.Sandbox.Write, h.hidden())
	if err != nil {
		return profile{}, err
	}
	for _, path := range granted {
		files[path] = "write"
	}
	all := map[string]any{"filesystem": files, "network": map[string]any{"enabled": c.Sandbox.Network}}
	data, err := json.Marshal(all)
	if err != nil {
		return profile{}, fmt.Errorf("make the sandbox of Codex: %w", err)
	}
	// Named by its content: a session that was opened with other terms refuses the turn.
	sum := sha256.Sum256(data)
	p := profile{name: "plait-" + hex.EncodeToString(sum[:6]), granted: c.Sandbox.granted()}
	p.settings = map[string]any{"default_permissions": p.name, "permissions": map[string]any{p.name: all}}
	return p, nil
}

// hideSessions denies everything in Codex's home except the directory of its helpers. Links are skipped: the login that
// one leads to is denied at its own path.
func hideSessions(files map[string]any, home string) error {
	if err := os.MkdirAll(filepath.Join(home, "sessions"), 0o700); err != nil { // it may not exist yet
		return fmt.Errorf("hide sessions of Codex: %w", err)
	}
	entries, err := os.ReadDir(home)
	if err != nil {
		return fmt.Errorf("hide sessions of Codex: %w", err)
	}
	for _, e := range entries {
		if e.Name() != "tmp" && e.Type()&fs.ModeSymlink == 0 {
			files[filepath.Join(home, e.Name())] = "deny"
		}
	}
	return nil
}

// core are the variables of Codex's own environment that its commands always get.
var core = []string{"HOME", "LOGNAME", "PATH", "SHELL", "TEMP", "TMP", "TMPDIR", "USER", "USERNAME"}

// shellPolicy returns the environment of the commands that Codex runs: the core of its own,
// which contains no key, the caches of the task, what the request adds, and what the user
// granted. Values that are passed come from Codex's own environment, so that no log has them.
func (c Config) shellPolicy(s *setup, req agent.Request, tag string) map[string]any {
	// In Codex's sandbox getpeername is forbidden. Bash takes that for a connection by rsh, and a shell of level 1 then
	// reads ~/.bashrc.
	set := map[string]any{proc.TagKey: tag, "SHLVL": "1"}
	for key, value := range caches(s.cache(), s.modules, c.Sandbox.Network) {
		set[key] = value
	}
	for _, kv := range req.Env {
		key, value, _ := strings.Cut(kv, "=")
		set[key] = value
	}
	for key, value := range c.Sandbox.Env {
		set[key] = value
	}
	delete(set, "PLAIT_HOME")
	pass := c.commandPass()
	if len(pass) == 0 {
		return map[string]any{"inherit": "core", "set": set}
	}
	only := slices.Concat(core, pass, slices.Sorted(maps.Keys(set)))
	return map[string]any{"inherit": "all", "ignore_default_excludes": true, "include_only": only, "set": set}
}

// commandPass returns the names of other variables of Codex's own environment that its commands get.
func (c Config) commandPass() []string {
	if c.Sandbox.Network {
		return slices.Concat(c.Sandbox.Pass, networkNames)
	}
	return c.Sandbox.Pass
}

// networkNames are the variables that say how to reach the network.
var networkNames = []string{
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "CODEX_CA_CERTIFICATE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE",
	"CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "GOPROXY", "GOPRIVATE", "GOSUMDB",
}

// ways returns the variables of a request that say how to reach the network.
func ways(req agent.Request) []string {
	return slices.DeleteFunc(slices.Clone(req.Env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return !slices.Contains(networkNames, name)
	})
}

// cache returns the task's directory for the caches of toolchains. An agent writes nothing to
// the user's own.
func (s *setup) cache() string { return filepath.Join(s.scratch, "cache") }

// caches returns the variables that make toolchains use the task's directory. The user's Go
// modules serve as a read-only source.
func caches(dir, modules string, network bool) map[string]string {
	in := func(name string) string { return filepath.Join(dir, name) }
	env := map[string]string{
		"XDG_CACHE_HOME": dir, "npm_config_cache": in("npm"), "PIP_CACHE_DIR": in("pip"),
		"PYTHONPYCACHEPREFIX": in("python"),
		"GOCACHE":             in("go-build"), "GOMODCACHE": in("go-mod"), "GOFLAGS": "-modcacherw",
	}
	if network {
		return env // modules come from their usual source
	}
	source := ""
	if modules != "" {
		source = "file://" + filepath.ToSlash(modules) + "/cache/download,"
	}
	// The sums in go.sum are still checked; without a network there is no database for others.
	env["GOPROXY"], env["GOSUMDB"] = source+"off", "off"
	return env
}

// goModules returns the user's cache of Go modules, "" if there is none.
func goModules(getenv func(string) string) string {
	dir := getenv("GOMODCACHE")
	if list := filepath.SplitList(getenv("GOPATH")); dir == "" && len(list) > 0 {
		dir = filepath.Join(list[0], "pkg", "mod")
	}
	if home := getenv("HOME"); dir == "" && home != "" {
		dir = filepath.Join(home, "go", "pkg", "mod")
	}
	if info, err := os.Stat(filepath.Join(dir, "cache", "download")); err != nil || !info.IsDir() || !filepath.IsAbs(dir) {
		return ""
	}
	return dir
}
