package cli

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/plait-run/plait/internal/agent/model"
	"github.com/plait-run/plait/internal/flow"
)

// ollama is the default address of Ollama.
const ollama = "127.0.0.1:11434"

// examineModels reports on the model servers that the environment and the settings name. It calls no others.
func (a *app) examineModels(ctx context.Context, agents map[string]flow.Agent, named map[string]bool) []Finding {
	var out []Finding
	for _, name := range slices.Sorted(maps.Keys(agents)) {
		if def := agents[name]; def.Kind == "model" {
			out = append(out, needed(named[name], []Finding{a.examineModel(ctx, name, def)})...)
		}
	}
	if slices.ContainsFunc(out, func(f Finding) bool { return f.OK && !f.Unused }) {
		return out
	}
	if c, err := net.DialTimeout("tcp4", ollama, 200*time.Millisecond); err == nil {
		c.Close()
		out = append(out, Finding{What: "ollama", OK: true, Unused: true,
			Text: "something listens at " + ollama + "; it is used only if an agent says so",
			Do:   "set OPENAI_BASE_URL=http://" + ollama + "/v1 and OPENAI_MODEL, or url: and model: of an agent of kind model"})
	}
	return out
}

// examineModel checks one agent.
func (a *app) examineModel(ctx context.Context, name string, def flow.Agent) Finding {
	f := Finding{What: "model", Warning: true}
	if name != "model" {
		f.What = name
	}
	a.holdSecrets(def)
	h := a.modelHost()
	s, err := h.Find(model.Config{URL: def.URL, API: def.API, Model: def.Model, KeyEnv: def.KeyEnv})
	if err != nil {
		f.Text, f.Do = err.Error(), "flows with agents of kind model need a server and its key; see docs/model.md"
		return f
	}
	if err := h.Check(ctx, s); err != nil {
		f.Text = err.Error()
		return f
	}
	f.OK, f.Warning, f.Text = true, false, fmt.Sprintf("%s at %s (%s)", s.Model, s.URL, s.API)
	return f
}
