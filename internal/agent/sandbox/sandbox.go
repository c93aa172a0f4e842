// Package sandbox decides how Plait runs an agent's program: in a sandbox that enforces the role's access, with
// the task's caches, and with no network but the gateway to its model.
//
// It takes a Request and what the agent's definition grants, and returns the gateway's address as the program
// sees it, the command line inside the sandbox, and what the sandbox enforces, for the record. Laws:
//
//   - With access read, the file system is read-only except for artifacts, caches and the agent's own state. Access
//     write adds the working tree, except for the places that programs and instructions are read from.
//   - Plait's record, other tasks, the usual places of credentials and those of sockets are hidden.
//   - There is no network but the gateway, unless a person granted it or the agent has no gateway.
//   - Only access full has no sandbox. Without bubblewrap there is none for any access: [Sandbox.Enforced] reports it.
package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/gateway"
	"github.com/plait-run/plait/internal/sys/proc"
)

// A Config configures where agents run.
type Config struct {
	Getenv func(string) string
	// Hide lists directories that no agent may see, besides the places where people keep credentials.
	Hide []string
	// Cell is around a program that a definition names by its path, before any attempt; nil: none.
	Cell *proc.Cell
	// Forward is the command line that starts a program whose only network is its gateway. The socket and the
	// program's own command line are appended, see [gateway.Forward].
	Forward []string
}

// A Host makes sandboxes. It may be used concurrently.
type Host struct {
	cfg Config
	// Bwrap is the path of bubblewrap, "" if it is missing: see [proc.Bubblewrap].
	Bwrap string
}

// NewHost returns a host. It only looks for bubblewrap.
func NewHost(cfg Config) *Host { return &Host{cfg, proc.Bubblewrap()} }

// A Use is what an agent's program needs beyond what every agent has.
type Use struct {
	Gateway *gateway.Gateway // nil: the agent reaches its model by itself, which needs the network
	Alone   bool             // it has no model to reach
	Network bool             // granted by a person
	Write   []string         // directories granted by a person: see Granted
	State   []string         // the agent's own directories that it writes
	Read    []string         // what it must be able to read even in a hidden place
}

// A Sandbox is where the program of one attempt runs.
type Sandbox struct {
	host *Host
	use  Use
	req  agent.Request

	Enforced bool // otherwise there is none
	Online   bool // programs can use the network
}

// Granted returns the places that a person granted to an attempt for writing: see [agent.Request.Granted].
func (h *Host) Granted(req agent.Request, write []string) ([]string, error) {
	return req.Granted(write, h.cfg.Hide)
}

// For returns the sandbox for the program of an attempt.
func (h *Host) For(req agent.Request, use Use) Sandbox {
	full := req.Access == agent.Full
	s := Sandbox{host: h, use: use, req: req, Enforced: h.Bwrap != "" && !full, Online: full || use.Network}
	s.Online = s.Online || use.Gateway == nil && !use.Alone || !s.Enforced
	return s
}

// URL returns the gateway's address for the program, without the version of the API.
func (s Sandbox) URL() string { return s.use.Gateway.For(s.Online && !s.req.OwnNetwork) }

// Around returns the command line of a program that works in dir.
func (s Sandbox) Around(dir, path string, args []string) (string, []string) {
	needs := agent.Needs{Read: append(slices.Clone(s.use.Read), path)}
	if s.use.Gateway != nil {
		needs.Gateway = s.use.Gateway.Socket()
	}
	path, args = s.confined(dir, path, args)
	return s.req.CommandLine(path, args, needs)
}

// confined returns the command line of a program in the sandbox, if there is one.
func (s Sandbox) confined(dir, path string, args []string) (string, []string) {
	if !s.Enforced {
		return path, args
	}
	req, at := s.req, scratch(s.req)
	w := proc.Sandbox{
		Network: s.Online, Sealed: true, Hide: slices.Concat(s.host.hidden(), s.host.cfg.Hide),
		Read:  slices.Concat([]string{req.Dir, path}, s.use.Read),
		Write: slices.Concat(s.use.State, []string{filepath.Join(at, "tmp"), filepath.Join(at, "cache")}),
	}
	stays := staysIn(req.Dir, w.Hide)
	for _, place := range s.use.Write {
		if stays(place) {
			w.Write = append(w.Write, place)
		}
	}
	if stays(dir) {
		w.Read = append(w.Read, dir)
	}
	for place, to := range map[string]*[]string{req.Bin(): &w.Read, req.Desk.Context: &w.Read,
		req.Desk.Artifacts: &w.Write} {
		if place != "" {
			*to = append(*to, place)
		}
	}
	if req.Access == agent.Write {
		w.Tree = append(w.Tree, req.Dir)
		if stays(dir) {
			w.Tree = append(w.Tree, dir)
		}
		for _, name := range guarded {
			if place := filepath.Join(req.Dir, name); stays(place) {
				w.Guard = append(w.Guard, place)
			}
		}
	}
	if !s.Online && !s.use.Alone {
		args = slices.Concat(s.host.cfg.Forward[1:], []string{s.use.Gateway.Socket(), path}, args)
		path = s.host.cfg.Forward[0]
		w.Read = append(w.Read, path, filepath.Dir(s.use.Gateway.Socket()))
	}
	return w.Around(s.host.Bwrap, path, args)
}

