package agent

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
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

// maxLinks is how many links are followed in one path.
const maxLinks = 255

// Target returns the file to which an absolute path leads. It follows all links, also those whose target does not
// exist: whoever writes there creates it.
func Target(name string) (string, error) {
	at, links := string(filepath.Separator), 0
	rest := strings.Split(name, string(filepath.Separator))
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		if part == "" || part == "." {
			continue
		}
		next := filepath.Join(at, part) // at has no links, so that .. is its parent
		to, err := os.Readlink(next)
		if err != nil {
			at = next // no link
			continue
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("follow %s: over %d links", name, maxLinks)
		}
		if filepath.IsAbs(to) {
			at = string(filepath.Separator)
		}
		rest = append(strings.Split(to, string(filepath.Separator)), rest...)
	}
	return at, nil
}
