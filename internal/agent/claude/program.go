package claude

import (
	"cmp"
	"os"
	"path/filepath"

	"github.com/plait-run/plait/internal/agent/gateway"
	"github.com/plait-run/plait/internal/agent/host"
)

// anthropic is the URL of Anthropic's API.
const anthropic = "https://api.anthropic.com"

// Login returns how an agent reaches its model: with a key from the environment, otherwise with
// the login of the user's own Claude Code, which cannot go through a gateway.
func Login(h *host.Host, c Config) host.Login {
	get := func(name string) string { return cmp.Or(c.Env[name], h.Getenv(name)) }
	key, token := get("ANTHROPIC_API_KEY"), get("ANTHROPIC_AUTH_TOKEN")
	text, base := "with its own endpoint", c.Endpoint
	switch {
	case base != "":
		key, token = "", ""
	case key != "":
		text, token = "by the key in ANTHROPIC_API_KEY", ""
	case token != "":
		text = "by the token in ANTHROPIC_AUTH_TOKEN"
	default:
		if _, err := os.Stat(credentials(h)); err == nil {
			return host.Login{OK: true,
				Text: "by the login of Claude Code, directly; usage is as reported by the agent"}
		}
		return host.Login{Text: "Claude Code is not logged in",
			Do: "set ANTHROPIC_API_KEY, run `claude` and log in, or try it with --offline"}
	}
	up, err := host.Address(cmp.Or(base, get("ANTHROPIC_BASE_URL"), anthropic))
	if err != nil {
		return host.Login{Text: err.Error(), Do: "correct ANTHROPIC_BASE_URL"}
	}
	return host.Login{OK: true, Text: text, Upstream: &gateway.Upstream{URL: up.JoinPath("v1"), Key: cmp.Or(key, token),
		Bearer: token != ""}}
}

// credentials returns the file with the login of the user's own Claude Code.
func credentials(h *host.Host) string {
	dir := h.Getenv("CLAUDE_CONFIG_DIR")
	if dir == "" {
		dir = filepath.Join(h.Getenv("HOME"), ".claude")
	}
	return filepath.Join(dir, ".credentials.json")
}
