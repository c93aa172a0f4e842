package cli

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/claude"
	"github.com/plait-run/plait/internal/agent/codex"
	"github.com/plait-run/plait/internal/agent/command"
	"github.com/plait-run/plait/internal/agent/gateway"
	"github.com/plait-run/plait/internal/agent/host"
	"github.com/plait-run/plait/internal/agent/model"
	"github.com/plait-run/plait/internal/agent/replay"
	"github.com/plait-run/plait/internal/agent/sandbox"
	"github.com/plait-run/plait/internal/agent/scripted"
	"github.com/plait-run/plait/internal/app/config"
	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/flow"
)

// newAgent makes an agent from its definition. A worker refuses a definition as its agent would: what the record has is
// not corrected by asking again, and people see why.
func (a *app) newAgent(_ string, def flow.Agent, o control.AgentOptions) (agent.Agent, error) {
	err := a.refuses(def, o)
	if err != nil && a.worker != "" {
		return agent.Refusing(err), nil
	}
	if err != nil {
		return nil, err
	}
	return a.makeAgent(def, o)
}

// refuses returns why a definition asks for what is not for agents, or nil.
func (a *app) refuses(def flow.Agent, o control.AgentOptions) error {
	for _, v := range def.Variables() {
		if !a.withholds(v.Name) {
			continue
		}
		is := "is"
		if strings.HasSuffix(v.Name, "*") {
			is = "includes what is"
		}
		return fmt.Errorf("%s: %s %s not given to agents: it belongs to %s's access to the record", v.Key, v.Name, is,
			a.program.Name)
	}
	if a.cell != nil && scripted.IsFile(o.Offline) {
		return fmt.Errorf("--offline: a worker reads no file for it: use one of %s", strings.Join(scripted.Names(), ", "))
	}
	return nil
}

// withholds reports whether a variable, or one that a pattern with * at its end may mean, gives access to the record.
func (a *app) withholds(name string) bool {
	begins, pattern := strings.CutSuffix(name, "*")
	return slices.ContainsFunc(a.program.Withheld, func(withheld string) bool {
		return strings.HasPrefix(begins, withheld) || pattern && strings.HasPrefix(withheld, begins)
	})
}

// makeAgent makes an agent from its definition. It is the only place that knows every kind.
func (a *app) makeAgent(def flow.Agent, o control.AgentOptions) (agent.Agent, error) {
	a.holdSecrets(def)
	switch def.Kind {
	case "command":
		cfg := command.Config{Command: def.Command, Dir: def.Dir, Env: def.Env, Pass: def.Pass, Exit: def.Exit}
		if o.Confined {
			h, err := a.agentHost()
			if err != nil {
				return nil, err
			}
			cfg.Host, cfg.Terms, cfg.Other = h, a.terms(def), flow.Unmet
			cfg.Env, cfg.Pass = cfg.Terms.Env, cfg.Terms.Pass
		}
		return command.New(cfg)
	case "replay":
		if a.cell != nil {
			return replay.Inside(def.Recording), nil
		}
		file := def.Recording
		if !filepath.IsAbs(file) {
			file = filepath.Join(o.Workspace, filepath.FromSlash(file))
		}
		rec, err := replay.Load(file)
		if err != nil {
			return nil, err
		}
		return replay.New(rec)
	case "acp":
		return a.newACP(def, o)
	case "claude":
		return a.newClaude(def, o)
	case "model":
		return a.newModel(def, o)
	case "codex", "codex-exec":
		cfg := codex.Config{
			Model: def.Model, Effort: def.Effort, Path: program(def, o.Workspace), Dir: def.Dir, Config: def.Config,
			Env: def.Env, Pass: def.Pass, MCP: def.MCP, Global: def.Global, Replay: o.Replay,
		}
		if granted := def.Sandbox; granted != nil {
			cfg.Sandbox = codex.Sandbox{Network: granted.Network == flow.NetworkOn, Env: granted.Env, Pass: granted.Pass}
			cfg.Sandbox.Write = a.places(granted.Write)
		}
		if o.Offline != "" {
			address, err := a.modelAddress(o)
			if err != nil {
				return nil, err
			}
			cfg.Endpoint = &codex.Endpoint{URL: address, Model: scripted.Model, Catalog: scripted.Catalog()}
		}
		h, err := a.codexHost()
		if err != nil {
			return nil, err
		}
		if def.Kind == "codex-exec" {
			return h.ExecAgent(cfg)
		}
		return h.Agent(cfg)
	}
	return nil, fmt.Errorf("unknown kind %q: use acp, claude, codex, codex-exec, command, model or replay", def.Kind)
}

