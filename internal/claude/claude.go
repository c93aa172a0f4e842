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
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/gateway"
	"github.com/plait-run/plait/internal/sandbox"
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
	MCP     []string          // names of MCP servers in the user's own settings that it may use
	// Endpoint is where its model is, "" for Anthropic's own, or what ANTHROPIC_BASE_URL says.
	Endpoint string
}

// A HostConfig says where agents run.
type HostConfig struct {
	sandbox.Config
	Grace time.Duration // between two steps of stopping, 0: proc.DefaultGrace
}

// A Host is where agents run. It may be used concurrently.
type Host struct {
	cfg HostConfig
	box *sandbox.Host

	mu       sync.Mutex
	versions map[string]string // by program
}

// NewHost returns a host. It only looks for what makes walls.
func NewHost(cfg HostConfig) *Host {
	return &Host{cfg: cfg, box: sandbox.NewHost(cfg.Config), versions: map[string]string{}}
}

// An Agent runs Claude Code. It may be used concurrently.
type Agent struct {
	host    *Host
	cfg     Config
	servers map[string]any // see Config.MCP
}

var (
	_ agent.Continuer  = (*Agent)(nil)
	_ agent.Instructed = (*Agent)(nil)
	_ agent.Homed      = (*Agent)(nil)
	_ agent.Forker     = (*Agent)(nil)
	_ agent.Shaper     = (*Agent)(nil)
	_ agent.Steerer    = (*Agent)(nil)
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
	servers, err := h.servers(cfg.MCP)
	if err != nil {
		return nil, err
	}
	return &Agent{h, cfg, servers}, nil
}

// Instructions returns nothing: what a user tells Claude in all projects is not read.
func (a *Agent) Instructions() string { return "" }

// Steers reports that what people add reaches the turn that runs.
func (a *Agent) Steers() bool { return true }

// SessionHome returns CLAUDE_CONFIG_DIR of a task.
func (a *Agent) SessionHome(home string) string { return filepath.Join(home, "claude") }

// Run makes one attempt. See [agent.Agent].
func (a *Agent) Run(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
	if ctx.Err() != nil {
		return agent.Result{}, &agent.Failure{Kind: agent.Cancelled, Message: "the attempt was cancelled before it began"}
	}
	p, err := a.host.Find(ctx, a.cfg.Path)
	if err != nil {
		return agent.Result{}, agent.Final("%v", err)
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
	box     sandbox.Box
	session string
	schema  json.RawMessage // that a shaped answer fits, nil: it is not shaped
	form    json.RawMessage // in which the answer comes, see package shape
	asked   json.RawMessage // the form as the model is asked for it
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
	if s.dir, err = sandbox.Workdir(req.Dir, a.cfg.Dir); err != nil {
		return nil, agent.Final("cannot run Claude Code: %v", err)
	}
	if err := os.MkdirAll(s.home, 0o700); err != nil {
		return nil, fmt.Errorf("make Claude Code's home: %w", err)
	}
	env, err := sandbox.Caches(req)
	if err != nil {
		return nil, err
	}
	if err := s.shape(req); err != nil {
		return nil, err
	}
	if req.From != nil {
		if err := a.lendSession(s.home, *req.From); err != nil {
			return nil, err
		}
	}
	if login.direct {
		if err := a.host.lendLogin(s.home); err != nil {
			return nil, err
		}
	} else {
		up, err := url.Parse(login.url)
		if err != nil || up.Scheme != "http" && up.Scheme != "https" || up.Host == "" {
			return nil, agent.Final("%q is no address of a model's server: correct ANTHROPIC_BASE_URL", login.url)
		}
		if s.gateway, err = gateway.Open(gateway.Config{
			Upstream: gateway.Upstream{URL: up.JoinPath("v1"), Key: login.key, Bearer: login.bearer}, Traffic: req.Traffic,
		}); err != nil {
			return nil, err
		}
	}
	state := []string{s.home}
	if s.gateway == nil {
		state = append(state, a.host.credentials()) // it renews its login
	}
	s.box = a.host.box.Box(req, sandbox.Use{Gateway: s.gateway, Network: a.cfg.Network, Write: a.cfg.Write, State: state,
		Read: []string{p.Path}})
	a.environ(s, req, env)
	a.commandLine(s, req)
	return s, nil
}

// full reports whether a role may do everything.
func full(req agent.Request) bool { return req.Access == agent.Full }

// environ sets the environment, env is what caches need.
func (a *Agent) environ(s *site, req agent.Request, env map[string]string) {
	maps.Copy(env, map[string]string{
		"CLAUDE_CONFIG_DIR":                        s.home,
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_MAX_RETRIES": "3",
		"IS_SANDBOX": "1", // else it does not work without questions as root
	})
	maps.Copy(env, a.cfg.Env)
	if s.gateway != nil { // last: no key of the definition gets there
		delete(env, "ANTHROPIC_AUTH_TOKEN")
		env["ANTHROPIC_API_KEY"], env["ANTHROPIC_BASE_URL"] = s.gateway.Token(), s.box.URL()
	}
	s.env = sandbox.Environ(req, a.cfg.Pass, env)
}
