package claude

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/plait-run/plait/internal/agent/host"
)

// settings returns the settings of every home: nothing of a project or of the user. Calls of the
// user's servers need approval, even in a sandbox.
func settings(servers []string) string {
	s := map[string]any{"includeCoAuthoredBy": false, "cleanupPeriodDays": 3650}
	if len(servers) > 0 {
		ask := []string{}
		for _, name := range servers {
			ask = append(ask, "mcp__"+oddName.ReplaceAllString(name, "_"))
		}
		s["permissions"] = map[string]any{"ask": ask}
	}
	return strings.TrimSuffix(string(encode(s)), "\n")
}

// oddName matches what Claude Code replaces in the name of a server.
var oddName = regexp.MustCompile(`[^a-zA-Z0-9_-]`)

// userServers returns the named MCP servers from the user's own settings of Claude Code.
func userServers(h *host.Host, names []string) (map[string]any, error) {
	if len(names) == 0 {
		return nil, nil
	}
	file := filepath.Join(h.Getenv("HOME"), ".claude.json")
	if dir := h.Getenv("CLAUDE_CONFIG_DIR"); dir != "" {
		file = filepath.Join(dir, ".claude.json")
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("claude agent: read the MCP servers of Claude Code: %w", err)
	}
	var mine struct {
		Servers map[string]any `json:"mcpServers"`
	}
	if err := json.Unmarshal(data, &mine); err != nil {
		return nil, fmt.Errorf("claude agent: read the MCP servers in %s: %w", file, err)
	}
	chosen := map[string]any{}
	for _, name := range names {
		if chosen[name] = mine.Servers[name]; chosen[name] == nil {
			return nil, fmt.Errorf("claude agent: mcp names %q, and %s has none of that name; "+
				"add it with `claude mcp add -s user`", name, file)
		}
	}
	return chosen, nil
}

// mcp returns the command line arguments for MCP servers, and the variables that they refer to:
// values may be secret, so they are not on the command line or on disk.
func mcp(h *host.Host, servers map[string]any) (args, env []string) {
	if len(servers) == 0 {
		return nil, nil
	}
	hide := func(value string) string {
		name := "PLAIT_MCP_" + strconv.Itoa(len(env)+1)
		env = append(env, name+"="+expand(h, value))
		return "${" + name + "}"
	}
	var without func(v any, secret bool) any
	without = func(v any, secret bool) any {
		switch v := v.(type) {
		case string:
			if secret || strings.Contains(v, "${") {
				return hide(v)
			}
		case []any:
			list := make([]any, len(v))
			for i := range v {
				list[i] = without(v[i], secret)
			}
			return list
		case map[string]any:
			m := map[string]any{}
			for _, key := range slices.Sorted(maps.Keys(v)) {
				m[key] = without(v[key], secret || key == "env" || key == "headers")
			}
			return m
		}
		return v
	}
	list := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		list[name] = without(servers[name], false)
	}
	return []string{"--mcp-config", string(encode(map[string]any{"mcpServers": list}))}, env
}

var variable = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}`)

// expand replaces ${NAME} and ${NAME:-default} from the user's environment.
func expand(h *host.Host, text string) string {
	return variable.ReplaceAllStringFunc(text, func(m string) string {
		found := variable.FindStringSubmatch(m)
		if value := h.Getenv(found[1]); value != "" {
			return value
		}
		return found[2]
	})
}
