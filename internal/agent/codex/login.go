package codex

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/agent/host"
	"github.com/plait-run/plait/internal/sys/proc"
)

// apiKey is the variable in which Codex looks for the key of an account.
const apiKey = "CODEX_API_KEY"

// Login asks a program whether it can reach the model that its user has chosen: by a login, or
// by a key in CODEX_API_KEY or in the variable that the model's provider names.
func (h *Host) Login(ctx context.Context, p host.Program) (host.Login, error) {
	mine, err := userSettings(userHome(h.Getenv))
	if err != nil {
		return host.Login{}, err
	}
	return h.login(ctx, p, Config{}, mine)
}

// login is Login for an agent's definition. mine are the user's settings.
func (h *Host) login(ctx context.Context, p host.Program, c Config, mine map[string]any) (host.Login, error) {
	for _, from := range []map[string]any{c.Config, mine} {
		if name, _ := from["model_provider"].(string); name != "" && name != "openai" {
			for _, from := range []map[string]any{c.Config, mine} {
				providers, _ := from["model_providers"].(map[string]any)
				if provider, ok := providers[name].(map[string]any); ok {
					if needs, _ := provider["requires_openai_auth"].(bool); needs {
						return h.account(ctx, p, c)
					}
					return h.key(c, name, provider), nil
				}
			}
			return host.Login{OK: true, Text: "the login at model provider " + name + " is left to Codex"}, nil
		}
	}
	return h.account(ctx, p, c)
}

// key returns the login at a provider that the user has configured.
func (h *Host) key(c Config, name string, provider map[string]any) host.Login {
	variable, _ := provider["env_key"].(string)
	switch {
	case variable == "":
		return host.Login{OK: true, Text: "the model provider " + name + " needs no key"}
	case h.Getenv(variable) == "" && c.Env[variable] == "":
		return host.Login{Text: "the model provider " + name + " wants a key in " + variable + ", which is not set",
			Do: "set " + variable + ", or try it with --offline"}
	}
	return host.Login{OK: true, Text: "by the key in " + variable}
}

// account returns the login at OpenAI. Once OK, it is not asked for again.
func (h *Host) account(ctx context.Context, p host.Program, c Config) (host.Login, error) {
	if h.Getenv(apiKey) != "" || c.Env[apiKey] != "" {
		return host.Login{OK: true, Text: "by the key in " + apiKey}, nil
	}
	const do = "run `codex login`, set " + apiKey + ", or try it with --offline"
	home := userHome(h.Getenv)
	if _, err := os.Stat(home); err != nil { // Codex would say that its home cannot be read
		return host.Login{Text: "not logged in", Do: do}, nil
	}
	h.mu.Lock()
	login, ok := h.logins[p.Path]
	h.mu.Unlock()
	if ok {
		return login, nil
	}
	var out bytes.Buffer
	path, args := h.Around(p, nil, "login", "status")
	res, err := proc.Run(ctx, proc.Config{
		Path: path, Args: args, Dir: string(filepath.Separator),
		Env:    proc.Environ(keyring, map[string]string{"CODEX_HOME": home}, nil, ""),
		Stdout: &out, Stderr: &out, Wall: 30 * time.Second, MaxBytes: 64 << 10,
	})
	if err != nil {
		return host.Login{}, fmt.Errorf("ask Codex for its login: %w", err)
	}
	said := strings.TrimSpace(out.String())
	login = host.Login{OK: res.Exit == 0, Text: said[strings.LastIndex(said, "\n")+1:]} // warnings come first
	if !login.OK {
		login.Do = do
		return login, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.logins[p.Path] = login
	return login, nil
}
