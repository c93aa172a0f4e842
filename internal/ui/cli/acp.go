package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/acp"
	"github.com/plait-run/plait/internal/agent/host"
	"github.com/plait-run/plait/internal/agent/sandbox"
	"github.com/plait-run/plait/internal/agent/scripted"
	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/flow"
)

// newACP makes an agent that uses the Agent Client Protocol.
func (a *app) newACP(def flow.Agent, o control.AgentOptions) (agent.Agent, error) {
	address, err := a.modelAddress(o)
	if err != nil {
		return nil, err
	}
	cfg := acp.Config{Kind: def.Agent, Command: def.Command, Model: def.Model, Path: program(def, o.Workspace),
		Terms: a.terms(def), Endpoint: address}
	if o.Offline != "" {
		cfg.Model = scripted.Model
	}
	host, err := a.acpHost()
	if err != nil {
		return nil, err
	}
	return host.Agent(cfg)
}

// acpHost returns the host of agents that use the protocol, one for all.
func (a *app) acpHost() (*acp.Host, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.acp == nil {
		cfg, bin, err := a.sandboxConfig()
		if err != nil {
			return nil, err
		}
		a.acp = acp.NewHost(acp.HostConfig{Config: cfg, Deliver: []string{bin, deliverAnswer}})
	}
	return a.acp, nil
}

// sandboxConfig returns the sandbox settings of agents that Plait itself confines. bin is the path of plait.
func (a *app) sandboxConfig() (cfg sandbox.Config, bin string, err error) {
	if bin, err = os.Executable(); err != nil {
		return cfg, "", fmt.Errorf("find plait: %w", err)
	}
	cfg = sandbox.Config{Getenv: a.secret, Cell: a.cell, Forward: []string{bin, gatewayForward}}
	if home, err := a.findHome(); err == nil {
		cfg.Hide = []string{home}
	}
	return cfg, bin, nil
}

// deliverCmd serves the tool by which an agent submits its answer. It is not meant for users.
func (a *app) deliverCmd() *cobra.Command {
	return &cobra.Command{
		Use: deliverAnswer + " OFFERED HANDED", Hidden: true, Args: exactly(2, "two files"),
		Short: "Serve the tool with which an agent submits its answer",
		RunE: func(cmd *cobra.Command, args []string) error {
			return acp.Deliver(cmd.Context(), args[0], args[1], os.Stdin, os.Stdout)
		},
	}
}

const deliverAnswer = "deliver-answer"

// examineACP looks for the known agents of the protocol, and lists those that are not installed. named are those that
// settings name.
func (a *app) examineACP(ctx context.Context, named map[string]bool) []Finding {
	h := acp.NewHost(acp.HostConfig{Config: sandbox.Config{Getenv: a.secret}})
	var out []Finding
	var absent []string
	for _, k := range acp.Kinds {
		p, err := h.Find(ctx, k, "")
		var missing *host.MissingError
		switch {
		case errors.As(err, &missing) && !named[k.Name]:
			absent = append(absent, k.Name)
			continue
		case err != nil:
			out = append(out, needed(named[k.Name], []Finding{{What: k.Name, Text: err.Error(), Warning: true}})...)
			continue
		}
		found := Finding{What: k.Name, OK: true, Text: p.Version + ", " + p.Path}
		if warning := k.Advice(p); warning != "" {
			found.OK, found.Warning, found.Do = false, true, warning+"; "+k.Install()
		}
		login := h.Login(k, acp.Config{Model: "any"})
		out = append(out, needed(named[k.Name], []Finding{found,
			{What: k.Name + " login", OK: login.OK, Warning: !login.OK, Text: login.Text, Do: login.Do}})...)
	}
	if len(absent) > 0 {
		out = append(out, Finding{What: "other agents", OK: true, Text: "not installed: " + strings.Join(absent, ", "),
			Do: "to use one, install its package; see docs/acp.md"})
	}
	return out
}