// modelAddress returns the address of the models of --offline, "" if agents ask their own. For a replay it is an
// address where nothing listens: the record answers every request.
func (a *app) modelAddress(o control.AgentOptions) (string, error) {
	switch {
	case o.Replay:
		return "http://127.0.0.1:1/v1", nil
	case o.Offline == "":
		return "", nil
	}
	s, err := a.openEndpoint(o.Offline)
	if err != nil {
		return "", err
	}
	return s.URL(), nil
}

// newClaude makes an agent that is Claude Code.
func (a *app) newClaude(def flow.Agent, o control.AgentOptions) (agent.Agent, error) {
	address, err := a.modelAddress(o)
	if err != nil {
		return nil, err
	}
	h, err := a.agentHost()
	if err != nil {
		return nil, err
	}
	return claude.New(h, claude.Config{Model: def.Model, Effort: def.Effort, Path: program(def, o.Workspace),
		Terms: a.terms(def), MCP: def.MCP, Endpoint: strings.TrimSuffix(address, "/v1")})
}

// newModel makes an agent that is a model alone.
func (a *app) newModel(def flow.Agent, o control.AgentOptions) (agent.Agent, error) {
	cfg := model.Config{URL: def.URL, API: def.API, Model: def.Model, KeyEnv: def.KeyEnv, MaxTurns: def.MaxTurns,
		Extra: def.Config, Terms: a.terms(def)}
	address, err := a.modelAddress(o)
	if err != nil {
		return nil, err
	}
	if address != "" {
		cfg.URL, cfg.KeyEnv = address, ""
	}
	if o.Offline != "" {
		cfg.Model = scripted.Model
	}
	h, err := a.agentHost()
	if err != nil {
		return nil, err
	}
	return model.New(h, cfg)
}

// terms returns what a definition grants to an agent that Plait itself confines, including the sandbox as widened by a
// person.
func (a *app) terms(def flow.Agent) host.Terms {
	t := host.Terms{Dir: def.Dir, Env: map[string]string{}, Pass: slices.Clone(def.Pass)}
	maps.Copy(t.Env, def.Env)
	if granted := def.Sandbox; granted != nil {
		t.Write, t.Network = a.places(granted.Write), granted.Network == flow.NetworkOn
		t.Pass = append(t.Pass, granted.Pass...)
		maps.Copy(t.Env, granted.Env)
	}
	return t
}

// program returns the path of the program that a definition names, "" for none.
func program(def flow.Agent, workspace string) string {
	if def.Path == "" || filepath.IsAbs(def.Path) {
		return def.Path
	}
	return filepath.Join(workspace, filepath.FromSlash(def.Path))
}

// places returns the paths of a definition, with a leading ~/ expanded.
func (a *app) places(list []string) []string {
	var out []string
	for _, place := range list {
		if below, ok := strings.CutPrefix(place, "~/"); ok {
			place = filepath.Join(a.getenv("HOME"), below)
		}
		out = append(out, filepath.FromSlash(place))
	}
	return out
}

// agentHost returns where the programs of agents run, one for all kinds.
func (a *app) agentHost() (*host.Host, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.host == nil {
		bin, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find plait: %w", err)
		}
		// Only what is there can be hidden, and the log key may be made while agents work. Without the directory there
		// is no key either.
		_ = os.MkdirAll(config.UserDir(), 0o700)
		cfg := sandbox.Config{Getenv: a.secret, Cell: a.cell, Forward: []string{bin, gatewayForward},
			Hide: []string{config.UserDir()}}
		if home, err := a.findHome(); err == nil {
			cfg.Hide = append(cfg.Hide, home)
		}
		a.host = host.New(host.Config{Config: cfg})
	}
	return a.host, nil
}

// codexHost returns what Codex's agents share.
func (a *app) codexHost() (*codex.Host, error) {
	h, err := a.agentHost()
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.codex == nil {
		a.codex = codex.NewHost(h)
	}
	return a.codex, nil
}

// forwardCmd starts an agent in a sandbox. It is not meant for users.
func (a *app) forwardCmd() *cobra.Command {
	return &cobra.Command{
		Use: gatewayForward + " SOCKET PROGRAM [ARG...]", Hidden: true, DisableFlagParsing: true,
		Short: "Run a program that can reach only its model",
		Args:  cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			code, err := gateway.Forward(cmd.Context(), args[0], args[1], args[2:])
			a.code = code
			return err
		},
	}
}

const gatewayForward = "gateway-forward"
