package cli

import (
	"cmp"
	"encoding/json"
	"path/filepath"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/flow"
)

// othersFiles are what a project can have for agents that Plait gives to none of them.
var othersFiles = []string{".claude/settings.json", ".claude/settings.local.json", ".claude/skills", ".claude/commands",
	".mcp.json", ".codex/skills", ".github/copilot-instructions.md", "GEMINI.md", ".cursorrules"}

// unread names the files for agents in a workspace that no agent of a task is given.
func (w *workplace) unread(f control.Found, o control.Options) (files []string) {
	names := othersFiles
	if !w.usesClaude(f, o) {
		names = append([]string{"CLAUDE.md"}, names...)
	}
	for _, name := range names {
		if exists(filepath.Join(w.workspace, filepath.FromSlash(name))) {
			files = append(files, name)
		}
	}
	return files
}

// usesClaude reports whether Claude Code does a role of a task, as far as the flow and its options say.
func (w *workplace) usesClaude(f control.Found, o control.Options) bool {
	for _, data := range f.Bundle.Flows {
		var def struct{ Roles map[string]flow.Role }
		if json.Unmarshal(data, &def) != nil {
			continue
		}
		for role, r := range def.Roles {
			name := cmp.Or(o.Roles[role], o.Agent)
			if name == "" && r.Agent != nil {
				if r.Agent.Inline != nil && r.Agent.Inline.Kind == "claude" {
					return true
				}
				name = r.Agent.Name
			}
			name = cmp.Or(name, w.settings.Default.V)
			if kind := w.settings.Agents[name].V.Kind; cmp.Or(kind, name) == "claude" {
				return true
			}
		}
	}
	return false
}
