// Package claude is the agent kind claude: Anthropic's Claude Code, by its stream of JSON on standard
// input and output.
//
// In go a definition and a Request; out come events, in one normalised form, and a Result. What is
// written here about Claude Code was seen from version [Version]. Laws:
//
//   - It runs in a private home for each task, with settings of our own: no hooks, plugins, MCP servers
//     or settings of the project or the user, no sub-agents, no updates.
//   - Its model is reached through a gateway: the key stays with Plait, the agent has a token of its
//     attempt. Only who has no key, but a login of Claude's, goes direct.
//   - Behind a wall (see [proc.Wall]) the role's access is enforced for all that it runs, and what
//     stays behind the wall is not asked for. Without one each command and each change is asked for.
//   - Each byte that it says is in the desk's logs before it is understood. What is not understood is
//     kept and passed over.
//   - When Run returns, no process of the attempt is left.
//
// It writes nothing below the workspace but the desk's logs and artifacts, and never answers for a
// person: what nobody can answer is refused.
package claude

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/gateway"
	"github.com/plait-run/plait/internal/proc"
)

// Version is the release of Claude Code that this package is tested with.
const Version = "2.1.330"

// Install says how to get it.
const Install = "install it with `npm install -g @anthropic-ai/claude-code@" + Version + "`, or set path: in the agent's definition"

// A Config is the definition of one agent. Its zero value is a good one.
type Config struct {
	Model   string            // "" is Claude Code's default
	Effort  string            // low, medium, high, xhigh or max
	Path    string            // the program, or the directory it was installed to; "" looks for it
	Dir     string            // relative to the request's directory, inside it
	Env     map[string]string // further variables
	Pass    []string          // names of Plait's own variables to pass to it
	Write   []string          // directories that it may write beyond the role's access, absolute
	Network bool              // its commands may use the network
	// Endpoint is where its model is, "" for Anthropic's own, or what ANTHROPIC_BASE_URL says.
	Endpoint string
}

// A HostConfig says where agents run.
type HostConfig struct {
	Getenv func(string) string
	// Hide lists directories that no agent may see, beside the places where people keep credentials.
	Hide []string
	// Forward is the command line by which a program is started that has no network but the way to its
	// gateway: the socket and the program's own command line are added, see [gateway.Forward].
	Forward []string
	Grace   time.Duration // between two steps of stopping, 0: proc.DefaultGrace
}

// A Host is where agents run. It may be used concurrently.
type Host struct {
	cfg   HostConfig
	bwrap string // see proc.Walls

	mu       sync.Mutex
	versions map[string]string // by program
}

// NewHost returns a host. It only looks for what makes walls.
func NewHost(cfg HostConfig) *Host {
	return &Host{cfg: cfg, bwrap: proc.Walls(), versions: map[string]string{}}
}

// An Agent runs Claude Code. It may be used concurrently.
type Agent struct {
	host *Host
	cfg  Config
}

var (
	_ agent.Continuer  = (*Agent)(nil)
	_ agent.Instructed = (*Agent)(nil)
	_ agent.Homed      = (*Agent)(nil)
)

// Agent checks cfg and returns its agent. That the program is not there, or cannot reach its model, is
// an error: it is found before anything is begun.
func (h *Host) Agent(cfg Config) (*Agent, error) {
	if cfg.Dir != "" && !filepath.IsLocal(cfg.Dir) {
		return nil, fmt.Errorf("claude agent: dir %q leaves the working tree", cfg.Dir)
	}
	p, err := h.Find(context.Background(), cfg.Path)
	if err == nil {
		_, err = p.Advice()
	}
	if login := h.Login(cfg); err == nil && !login.OK {
		err = fmt.Errorf("%s: %s", login.Text, login.Do)
	}
	if err != nil {
		return nil, err
	}
	return &Agent{h, cfg}, nil
}

// Continues reports whether the session is in the task's home.
func (a *Agent) Continues(req agent.Request) bool {
	if req.Session == "" || strings.ContainsAny(req.Session, `*?[\/`) {
		return false
	}
	found, _ := filepath.Glob(filepath.Join(a.SessionHome(req.Home), "projects", "*", req.Session+".jsonl")) // the form is good
	return len(found) > 0
}

// Instructions returns nothing: what a user tells Claude in all projects is not read.
func (a *Agent) Instructions() string { return "" }

// SessionHome returns CLAUDE_CONFIG_DIR of a task.
func (a *Agent) SessionHome(home string) string { return filepath.Join(home, "claude") }

// finalFailure is one that trying again does not help.
func finalFailure(format string, args ...any) error {
	return &agent.Failure{Kind: agent.Infra, Final: true, Message: fmt.Sprintf(format, args...)}
}

