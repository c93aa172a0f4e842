package web

import (
	"context"
	_ "embed"
	"encoding/json"
	"net/http"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/parse"
	"github.com/plait-run/plait/internal/record/thread"
)

// The demo with Codex: a flow, which is also the name of its model's scenario, and a prompt.
const (
	demoFlow   = "orchestrate"
	demoPrompt = "Look at this project and report what is in it"
)

// demoPrograms is the flow of the demo without Codex: the same work, but done by programs.
//
//go:embed demo.yaml
var demoPrograms []byte

// beginDemo starts the demo. It needs no consent, since its commands are Plait's own.
func (s *Server) beginDemo(r *http.Request) (any, error) {
	if s.cfg.Demo == nil {
		return nil, notFound("no demo is offered here")
	}
	ctx := context.WithoutCancel(r.Context())
	spec := control.Spec{Prompt: demoPrompt, Workspace: s.cfg.Workspace}
	if s.cfg.Demo.Codex {
		found, err := s.findFlow(ctx, demoFlow)
		if err != nil {
			return nil, err
		}
		spec.Bundle, spec.Options = found.Bundle, control.Options{Agent: "codex", Offline: demoFlow}
		return s.beginAndDrive(ctx, spec)
	}
	def, problems := parse.Parse(nil, "demo.yaml", demoPrograms)
	if flow.Failed(problems) {
		return nil, &flow.InvalidError{Problems: problems}
	}
	data, err := json.Marshal(def)
	if err != nil {
		return nil, err
	}
	spec.Bundle = thread.Bundle{Name: def.Name, Flows: map[string]json.RawMessage{def.Name: data}}
	return s.beginAndDrive(ctx, spec)
}
