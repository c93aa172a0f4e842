package config

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/yamldoc"
)

// Discards returns the names of ignored files and directories that may be lost with a worktree: what tools fetch or
// compute again, and what the settings name. What people call build, dist or out is not among the former.
func (s *Settings) Discards() []string {
	return append([]string{
		"node_modules", "bower_components", ".npm", ".yarn", ".pnpm-store", ".parcel-cache", ".turbo", ".vite", ".next", ".nuxt",
		".svelte-kit", ".angular", ".eslintcache", ".stylelintcache", "*.tsbuildinfo",
		"__pycache__", "*.pyc", "*.pyo", ".venv", "venv", ".tox", ".nox", ".eggs", "*.egg-info", ".pytest_cache", ".mypy_cache",
		".ruff_cache", ".hypothesis", ".ipynb_checkpoints",
		"target", ".gradle", ".bloop", ".metals", ".dart_tool", ".stack-work", "dist-newstyle", ".zig-cache", "zig-cache",
		"elm-stuff", ".bundle", ".terraform", ".cache", ".ccache", ".sass-cache", ".DS_Store", "Thumbs.db",
	}, s.Discard.V...)
}

// worktree reads worktree. The discard lists of both files apply.
func (s *Settings) worktree(file string, val *yaml.Node) []flow.Problem {
	if val.Kind != yaml.MappingNode {
		return wrongType(file, val, "worktree must be a mapping")
	}
	entries, problems := pairs(file, val)
	for _, p := range entries {
		var list []string
		from := fmt.Sprintf("%s:%d", file, p.Key.Line)
		switch p.Key.Value {
		case "setup":
			if p.Value.Decode(&list) != nil {
				problems = append(problems, wrongType(file, p.Value,
					"worktree.setup must be a list of a program and its arguments")...)
				continue
			}
			s.Setup = Value[[]string]{list, from}
		case "discard":
			err := p.Value.Decode(&list)
			for i := range list {
				list[i] = strings.TrimSuffix(list[i], "/")
			}
			if err != nil || slices.ContainsFunc(list, func(n string) bool { return !isPattern(n) }) {
				problems = append(problems, wrongType(file, p.Value, "worktree.discard must be a list of names or relative "+
					"paths, such as dist, *.log or web/cache")...)
				continue
			}
			s.Discard = Value[[]string]{slices.Concat(s.Discard.V, list), from}
		default:
			problems = append(problems, problem(file, "UNKNOWN_KEY", yamldoc.Errorf(p.Key,
				"unknown key %q: use discard or setup", p.Key.Value)))
		}
	}
	return problems
}

// isPattern reports whether worktree.discard can have a pattern.
func isPattern(p string) bool {
	_, err := path.Match(p, "")
	return err == nil && path.Clean(p) == p && p != "." && p != ".." && !strings.HasPrefix(p, "/") && !strings.HasPrefix(p, "../")
}
