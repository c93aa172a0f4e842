package acp

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/agent/gateway"
	"github.com/plait-run/plait/internal/agent/host"
)

// Find looks for an agent: at path if that is not empty, otherwise in PATH and then in its CacheDir.
// It asks the agent for its version. Errors: *host.MissingError.
func Find(ctx context.Context, h *host.Host, k Kind, path string) (host.Program, error) {
	if k.NPM == "" { // found by its command
		found, err := h.Look(k.Title)
		if err != nil {
			return host.Program{}, fmt.Errorf("find the agent %q: %w; correct its command", k.Title, err)
		}
		return host.Program{Line: []string{found}, Path: found}, nil
	}
	return h.Find(ctx, k.Package, path, func(home string) map[string]string {
		env := map[string]string{}
		for name, value := range k.Env {
			env[name] = k.fill(value, home, "", "", "")
		}
		return env
	})
}

// fill replaces the words in braces in one of a kind's texts, such as {home}.
func (k Kind) fill(text, home, url, token, model string) string {
	return strings.NewReplacer("{home}", home, "{url}", url, "{token}", token, "{model}", model,
		"{cache}", filepath.Join(k.CacheDir(), "unpacked")).Replace(text)
}

// keys are the environment variables for each API, and the default URL.
var keys = map[string]struct{ key, url, vendor string }{
	Messages:  {"ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "https://api.anthropic.com"},
	Responses: {"OPENAI_API_KEY", "OPENAI_BASE_URL", "https://api.openai.com/v1"},
	Chat:      {"OPENAI_API_KEY", "OPENAI_BASE_URL", "https://api.openai.com/v1"},
	Gemini:    {"GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL", "https://generativelanguage.googleapis.com"},
}

// Login returns how an agent reaches its model: with its own login if one is passed to it,
// otherwise through the first of its routes that has a key. The route is nil for its own way.
func Login(h *host.Host, k Kind, c Config) (host.Login, *Route) {
	get := func(name string) string { return cmp.Or(c.Env[name], h.Getenv(name)) }
	for i, r := range k.Routes {
		if c.Endpoint != "" {
			up, err := url.Parse(c.Endpoint)
			return host.Login{OK: err == nil, Text: "with its own endpoint", Upstream: &gateway.Upstream{URL: up}},
				&k.Routes[i]
		}
		at := keys[r.API]
		key, base := get(at.key), cmp.Or(get(at.url), at.vendor)
		if key == "" || passes(h, k, c) != "" {
			continue
		}
		up, err := host.Address(base)
		if err != nil {
			return host.Login{Text: err.Error(), Do: "correct " + at.url}, nil
		}
		if c.Model == "" {
			return host.Login{Text: k.Title + " must be told which model to ask by the key in " + at.key,
				Do: "set model: in the agent's definition"}, nil
		}
		switch r.API {
		case Messages:
			up = up.JoinPath("v1")
		case Gemini:
			up = up.JoinPath("v1beta")
		}
		return host.Login{OK: true, Text: "by the key in " + at.key, Upstream: &gateway.Upstream{URL: up, Key: key,
			Bearer: r.API != Messages && r.API != Gemini, Google: r.API == Gemini}}, &k.Routes[i]
	}
	return ownLogin(h, k, c), nil
}

// ownLogin returns the login of an agent that reaches its model by itself.
func ownLogin(h *host.Host, k Kind, c Config) host.Login {
	name := passes(h, k, c)
	switch {
	case name != "":
		return host.Login{OK: true, Text: "by " + name + ", directly; usage is as reported by the agent"}
	case k.NPM == "":
		return host.Login{OK: true, Text: "by itself, directly; usage is as reported by the agent"}
	}
	var names []string
	for _, r := range k.Routes {
		names = append(names, keys[r.API].key)
	}
	do := "set " + strings.Join(slices.Compact(names), " or ")
	if len(names) == 0 {
		do = "set " + k.Tokens[0] + " and name it in pass: of the agent's definition"
	} else {
		do += ", or try it with --offline"
	}
	return host.Login{Text: k.Title + " has no key for a model", Do: do}
}

// passes returns the variable with the agent's own login that the user passes to it, "" for
// none.
func passes(h *host.Host, k Kind, c Config) string {
	for _, name := range k.Tokens {
		if c.Env[name] != "" || slices.Contains(c.Pass, name) && h.Getenv(name) != "" {
			return name
		}
	}
	return ""
}
