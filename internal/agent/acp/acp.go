// Package acp is the agent kind acp: any agent that speaks the Agent Client Protocol, version 1
// (https://agentclientprotocol.com), on its standard input and output.
//
// It turns session updates into events in one normalized form and a Result. The differences
// between agents are data: see [Kinds]. Laws:
//
//   - The modes and options that control approvals are set after each session/new, load and
//     resume: some agents begin in a mode that approves automatically.
//   - Its model is reached through a gateway if the agent can be configured for that: the key
//     stays with Plait.
//   - In a sandbox (see package sandbox) the role's access is enforced for everything it runs,
//     and nothing needs approval. Without a sandbox each command and each change does, and an
//     agent that does not ask is not started.
//   - Each byte of its output is in the desk's logs before it is parsed. Unknown messages are
//     logged and ignored.
//   - When Run returns, no process of the attempt is left: agents' children have their own
//     sessions, and are found by their tag.
//   - The answer is what an agent submits with the tool deliver; see [Deliver].
//
// The client's files and terminals are not offered: an agent uses its own, in the sandbox.
package acp

import (
	"context"
	"encoding/json"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/host"
)

// A Config is the definition of one agent.
type Config struct {
	Kind    string   // the name of one of [Kinds], or ""
	Command []string // the command line of any other agent
	Model   string
	Path    string // the program, or the directory it was installed to; "" looks for it
	host.Terms
	// Endpoint is the base URL of its model's API, with the version; "" for its vendor's own.
	Endpoint string
	// Deliver is the command line that serves [Deliver], to which the files are appended. Nil:
	// answers are taken from texts.
	Deliver []string
}

// grace is how long an agent may take to exit, unless its host says otherwise.
const grace = 2500 * time.Millisecond

// An Agent runs one agent of the protocol. It may be used concurrently.
type Agent struct {
	host *host.Host
	cfg  Config
	kind Kind
}

var (
	_ agent.Continuer  = (*Agent)(nil)
	_ agent.Instructed = (*Agent)(nil)
	_ agent.Homed      = (*Agent)(nil)
	_ agent.Shaper     = (*Agent)(nil)
)

// New checks cfg and returns its agent. It is an error if the program is not installed or
// cannot reach its model, so that this is found before anything starts.
func New(h *host.Host, cfg Config) (*Agent, error) {
	if err := cfg.Check("acp"); err != nil {
		return nil, err
	}
	kind, err := kindOf(cfg)
	if err != nil {
		return nil, err
	}
	if _, err = Find(context.Background(), h, kind, cfg.Path); err != nil {
		return nil, err
	}
	if login, _ := Login(h, kind, cfg); !login.OK {
		return nil, login.Err()
	}
	return &Agent{h, cfg, kind}, nil
}

// Instructions returns nothing: the user's instructions for an agent are not used.
func (a *Agent) Instructions() string { return "" }

// Shapes reports whether an answer can be submitted with the tool deliver.
func (a *Agent) Shapes(schema json.RawMessage) bool {
	_, err := newDelivery(schema)
	return len(a.cfg.Deliver) > 0 && err == nil
}

// Run makes one attempt. See [agent.Agent].
func (a *Agent) Run(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
	if ctx.Err() != nil {
		return agent.Result{}, &agent.Failure{Kind: agent.Cancelled, Message: "the attempt was cancelled before it began"}
	}
	p, err := Find(ctx, a.host, a.kind, a.cfg.Path)
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
