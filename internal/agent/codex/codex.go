// Package codex is the agent kinds codex and codex-exec: OpenAI's Codex CLI as
// an agent, through both of its programmable interfaces.
//
//	codex       codex app-server: one process serves many attempts; streamed
//	            items, approvals, steering, forks, reverts
//	codex-exec  codex exec --json: one process for each attempt, which never asks
//
// Given a definition and a Request, it produces events, in one normalized form,
// and a Result. What is written here about Codex was observed in version
// [Version]. Laws:
//
//   - Codex runs as its native binary, in a private home for each task with our
//     own configuration: no analytics, no plugins, no sub-agents (they would be
//     unrecorded), no trust in the project's settings.
//   - Sandbox and approval policy are sent with every start, resume and fork:
//     Codex forgets them otherwise. The Result names what Codex says it enforced.
//   - Each byte of Codex's output is in the desk's logs before it is parsed.
//     Unknown messages are logged and ignored.
//   - A turn counts as done when Codex says so and, for codex-exec, exits with 0.
//     The engine checks whether the answer fits its schema: Codex does not.
//   - When Run returns, no process of the attempt is left. Concurrent attempts
//     share a server, which ends with the last of them.
//   - A model key reaches Codex, but never the commands that Codex runs.
//
// The package writes nothing below the workspace but the desk's logs and
// artifacts, and never answers an approval by itself: questions that no person
// can answer are refused.
package codex

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/host"
	"github.com/plait-run/plait/internal/agent/shape"
)

// Version is the release of Codex that this package is tested with. It is also the oldest that was tried and works: the
// sandbox consists of permissions profiles, which older releases have in other forms or not at all.
const Version = "0.169.0"

// A Config is the definition of one agent. Its zero value is usable.
type Config struct {
	Model  string            // "" is the user's own, or Codex's default
	Effort string            // reasoning effort
	Path   string            // the codex program, or the directory it was installed to; "" looks for it
	Dir    string            // relative to the request's directory, inside it
	Config map[string]any    // additional settings of Codex, as in its config.toml
	Env    map[string]string // additional variables for Codex itself
	Pass   []string          // names of Plait's own variables to pass to it
	// Sandbox is what its commands may do in addition to the role's access.
	Sandbox Sandbox
	// MCP names servers of the user's own configuration that it may use.
	MCP []string
	// Global says to include the user's AGENTS.md for all projects.
	Global bool
	// Endpoint replaces the user's account and model when set.
	Endpoint *Endpoint
	// Replay says that [agent.Request].Traffic answers each request: none is sent, and no account
	// is needed.
	Replay bool
}

// An Endpoint is a model endpoint that speaks the Responses API.
type Endpoint struct {
	URL     string // base URL; Codex posts to URL + "/responses"
	Model   string
	Catalog []byte // what Codex must know about the model, or nil
}

// A Host is what Codex's agents share: where they run, and running servers. It may be used concurrently, and holds no
// resources while no attempt runs.
type Host struct {
	*host.Host
	startup time.Duration // how long an app-server may take to answer, and then to begin a turn

	mu      sync.Mutex
	logins  map[string]host.Login // successful ones, by the path of the program
	servers map[string]*server    // by what attempts must have in common to share one
}

// NewHost returns a host. It has no side effects.
func NewHost(h *host.Host) *Host {
	return &Host{Host: h, startup: 60 * time.Second, logins: map[string]host.Login{}, servers: map[string]*server{}}
}

// grace returns the time between two signals when stopping a server.
func (h *Host) grace() time.Duration { return cmp.Or(h.Grace, 5*time.Second) }

// hidden are the directories that agents' commands must not read, if the sandbox can enforce it. A cell hides them by
// itself, except for the task's own part. An agent may still read the parts of them that it is given.
func (h *Host) hidden() []string {
	if h.Cell != nil {
		return nil
	}
	return h.Hide
}

// reservedSettings are the settings that a definition cannot change, because access, approvals
// and the record depend on them.
var reservedSettings = []string{
	"agents", "allow_login_shell", "analytics", "approval_policy", "approvals_reviewer", "check_for_update_on_startup",
	"default_permissions", "features",
	"hooks", "notify", "permissions", "plugins", "project_doc_max_bytes", "projects",
	"sandbox_mode", "sandbox_workspace_write",
	"shell_environment_policy",
}

// check validates a definition.
func (c Config) check() error {
	if c.Dir != "" && !filepath.IsLocal(c.Dir) {
		return fmt.Errorf("codex agent: dir %q leaves the working tree", c.Dir)
	}
	for key := range c.Config {
		top, _, _ := strings.Cut(key, ".")
		if slices.Contains(reservedSettings, top) {
			return fmt.Errorf("codex agent: config cannot set %s: Plait sets it from the role's access and the "+
				"task's approvals", key)
		}
	}
	for _, name := range c.Sandbox.Pass {
		if name == apiKey || name == "OPENAI_API_KEY" {
			return fmt.Errorf("codex agent: sandbox.pass cannot name %s: commands must not get "+
				"the model's key", name)
		}
	}
	return nil
}

