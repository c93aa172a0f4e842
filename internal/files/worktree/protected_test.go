package worktree

import "testing"

func TestProtected(t *testing.T) {
	for name, want := range map[string]bool{
		".git/hooks/pre-commit": true, ".Git/hooks/x": true, "sub/.git/config": true, ".gitmodules": true,
		".github/workflows/ci.yaml": true,
		".plait/config.yaml":        true, ".PLAIT/flows/f.yaml": true, "a/../.workflows/f.yaml": true,
		".codex/config.toml": true, ".claude/settings.json": true, "sub/CLAUDE.md": true, ".mcp.json": true,
		"AGENTS.md": true, "docs/agents.md": true, "AGENTS.override.md": true,
		"main.go": false, "git/x": false, "agents.md.txt": false, "plait/x": false, ".": false,
	} {
		if got := Protected(name); got != want {
			t.Errorf("Protected(%q) = %t", name, got)
		}
	}
}
