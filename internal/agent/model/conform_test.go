package model

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/host"
	"github.com/plait-run/plait/internal/agent/sandbox"
	"github.com/plait-run/plait/internal/testing/agenttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// atOnce does not wait before a retry.
func atOnce(ctx context.Context, _ time.Duration) error { return ctx.Err() }

// newHost returns a host with its own environment.
func newHost(t *testing.T, env map[string]string) *host.Host {
	t.Helper()
	if env == nil {
		env = map[string]string{"HOME": t.TempDir()}
	}
	return host.New(host.Config{Config: sandbox.Config{Getenv: func(name string) string { return env[name] }}})
}

// newAgent returns an agent that does not wait before a retry.
func newAgent(t *testing.T, h *host.Host, cfg Config) *Agent {
	t.Helper()
	a, err := New(h, cfg)
	if err != nil {
		t.Fatal(err)
	}
	a.wait = atOnce
	return a
}

func TestConform(t *testing.T) {
	for _, api := range []string{Chat, Messages} {
		t.Run(api, func(t *testing.T) {
			agenttest.Run(t, agenttest.Config{
				NoProcess: true,
				Model: func(t *testing.T, m agenttest.Model) agent.Agent {
					h := newHost(t, nil)
					if h.Sandbox.Bwrap == "" && os.Getenv("CI") != "" {
						t.Fatal("bubblewrap is not installed")
					}
					if m.Asks {
						h.Sandbox.Bwrap = ""
					}
					return newAgent(t, h, Config{URL: m.URL, API: api, Model: "scripted"})
				},
			})
		})
	}
}

func TestFindSays(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  Config
		env  map[string]string
		want string // address, API and model; or a part of the error
		key  string
	}{
		"nothing": {Config{}, nil, "set OPENAI_API_KEY", ""},
		"OpenAI": {Config{Model: "m"}, map[string]string{"OPENAI_API_KEY": "k"}, "https://api.openai.com/v1 chat m",
			"k"},
		"no model": {Config{}, map[string]string{"OPENAI_API_KEY": "k"}, "OPENAI_MODEL", ""},
		"local": {Config{}, map[string]string{"OPENAI_BASE_URL": "http://localhost:11434/v1", "OPENAI_MODEL": "q"},
			"http://localhost:11434/v1 chat q", ""},
		"Anthropic": {Config{}, map[string]string{"ANTHROPIC_API_KEY": "k", "ANTHROPIC_MODEL": "c"},
			"https://api.anthropic.com/v1 messages c", "k"},
		"Anthropic, else": {Config{API: Messages, Model: "c"},
			map[string]string{"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": "http://h:1/x"}, "http://h:1/x/v1 messages c",
			"k"},
		"both": {Config{Model: "m"}, map[string]string{"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "o"},
			"https://api.openai.com/v1 chat m", "o"},
		"own address": {Config{URL: "http://h/v1", Model: "m"}, map[string]string{"OPENAI_API_KEY": "secret"},
			"http://h/v1 chat m", ""},
		"own, no model": {Config{URL: "http://h/v1"}, map[string]string{"OPENAI_MODEL": "m"}, "no model of h is named", ""},
		"own key": {Config{URL: "http://h/v1", Model: "m", KeyEnv: "K"}, map[string]string{"K": "v"},
			"http://h/v1 chat m", "v"},
		"own key missing": {Config{URL: "http://h/v1", Model: "m", KeyEnv: "K"}, nil, "set K", ""},
		"no address":      {Config{URL: "localhost:11434", Model: "m"}, nil, "is not the address", ""},
	} {
		s, err := Find(newHost(t, c.env).Getenv, c.cfg)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = s.URL.String() + " " + s.API + " " + s.Model
		}
		if (err == nil && got != c.want) || !strings.Contains(got, c.want) || err == nil && s.key != c.key {
			t.Errorf("%s: %s (key %q), want %s", name, got, s.key, c.want)
		}
	}
}