// checkServers returns an error if the definition names a server that the user does not have.
func (c Config) checkServers(mine map[string]any, user string) error {
	table, _ := mine["mcp_servers"].(map[string]any)
	for _, name := range c.MCP {
		if table[name] == nil {
			return fmt.Errorf("codex agent: mcp names %q, and %s has no [mcp_servers.%s]", name,
				filepath.Join(user, "config.toml"), name)
		}
	}
	return nil
}

// An installed is what both interfaces of an agent have in common: the Codex of its definition, and its sessions.
type installed struct {
	host         *Host
	cfg          Config
	instructions string // see [agent.Instructed]
}

// An Agent runs Codex through its app-server. It may be used concurrently.
type Agent struct{ installed }

// Agent returns the agent of a definition. It is an error if no usable Codex is installed.
func (h *Host) Agent(cfg Config) (*Agent, error) {
	told, err := h.ready(cfg)
	if err != nil {
		return nil, err
	}
	return &Agent{installed{h, cfg, told}}, nil
}

// An ExecAgent runs Codex through codex exec. It may be used concurrently.
type ExecAgent struct {
	installed
	startup time.Duration // zero: execStartup
}

// ExecAgent returns the one-shot agent of a definition. It is an error if no usable Codex is
// installed.
func (h *Host) ExecAgent(cfg Config) (*ExecAgent, error) {
	told, err := h.ready(cfg)
	if err != nil {
		return nil, err
	}
	return &ExecAgent{installed: installed{h, cfg, told}}, nil
}

// ready checks that an agent can be used, and returns the user's instructions for it.
func (h *Host) ready(cfg Config) (string, error) {
	if err := cfg.check(); err != nil {
		return "", err
	}
	p, err := h.Find(context.Background(), cfg.Path)
	if err == nil {
		_, err = Package.Advice(p)
	}
	if err != nil {
		return "", err
	}
	user := userHome(h.Getenv)
	mine, err := userSettings(user)
	if err != nil {
		return "", err
	}
	if err := cfg.checkServers(mine, user); err != nil {
		return "", err
	}
	if cfg.Endpoint == nil && !cfg.Replay {
		login, err := h.login(context.Background(), p, cfg, mine)
		if err != nil {
			return "", err
		}
		if !login.OK {
			return "", fmt.Errorf("Codex cannot reach its model: %s; %s", login.Text, login.Do) //lint:ignore ST1005 a name
		}
	}
	if !cfg.Global {
		return "", nil
	}
	return globalInstructions(user)
}

var (
	_ agent.Continuer = (*Agent)(nil)
	_ agent.Forker    = (*Agent)(nil)
	_ agent.Shaper    = (*Agent)(nil)
	_ agent.Homed     = (*Agent)(nil)
	_ agent.Continuer = (*ExecAgent)(nil)
	_ agent.Forker    = (*ExecAgent)(nil)
	_ agent.Shaper    = (*ExecAgent)(nil)
	_ agent.Homed     = (*ExecAgent)(nil)
)

// maxPrompt is how many characters Codex takes in a turn.
const maxPrompt = 1 << 20

// MaxPrompt returns how many characters a prompt may have.
func (i installed) MaxPrompt() int { return maxPrompt }

// SessionHome returns the CODEX_HOME of a task.
func (i installed) SessionHome(home string) string { return homeLink(home) }

// Continues reports whether the session's rollout is in the task's home.
func (i installed) Continues(req agent.Request) bool {
	return req.Session != "" && findRollout(codexHome(req.Home), req.Session) != ""
}

// SessionFiles returns the rollouts that are needed to continue a session.
func (i installed) SessionFiles(home, session string) (string, []string) {
	return sessionFiles(home, session)
}

// Forks reports whether the other session's rollout exists and can be copied.
func (i installed) Forks(req agent.Request) bool {
	return req.From != nil && req.From.Turn != "" && findRollout(codexHome(req.From.Home), req.From.Session) != ""
}

// Shapes reports whether a schema can be put into the strict form that models require.
func (i installed) Shapes(schema json.RawMessage) bool {
	_, err := shape.Strict(schema)
	return err == nil
}

// Steers reports true: what people add reaches the current turn.
func (a *Agent) Steers() bool { return true }

// stopFailure returns the failure of an attempt whose context ended.
func stopFailure(ctx context.Context) *agent.Failure {
	return &agent.Failure{Kind: agent.Cancelled, Message: "Codex was stopped: the attempt was cancelled (" +
		context.Cause(ctx).Error() + ")"}
}
