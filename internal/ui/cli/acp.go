package cli

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/acp"
	"github.com/plait-run/plait/internal/agent/host"
	"github.com/plait-run/plait/internal/agent/scripted"
	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/flow"
)

// newACP makes an agent that uses the Agent Client Protocol.
func (a *app) newACP(def flow.Agent, o control.AgentOptions) (agent.Agent, error) {
	h, err := a.agentHost()
	if err != nil {
		return nil, err
	}
	address, err := a.modelAddress(o)
	if err != nil {
		return nil, err
	}
	cfg := acp.Config{Kind: def.Agent, Command: def.Command, Model: def.Model, Path: program(def, o.Workspace),
		Terms: a.terms(def), Endpoint: address, Deliver: []string{h.Forward[0], deliverAnswer}}
	if o.Offline != "" {
		cfg.Model = scripted.Model
	}
	return acp.New(h, cfg)
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
	h, err := a.agentHost()
	if err != nil {
		return []Finding{{What: "agents", Text: err.Error()}}
	}
	var out []Finding
	var absent []string
	for _, k := range acp.Kinds {
		p, err := acp.Find(ctx, h, k, "")
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
		if warning, _ := k.Advice(p); warning != "" { // none is too old
			found.OK, found.Warning, found.Do = false, true, warning+"; "+k.Install()
		}
		login, _ := acp.Login(h, k, acp.Config{Model: "any"})
		out = append(out, needed(named[k.Name], []Finding{found,
			{What: k.Name + " login", OK: login.OK, Warning: !login.OK, Text: login.Text, Do: login.Do}})...)
	}
	if len(absent) > 0 {
		out = append(out, Finding{What: "other agents", OK: true, Text: "not installed: " + strings.Join(absent, ", "),
			Do: "to use one, install its package; see docs/acp.md"})
	}
	return out
}
