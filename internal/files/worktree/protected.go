package worktree

import (
	"path"
	"strings"
)

// Protected reports whether a file of a working tree is one from which Plait, git or an agent
// takes programs or instructions, so that a person must approve its change. name is a
// slash-separated path in the tree. Case is ignored, as on some file systems.
func Protected(name string) bool {
	for part := range strings.SplitSeq(path.Clean(name), "/") {
		switch part = strings.ToLower(part); {
		case part == ".plait", part == ".workflows", part == ".codex", part == "agents.md",
			part == "agents.override.md", part == ".claude", part == "claude.md", part == "claude.local.md", part == ".mcp.json",
			strings.HasPrefix(part, ".git"):
			return true
		}
	}
	return false
}
