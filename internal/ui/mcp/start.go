package mcp

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/parse"
)

// StartedBy marks, in the options of a task, that it was started through MCP.
const StartedBy = "mcp"

// defaultFlow is the flow to start if none is named: a model plans, and agents carry out the
// plan.
const defaultFlow = "orchestrate"

type flowLine struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	From        string `json:"from" jsonschema:"built-in, or registry: a person has added it"`
}

type flowList struct {
	Flows []flowLine `json:"flows"`
}

func (s *Server) listFlows(ctx context.Context, _ *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, flowList, error) {
	list := flowList{Flows: []flowLine{}}
	kept, err := s.cfg.Views.Flows(ctx)
	if err != nil {
		return nil, list, err
	}
	for _, f := range kept {
		list.Flows = append(list.Flows, flowLine{f.Name, f.Description, "registry"})
	}
	for _, name := range parse.BuiltIns() {
		if d, ok := parse.BuiltIn(name); ok && name != flow.ChatFlow && name != flow.WorkerFlow {
			list.Flows = append(list.Flows, flowLine{name, d.Description, "built-in"})
		}
	}
	return nil, list, nil
}

type startArgs struct {
	Prompt string `json:"prompt" jsonschema:"what is to be done, with all that the agents have to know: they do not see this conversation"`
	Flow   string `json:"flow,omitempty" jsonschema:"a name from list_flows; default orchestrate: a planner and a team of agents"`
}

// startTask starts a task and hands it to the driver.
func (s *Server) startTask(ctx context.Context, _ *sdk.CallToolRequest, args startArgs) (*sdk.CallToolResult, taskStatus, error) {
	fail := func(err error) (*sdk.CallToolResult, taskStatus, error) { return nil, taskStatus{}, err }
	name := args.Flow
	if name == "" {
		name = defaultFlow
	}
	if strings.TrimSpace(args.Prompt) == "" {
		return fail(errors.New("prompt is empty: say what to do"))
	}
	// A name is never used as a file path.
	if ext := path.Ext(name); !flow.IsName(name) || ext == ".yaml" || ext == ".yml" {
		return fail(fmt.Errorf("%q is not the name of a flow: list_flows has the names", name))
	}
	found, err := s.cfg.Control.Find(ctx, s.cfg.Workspace, name)
	if err != nil {
		return fail(err)
	}
	if err := s.cfg.Consent(found); err != nil {
		return fail(err)
	}
	if err := s.cfg.Init(); err != nil {
		return fail(err)
	}
	root, err := s.cfg.Control.Begin(ctx, control.Spec{Bundle: found.Bundle, Prompt: args.Prompt,
		Workspace: s.cfg.Workspace,
		Options:   control.Options{StartedBy: StartedBy, Offline: s.cfg.Offline(found.Bundle.Name)}})
	if err != nil {
		return fail(err)
	}
	if err := s.cfg.Driver.Drive(ctx, root); err != nil {
		return fail(fmt.Errorf("task %s was created but could not be started: %w; your user can: plait resume %s",
			root.Short, err, root.Short))
	}
	v, err := s.status(ctx, root)
	return nil, v, err
}
