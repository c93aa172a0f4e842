package cli

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"github.com/plait-run/plait/internal/config"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/model"
)

// ollama is the default address of Ollama.
const ollama = "127.0.0.1:11434"

// examineModels reports on the model servers that the environment and the settings name. It calls no others.
func (a *app) examineModels(ctx context.Context) []Finding {
	agents := map[string]flow.Agent{"model": {Kind: "model"}}
	if dir, err := os.Getwd(); err == nil {
		if dir, err = config.Workspace(dir); err == nil {
			if s, err := config.Load(config.UserFile(), config.ProjectFile(dir), a.getenv); err == nil {
				for name, v := range s.Agents {
					agents[name] = v.V
				}
			}
		}
	}
	var out []Finding
	for _, name := range sortedKeys(agents) {
		if def := agents[name]; def.Kind == "model" {
			out = append(out, a.examineModel(ctx, name, def))
		}
	}
	if slices.ContainsFunc(out, func(f Finding) bool { return f.OK }) {
		return out
	}
	if c, err := net.DialTimeout("tcp4", ollama, 200*time.Millisecond); err == nil {
		c.Close()
		out = append(out, Finding{What: "ollama", Warning: true,
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