// Run makes one attempt. See [agent.Agent].
func (a *Agent) Run(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
	if ctx.Err() != nil {
		return agent.Result{}, &agent.Failure{Kind: agent.Cancelled, Message: "the attempt was cancelled before it began"}
	}
	p, err := a.host.Find(ctx, a.cfg.Path)
	if err != nil {
		return agent.Result{}, finalFailure("%v", err)
	}
	s, err := a.site(p, a.host.Login(a.cfg), req)
	if err != nil {
		return agent.Result{}, err
	}
	defer s.close()
	t := newTalk(s, req, emit)
	return t.run(ctx)
}

// A site is what was prepared for one attempt.
type site struct {
	program Program
	gateway *gateway.Gateway // nil: direct
	home    string           // CLAUDE_CONFIG_DIR
	dir     string
	path    string // command line
	args    []string
	env     []string
	walled  bool
	sandbox string // what is enforced, for the record
	session string
	grace   time.Duration
}

func (s *site) close() {
	if s.gateway != nil {
		s.gateway.Close() // what it served has ended
	}
}

// site makes the task's home ready, opens the gateway and puts the command line together.
func (a *Agent) site(p Program, login Login, req agent.Request) (*site, error) {
	if req.Home == "" {
		return nil, errors.New("run Claude Code: the request names no home")
	}
	s := &site{program: p, home: a.SessionHome(req.Home), grace: a.host.cfg.Grace}
	var err error
	if s.dir, err = a.workdir(req); err != nil {
		return nil, err
	}
	scratch := cmp.Or(req.Scratch, req.Home)
	tmp := filepath.Join(scratch, "tmp")
	for _, dir := range []string{s.home, tmp, filepath.Join(scratch, "cache")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make Claude Code's home: %w", err)
		}
	}
	if login.direct {
		if err := a.host.lendLogin(s.home); err != nil {
			return nil, err
		}
	} else {
		up, err := url.Parse(login.url)
		if err != nil || up.Scheme != "http" && up.Scheme != "https" || up.Host == "" {
			return nil, finalFailure("%q is no address of a model's server: correct ANTHROPIC_BASE_URL", login.url)
		}
		if s.gateway, err = gateway.Open(gateway.Upstream{URL: up, Key: login.key, Bearer: login.bearer}); err != nil {
			return nil, err
		}
	}
	a.environ(s, req, scratch)
	a.commandLine(s, req, scratch)
	return s, nil
}

// workdir returns where the attempt works, and sees to it that links do not lead it out of the tree.
func (a *Agent) workdir(req agent.Request) (string, error) {
	root, err := filepath.EvalSymlinks(req.Dir)
	if err != nil {
		return "", finalFailure("cannot run Claude Code in %s: %v; restore the working tree", req.Dir, errors.Unwrap(err))
	}
	dir, err := filepath.EvalSymlinks(filepath.Join(root, a.cfg.Dir))
	if err != nil {
		return "", finalFailure("cannot run Claude Code: the agent's dir %q does not exist in %s", a.cfg.Dir, req.Dir)
	}
	if rel, err := filepath.Rel(root, dir); err != nil || !filepath.IsLocal(rel) {
		return "", finalFailure("dir %q is a link that leaves the working tree: point the agent's dir at a directory inside it", a.cfg.Dir)
	}
	return dir, nil
}

// full reports whether a role may do everything.
func full(req agent.Request) bool { return req.Access == agent.Full }

// environ sets the environment.
func (a *Agent) environ(s *site, req agent.Request, scratch string) {
	cache := filepath.Join(scratch, "cache")
	env := map[string]string{
		"CLAUDE_CONFIG_DIR": s.home, "TMPDIR": filepath.Join(scratch, "tmp"),
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_MAX_RETRIES": "3",
		"IS_SANDBOX": "1", // else it does not work without questions as root
		"GOCACHE":    filepath.Join(cache, "go-build"), "GOFLAGS": "-modcacherw", "XDG_CACHE_HOME": cache,
		"npm_config_cache": filepath.Join(cache, "npm"), "PIP_CACHE_DIR": filepath.Join(cache, "pip"), "PYTHONDONTWRITEBYTECODE": "1",
	}
	maps.Copy(env, a.cfg.Env)
	if s.gateway != nil { // last: no key of the definition gets there
		delete(env, "ANTHROPIC_AUTH_TOKEN")
		env["ANTHROPIC_API_KEY"], env["ANTHROPIC_BASE_URL"] = s.gateway.Token(), s.gateway.URL()
	}
	s.env = proc.First(req.Bin(), proc.Environ(a.cfg.Pass, env, req.Env, req.Tag))
}
