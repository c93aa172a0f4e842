// Package claude is the agent kind claude: Anthropic's Claude Code, through its JSON stream on
// standard input and output.
//
// It turns the stream into events in one normalized form and a Result. What is written here about
// Claude Code was observed in version [Version]. Laws:
//
//   - It runs in a private home for each task, with our own settings: no hooks, plugins, MCP
//     servers or settings of the project or the user, no sub-agents, no updates.
//   - Its model is reached through a gateway: the key stays with Plait, and the agent has a
//     token for its attempt. Only users with a Claude login instead of a key connect directly.
//   - In a sandbox (see [proc.Sandbox]) the role's access is enforced for everything it runs, and
//     nothing needs approval. Without a sandbox each command and each change does.
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
	"path/filepath"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/host"
	"github.com/plait-run/plait/internal/agent/sandbox"
)

// Version is the release of Claude Code that this package is tested with.
const Version = "2.1.330"

// Package is the npm package of Claude Code.
var Package = host.Package{Name: "claude", Title: "Claude Code", NPM: "@anthropic-ai/claude-code", Version: Version,
	Oldest: Version, Program: "node_modules/@anthropic-ai/claude-code-*/claude"}

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

// An Agent runs Claude Code. It may be used concurrently.
type Agent struct {
	host    *host.Host
	cfg     Config
	servers map[string]any // see Config.MCP
}

var (
	_ agent.Continuer      = (*Agent)(nil)
	_ agent.SelfInstructed = (*Agent)(nil)
	_ agent.Homed          = (*Agent)(nil)
	_ agent.Forker         = (*Agent)(nil)
	_ agent.Shaper         = (*Agent)(nil)
	_ agent.Steerer        = (*Agent)(nil)
)

// New checks cfg and returns its agent. It is an error if the program is not installed or
// cannot reach its model, so that this is found before anything starts.
func New(h *host.Host, cfg Config) (*Agent, error) {
	if err := cfg.Check("claude"); err != nil {
		return nil, err
	}
	p, err := h.Find(context.Background(), Package, cfg.Path, nil)
	if err == nil {
		_, err = Package.Advice(p)
	}
	if err == nil {
		err = Login(h, cfg).Err()
	}
	if err != nil {
		return nil, err
	}
	servers, err := userServers(h, cfg.MCP)
	if err != nil {
		return nil, err
	}
	return &Agent{h, cfg, servers}, nil
}

// Instructions returns nothing: the user's instructions for Claude are not used.
func (a *Agent) Instructions() string { return "" }

// InstructionFile returns the name of the file that Claude Code has for a project's instructions.
func (a *Agent) InstructionFile() string { return "CLAUDE.md" }

// Steers reports true: what people add reaches the current turn.
func (a *Agent) Steers() bool { return true }

// SessionHome returns CLAUDE_CONFIG_DIR of a task.
func (a *Agent) SessionHome(home string) string { return filepath.Join(home, "claude") }

// Run makes one attempt. See [agent.Agent].
func (a *Agent) Run(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
	if ctx.Err() != nil {
		return agent.Result{}, &agent.Failure{Kind: agent.Cancelled, Message: "the attempt was cancelled before it began"}
	}
	p, err := a.host.Find(ctx, Package, a.cfg.Path, nil)
	if err != nil {
		return agent.Result{}, agent.OfMachine("%v", err)
	}
	s, err := a.setup(p, req)
	if err != nil {
		return agent.Result{}, err
	}
	defer s.Close()
	return newConversation(s, req, emit).run(ctx)
}

// A setup is the environment of one attempt.
type setup struct {
	*host.Setup
	program host.Program
	home    string // CLAUDE_CONFIG_DIR
	session string
	schema  json.RawMessage // of a structured answer, nil: none
	form    json.RawMessage // the form of the answer, see package shape
	asked   json.RawMessage // the form as sent to the model
	grace   time.Duration   // between two steps of stopping
}

// obeyed are the files of a home from which Claude Code takes programs, settings or instructions.
var obeyed = []string{"CLAUDE.md", "agent-memory", "agents", "commands", "cowork_plugins", "cowork_settings.json",
	"daemon.json",
	"hooks", "launch.json", "loop.md", "output-styles", "plugins", "policy-limits.json", "remote-settings.json",
	"routines", "rules",
	"scheduled_tasks.json", "session-env", "settings.json", "settings.local.json", "skills", "workflows"}

// setup prepares the task's home, opens the gateway and builds the command line.
func (a *Agent) setup(p host.Program, req agent.Request) (_ *setup, err error) {
	s := &setup{program: p, home: a.SessionHome(req.Home), grace: a.host.Grace}
	login := Login(a.host, a.cfg)
	if !login.OK {
		return nil, agent.Final("%v", login.Err())
	}
	use := sandbox.Use{State: []string{s.home}, Read: []string{p.Path}}
	if login.Upstream == nil {
		use.State = append(use.State, credentials(a.host)) // it renews its login
	}
	if s.Setup, err = a.host.Setup(req, Package.Title, a.cfg.Terms, login.Upstream, use); err != nil {
		return nil, err
	}
	if err := a.prepareHome(s, req); err != nil {
		s.Close()
		return nil, err
	}
	a.command(s, req)
	return s, nil
}

// prepareHome makes the task's home, with what an attempt begins with.
func (a *Agent) prepareHome(s *setup, req agent.Request) error {
	root, err := agent.OpenHome(s.home)
	if err != nil {
		return fmt.Errorf("make Claude Code's home: %w", err)
	}
	defer root.Close()
	for _, name := range obeyed { // commands of an earlier attempt can write there, and this one may have more access
		if err := root.RemoveAll(name); err != nil {
			return fmt.Errorf("make Claude Code's home: %w", err)
		}
	}
	if err := s.shape(req); err != nil {
		return err
	}
	if req.From != nil {
		if err := a.copySession(s.home, *req.From); err != nil {
			return err
		}
	}
	if s.Gateway != nil {
		return nil
	}
	if err := agent.LinkIn(root, credentials(a.host), ".credentials.json"); err != nil {
		return fmt.Errorf("share the login of Claude Code: %w", err)
	}
	return nil
}

// full reports whether a role has full access.
func full(req agent.Request) bool { return req.Access == agent.Full }

// command sets the command line and the environment of Claude Code.
func (a *Agent) command(s *setup, req agent.Request) {
	args, env := a.arguments(s, req)
	maps.Copy(s.Vars, map[string]string{
		"CLAUDE_CONFIG_DIR":                        s.home,
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_MAX_RETRIES": "3",
		"IS_SANDBOX": "1", // otherwise it refuses to run without permission prompts as root
	})
	maps.Copy(s.Vars, a.cfg.Env)
	var drop []string
	if s.Gateway != nil { // last, so that no key of the definition gets through, nor one in Pass
		drop = []string{"ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"}
		s.Vars["ANTHROPIC_API_KEY"], s.Vars["ANTHROPIC_BASE_URL"] = s.Gateway.Token(), s.Sandbox.URL()
	}
	s.Command(s.program.Path, args, a.cfg.Pass, drop)
	s.Env = append(s.Env, env...)
}
