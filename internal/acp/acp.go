// Package acp is the agent kind acp: any agent that speaks the Agent Client Protocol, version 1
// (https://agentclientprotocol.com), on its standard input and output.
//
// In go a definition and a Request; out come events, in one normalised form, and a Result. How agents
// differ is data: see [Kinds]. Laws:
//
//   - The modes and options by which an agent asks are set after each session/new, load and resume: some begin with
//     a model that approves.
//   - Its model is reached through a gateway where the agent can be pointed elsewhere: the key stays with Plait.
//   - Behind a wall (see package sandbox) the role's access is enforced for all that it runs, and what stays
//     behind the wall is not asked for. Without one each command and each change is asked for, and an agent that
//     does not ask is not started.
//   - Each byte that it says is in the desk's logs before it is understood. What is not understood is kept and
//     passed over.
//   - When Run returns, no process of the attempt is left: agents' children have sessions of their own, and
//     are found by their tag.
//   - What an agent hands back by the tool deliver is its answer; see [Deliver].
//
// The files and terminals of the client are not offered: an agent uses its own, behind the wall.
package acp

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/sandbox"
)

// A Config is the definition of one agent.
type Config struct {
	Kind    string   // the name of one of [Kinds], or ""
	Command []string // the command line of any other
	Model   string
	Path    string            // the program, or the directory it was installed to; "" looks for it
	Dir     string            // relative to the request's directory, inside it
	Env     map[string]string // further variables
	Pass    []string          // names of Plait's own variables to pass to it
	Write   []string          // directories that it may write beyond the role's access, absolute
	Network bool              // its commands may use the network
	// Endpoint is the base of the API where its model is, with the version; "" for its vendor's own.
	Endpoint string
}

// A HostConfig says where agents run.
type HostConfig struct {
	sandbox.Config
	// Deliver is the command line that serves [Deliver]: the files are added. Nil: answers are taken from texts.
	Deliver []string
	Grace   time.Duration // how long an agent may take to end by itself, 0: 2.5 s
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
	if cfg.Grace == 0 {
		cfg.Grace = 2500 * time.Millisecond
	}
	return &Host{cfg: cfg, box: sandbox.NewHost(cfg.Config), versions: map[string]string{}}
}

// An Agent runs one agent of the protocol. It may be used concurrently.
type Agent struct {
	host *Host
	cfg  Config
	kind Kind
}

var (
	_ agent.Continuer  = (*Agent)(nil)
	_ agent.Instructed = (*Agent)(nil)
	_ agent.Homed      = (*Agent)(nil)
	_ agent.Shaper     = (*Agent)(nil)
)

// Agent checks cfg and returns its agent. That the program is not there, or cannot reach its model, is
// an error: it is found before anything is begun.
func (h *Host) Agent(cfg Config) (*Agent, error) {
	if cfg.Dir != "" && !filepath.IsLocal(cfg.Dir) {
		return nil, fmt.Errorf("acp agent: dir %q leaves the working tree", cfg.Dir)
	}
	kind, err := kindOf(cfg)
	if err != nil {
		return nil, err
	}
	if _, err = h.Find(context.Background(), kind, cfg.Path); err != nil {
		return nil, err
	}
	if login := h.Login(kind, cfg); !login.OK {
		return nil, fmt.Errorf("%s: %s", login.Text, login.Do)
	}
	return &Agent{h, cfg, kind}, nil
}

// Continues reports whether the session was opened in the task's home, and can be loaded by now.
func (a *Agent) Continues(req agent.Request) bool {
	if req.Session == "" {
		return false
	}
	info, err := os.Stat(a.mark(req.Home, req.Session))
	return err == nil && a.kept(req.Home, req.Session) && !(a.kind.LoadsLater && info.ModTime().Truncate(time.Minute).Equal(time.Now().Truncate(time.Minute)))
}

// kept reports whether the agent has written down a session: one that is killed early has not.
func (a *Agent) kept(home, session string) bool {
	if a.kind.Kept == "" {
		return true
	}
	name := strings.ReplaceAll(a.kind.Kept, "{id}", session)
	if !filepath.IsLocal(name) {
		return false
	}
	dir := a.SessionHome(home)
	files, err := fs.Glob(os.DirFS(dir), name)
	return err == nil && slices.ContainsFunc(files, func(file string) bool {
		info, err := os.Stat(filepath.Join(dir, filepath.FromSlash(file)))
		return err == nil && info.Size() > 0
	})
}

// Instructions returns nothing: what a user tells an agent in all projects is not read.
func (a *Agent) Instructions() string { return "" }

// SessionHome returns the directory that has an agent's own state about a task.
func (a *Agent) SessionHome(home string) string { return filepath.Join(home, "acp-"+a.kind.Name) }

// Shapes reports whether an answer can be handed back by the tool deliver.
func (a *Agent) Shapes(schema json.RawMessage) bool {
	_, err := newDelivery(schema)
	return len(a.host.cfg.Deliver) > 0 && err == nil
}

// mark is the file that says that a session was opened in a home.
func (a *Agent) mark(home, session string) string {
	return filepath.Join(a.SessionHome(home), "plait-sessions", strings.Map(func(r rune) rune {
		if r == '/' || r == '\\' || r == 0 {
			return '_'
		}
		return r
	}, session))
}

// Run makes one attempt. See [agent.Agent].
func (a *Agent) Run(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
	if ctx.Err() != nil {
		return agent.Result{}, &agent.Failure{Kind: agent.Cancelled, Message: "the attempt was cancelled before it began"}
	}
	p, err := a.host.Find(ctx, a.kind, a.cfg.Path)
	if err != nil {
		return agent.Result{}, agent.Final("%v", err)
	}
	s, err := a.site(p, a.host.Login(a.kind, a.cfg), req)
	if err != nil {
		return agent.Result{}, err
	}
	defer s.close()
	return newTalk(s, req, emit).run(ctx)
}
