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
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/gateway"
	"github.com/plait-run/plait/internal/agent/host"
	"github.com/plait-run/plait/internal/agent/sandbox"
)

// Version is the release of Claude Code that this package is tested with.
const Version = "2.1.330"

// Package is the npm package of Claude Code.
var Package = host.Package{Name: "claude", Title: "Claude Code", NPM: "@anthropic-ai/claude-code", Version: Version,
	Program: "node_modules/@anthropic-ai/claude-code-*/claude"}

// A Config is the definition of one agent. Its zero value is usable.
type Config struct {
	Model  string // "" is Claude Code's default
	Effort string // low, medium, high, xhigh or max
	Path   string // the program, or the directory it was installed to; "" looks for it
	host.Terms
	MCP []string // names of MCP servers in the user's own settings that it may use
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
	*host.Host
	grace time.Duration
}

// NewHost returns a host. It only checks what walls need.
func NewHost(cfg HostConfig) *Host {
	return &Host{host.New(cfg.Config), cfg.Grace}
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
	if err := cfg.Check("claude"); err != nil {
		return nil, err
	}
	p, err := h.Find(context.Background(), cfg.Path)
	if err == nil {
		_, err = Advice(p)
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
	defer s.Close()
	t := newConversation(s, req, emit)
	return t.run(ctx)
}

// A setup is the environment of one attempt.
type setup struct {
	*host.Setup
	program host.Program
	home    string // CLAUDE_CONFIG_DIR
	path    string // command line
	args    []string
	env     []string
	session string
	schema  json.RawMessage // of a structured answer, nil: none
	form    json.RawMessage // the form of the answer, see package shape
	asked   json.RawMessage // the form as sent to the model
	grace   time.Duration
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
func (a *Agent) setup(p host.Program, login Login, req agent.Request) (_ *setup, err error) {
	s := &setup{program: p, home: a.SessionHome(req.Home), grace: a.host.grace}
	use := sandbox.Use{State: []string{s.home}, Read: []string{p.Path}}
	var upstream *gateway.Upstream
	if login.direct {
		use.State = append(use.State, a.host.credentials()) // it renews its login
	} else {
		up, err := url.Parse(login.url)
		if err != nil || up.Scheme != "http" && up.Scheme != "https" || up.Host == "" {
			return nil, agent.Final("%q is not the address of a model server: correct ANTHROPIC_BASE_URL", login.url)
		}
		upstream = &gateway.Upstream{URL: up.JoinPath("v1"), Key: login.key, Bearer: login.bearer}
	}
	if s.Setup, err = a.host.Setup(req, Package.Title, a.cfg.Terms, upstream, use); err != nil {
		return nil, err
	}
	if err := a.prepareHome(s, req, login); err != nil {
		s.Close()
		return nil, err
	}
	a.environ(s, req)
	a.commandLine(s, req)
	return s, nil
}

// prepareHome makes the task's home, with what an attempt begins with.
func (a *Agent) prepareHome(s *setup, req agent.Request, login Login) error {
	if err := makeHome(s.home); err != nil {
		return fmt.Errorf("make Claude Code's home: %w", err)
	}
	if err := s.shape(req); err != nil {
		return err
	}
	if req.From != nil {
		if err := a.copySession(s.home, *req.From); err != nil {
			return err
		}
	}
	if login.direct {
		return a.host.linkLogin(s.home)
	}
	return nil
}

// full reports whether a role has full access.
func full(req agent.Request) bool { return req.Access == agent.Full }

// environ sets the environment.
func (a *Agent) environ(s *setup, req agent.Request) {
	env := s.Env
	maps.Copy(env, map[string]string{
		"CLAUDE_CONFIG_DIR":                        s.home,
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_MAX_RETRIES": "3",
		"IS_SANDBOX": "1", // otherwise it refuses to run without permission prompts as root
	})
	maps.Copy(env, a.cfg.Env)
	var drop []string
	if s.Gateway != nil { // last, so that no key of the definition gets through, nor one in Pass
		drop = []string{"ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"}
		env["ANTHROPIC_API_KEY"], env["ANTHROPIC_BASE_URL"] = s.Gateway.Token(), s.Box.URL()
	}
	s.env = sandbox.Environ(req, a.cfg.Pass, env, drop...)
}
