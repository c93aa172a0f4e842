// Package claude is the agent kind claude: Anthropic's Claude Code, through its JSON stream on
// standard input and output.
//
// It turns the stream into events in one normalised form and a Result. What is written here about
// Claude Code was observed in version [Version]. Laws:
//
//   - It runs in a private home for each task, with our own settings: no hooks, plugins, MCP
//     servers or settings of the project or the user, no sub-agents, no updates.
//   - Its model is reached through a gateway: the key stays with Plait, and the agent has a
//     token for its attempt. Only users with a Claude login instead of a key connect directly.
//   - Behind a wall (see [proc.Wall]) the role's access is enforced for everything it runs, and
//     nothing needs approval. Without a wall each command and each change does.
//   - Each byte of its output is in the desk's logs before it is parsed. Unknown messages are
//     logged and ignored.
//   - When Run returns, no process of the attempt is left.
//
// It writes nothing in the workspace but the desk's logs and artifacts, and never answers for a
// person: questions that no person can answer are refused.
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
	"github.com/plait-run/plait/internal/agent/gateway"
	"github.com/plait-run/plait/internal/agent/sandbox"
)

// Version is the release of Claude Code that this package is tested with.
const Version = "2.1.330"

// Install says how to install it.
const Install = "install it with `npm install -g @anthropic-ai/claude-code@" + Version + "`, or set path: in the agent's definition"

// A Config is the definition of one agent. Its zero value is usable.
type Config struct {
	Model   string            // "" is Claude Code's default
	Effort  string            // low, medium, high, xhigh or max
	Path    string            // the program, or the directory it was installed to; "" looks for it
	Dir     string            // relative to the request's directory, inside it
	Env     map[string]string // additional variables
	Pass    []string          // names of Plait's own variables to pass to it
	Write   []string          // directories that it may write beyond the role's access: see agent.Request.Granted
	Network bool              // its commands may use the network
	MCP     []string          // names of MCP servers in the user's own settings that it may use
	// Endpoint is the URL of its model; "" means ANTHROPIC_BASE_URL, or Anthropic's own.
	Endpoint string
}

// A HostConfig configures a Host.
type HostConfig struct {
	sandbox.Config
	Grace time.Duration // between two signals when stopping, 0: proc.DefaultGrace
}

// A Host is where agents run. It may be used concurrently.
type Host struct {
	cfg HostConfig
	box *sandbox.Host

	mu       sync.Mutex
	versions map[string]string // by program
}

// NewHost returns a host. It only checks what walls need.
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

// Agent checks cfg and returns its agent. It is an error if the program is not installed or
// cannot reach its model, so that this is found before anything starts.
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

// Instructions returns nothing: the user's instructions for Claude are not used.
func (a *Agent) Instructions() string { return "" }

// Steers reports true: what people add reaches the current turn.
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
	s, err := a.setup(p, a.host.Login(a.cfg), req)
	if err != nil {
		return agent.Result{}, err
	}
	defer s.close()
	t := newConversation(s, req, emit)
	return t.run(ctx)
}

// A setup is the environment of one attempt.
type setup struct {
	program Program
	gateway *gateway.Gateway // nil: direct
	home    string           // CLAUDE_CONFIG_DIR
	dir     string
	path    string // command line
	args    []string
	env     []string
	box     sandbox.Box
	session string
	schema  json.RawMessage // of a structured answer, nil: none
	form    json.RawMessage // the form of the answer, see package shape
	asked   json.RawMessage // the form as sent to the model
	grace   time.Duration
}

func (s *setup) close() {
	if s.gateway != nil {
		s.gateway.Close() // completes its log
	}
}

// obeyed are the files of a home from which Claude Code takes programs, settings or instructions.
var obeyed = []string{"CLAUDE.md", "agent-memory", "agents", "commands", "cowork_plugins", "cowork_settings.json", "daemon.json",
	"hooks", "launch.json", "loop.md", "output-styles", "plugins", "policy-limits.json", "remote-settings.json", "routines", "rules",
	"scheduled_tasks.json", "session-env", "settings.json", "settings.local.json", "skills", "workflows"}

// makeHome makes the task's home, or removes from it what Claude Code would obey: commands of an earlier attempt can
// write there, and this one may have more access.
func makeHome(home string) error {
	if err := os.MkdirAll(home, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(home)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range obeyed {
		if err := root.RemoveAll(name); err != nil {
			return err
		}
	}
	return nil
}

// setup prepares the task's home, opens the gateway and builds the command line.
func (a *Agent) setup(p Program, login Login, req agent.Request) (*setup, error) {
	if req.Home == "" {
		return nil, errors.New("run Claude Code: the request names no home")
	}
	s := &setup{program: p, home: a.SessionHome(req.Home), grace: a.host.cfg.Grace}
	var err error
	if s.dir, err = sandbox.Workdir(req.Dir, a.cfg.Dir); err != nil {
		return nil, agent.Final("cannot run Claude Code: %v", err)
	}
	granted, err := a.host.box.Granted(req, a.cfg.Write)
	if err != nil {
		return nil, err
	}
	if err := makeHome(s.home); err != nil {
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
		if err := a.copySession(s.home, *req.From); err != nil {
			return nil, err
		}
	}
	if login.direct {
		if err := a.host.linkLogin(s.home); err != nil {
			return nil, err
		}
	} else {
		up, err := url.Parse(login.url)
		if err != nil || up.Scheme != "http" && up.Scheme != "https" || up.Host == "" {
			return nil, agent.Final("%q is not the address of a model server: correct ANTHROPIC_BASE_URL", login.url)
		}
		if s.gateway, err = gateway.Open(gateway.Config{
			Upstream: gateway.Upstream{URL: up.JoinPath("v1"), Key: login.key, Bearer: login.bearer}, Traffic: req.Traffic,
			Secrets: req.Desk.Secrets,
		}); err != nil {
			return nil, err
		}
	}
	state := []string{s.home}
	if s.gateway == nil {
		state = append(state, a.host.credentials()) // it renews its login
	}
	s.box = a.host.box.Box(req, sandbox.Use{Gateway: s.gateway, Network: a.cfg.Network, Write: granted, State: state,
		Read: []string{p.Path}})
	a.environ(s, req, env)
	a.commandLine(s, req)
	return s, nil
}

// full reports whether a role has full access.
func full(req agent.Request) bool { return req.Access == agent.Full }

// environ sets the environment. env are the variables of caches.
func (a *Agent) environ(s *setup, req agent.Request, env map[string]string) {
	maps.Copy(env, map[string]string{
		"CLAUDE_CONFIG_DIR":                        s.home,
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_MAX_RETRIES": "3",
		"IS_SANDBOX": "1", // otherwise it refuses to run without permission prompts as root
	})
	maps.Copy(env, a.cfg.Env)
	var drop []string
	if s.gateway != nil { // last, so that no key of the definition gets through, nor one in Pass
		drop = []string{"ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"}
		env["ANTHROPIC_API_KEY"], env["ANTHROPIC_BASE_URL"] = s.gateway.Token(), s.box.URL()
	}
	s.env = sandbox.Environ(req, a.cfg.Pass, env, drop...)
}