// staysIn returns a function that reports whether a place is where its name says: if it lies in the tree, it is no link
// out of it, nor to a place in it that is hidden. An agent that writes in the tree can put links there.
func staysIn(tree string, hide []string) func(place string) bool {
	root, err := filepath.EvalSymlinks(tree)
	if err != nil {
		return func(string) bool { return false }
	}
	return func(place string) bool {
		if !agent.Within(tree, place) && !agent.Within(root, place) {
			return true // a person named it
		}
		real, err := filepath.EvalSymlinks(place)
		return err == nil && agent.Within(root, real) && !slices.ContainsFunc(hide, func(hidden string) bool {
			return agent.Within(root, hidden) && agent.Within(hidden, real)
		})
	}
}

// String returns what is enforced, for the record.
func (s Sandbox) String() string {
	text := "bubblewrap: read-only"
	switch {
	case s.req.Access == agent.Full:
		text = "none"
	case !s.Enforced:
		text = "none: each command and each change is asked for"
	case s.req.Access == agent.Write:
		text = "bubblewrap: workspace-write"
	}
	if s.Enforced {
		for _, dir := range s.use.Write {
			text += ", write " + dir
		}
		if s.Online {
			text += ", network"
		}
	}
	if s.use.Gateway == nil && !s.use.Alone {
		text += ", via: direct"
	}
	return text
}

// guarded are the places in a tree from which Plait, git or an agent takes programs or instructions.
var guarded = []string{".git", ".plait", ".workflows", ".codex", ".claude", ".copilot", ".opencode", ".gemini", ".qwen",
	".kimi-code"}

// services are directories in which programs that run as the user, or for everyone, have sockets. A socket on a
// read-only file system still accepts connections, and a terminal multiplexer runs what it is sent.
var services = []string{"/tmp", "/var/tmp", "/run/user", "/run/screen", "/run/dbus", "/run/postgresql", "/run/mysqld",
	"/run/docker.sock", "/var/run/docker.sock", "/run/podman", "/run/containerd", "/run/libvirt"}

// hidden are the places where people keep credentials, and those where their programs have sockets.
func (h *Host) hidden() []string {
	home := h.cfg.Getenv("HOME")
	list := append(slices.Clone(services), os.TempDir(), h.cfg.Getenv("XDG_RUNTIME_DIR"), h.cfg.Getenv("TMUX_TMPDIR"),
		h.cfg.Getenv("SSH_AUTH_SOCK"))
	for _, name := range []string{".ssh", ".aws", ".azure", ".gnupg", ".kube", ".docker", ".netrc", ".npmrc", ".pypirc",
		".git-credentials",
		".claude", ".claude.json", ".codex", ".copilot", ".gemini", ".qwen", ".kimi-code", ".config/gh", ".config/gcloud",
		".config/plait",
		".config/github-copilot", ".config/opencode", ".local/share/opencode", ".password-store", ".bash_history"} {
		if home != "" {
			list = append(list, filepath.Join(home, name))
		}
	}
	return slices.DeleteFunc(list, func(p string) bool { return p == "" || h.cfg.Cell.Covers(p) })
}

// Workdir returns where an attempt works: dir below tree. It refuses a link that leads out of the tree.
func Workdir(tree, dir string) (string, error) {
	root, err := filepath.EvalSymlinks(tree)
	if err != nil {
		return "", fmt.Errorf("cannot work in %s: %w; restore the working tree", tree, errors.Unwrap(err))
	}
	at, err := filepath.EvalSymlinks(filepath.Join(root, dir))
	if err != nil {
		return "", fmt.Errorf("the agent's dir %q does not exist in %s", dir, tree)
	}
	if rel, err := filepath.Rel(root, at); err != nil || !filepath.IsLocal(rel) {
		return "", fmt.Errorf("dir %q is a link that leaves the working tree: point the agent's dir at a directory inside "+
			"it", dir)
	}
	if info, err := os.Stat(at); err != nil || !info.IsDir() {
		return "", fmt.Errorf("cannot work in %s: not a directory; restore the working tree", at)
	}
	return at, nil
}

// scratch returns the directory of a task for caches and temporary files.
func scratch(req agent.Request) string { return cmp.Or(req.Scratch, req.Home) }

// Caches creates a task's directories for temporary files and for the caches of common toolchains, and returns
// the environment variables that point to them.
func Caches(req agent.Request) (map[string]string, error) {
	tmp, cache := filepath.Join(scratch(req), "tmp"), filepath.Join(scratch(req), "cache")
	for _, dir := range []string{tmp, cache} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make the task's caches: %w", err)
		}
	}
	return map[string]string{
		"TMPDIR": tmp, "XDG_CACHE_HOME": cache, "GOCACHE": filepath.Join(cache, "go-build"), "GOFLAGS": "-modcacherw",
		"npm_config_cache": filepath.Join(cache, "npm"), "PIP_CACHE_DIR": filepath.Join(cache, "pip"),
		"PYTHONDONTWRITEBYTECODE": "1",
	}, nil
}

// Environ returns the environment of a program. It omits the variables named in drop, even if the definition
// sets them.
func Environ(req agent.Request, pass []string, env map[string]string, drop ...string) []string {
	list := proc.First(req.Bin(), proc.Environ(pass, env, req.Env, req.Tag))
	return slices.DeleteFunc(list, func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(drop, name)
	})
}
