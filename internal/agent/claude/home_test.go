package claude

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/gateway"
	"github.com/plait-run/plait/internal/agent/host"
	"github.com/plait-run/plait/internal/agent/sandbox"
)

// TestPlanted checks that an attempt begins without the settings and instructions that an earlier one wrote in the
// home, with its sessions, and that what they link to is left alone.
func TestPlanted(t *testing.T) {
	home, outside := t.TempDir(), t.TempDir()
	a := &Agent{host: newHost()}
	own := a.SessionHome(home)
	write(t, outside, "SKILL.md")
	write(t, own, "settings.json", "settings.local.json", "CLAUDE.md", "agents/a.md", "commands/c.md", "hooks/h.sh",
		"plugins/p/p.json",
		"session-env/s/hook.sh", "projects/p/s.jsonl")
	if err := os.Symlink(outside, filepath.Join(own, "skills")); err != nil {
		t.Fatal(err)
	}
	a.cfg.Endpoint = anthropic
	s, err := a.setup(host.Program{Path: "/bin/true"}, agent.Request{Home: home, Dir: t.TempDir(), Access: agent.Full})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	entries, err := os.ReadDir(own)
	if err != nil || len(entries) != 1 || entries[0].Name() != "projects" {
		t.Errorf("the home has %v: %v", entries, err)
	}
	for _, file := range []string{filepath.Join(own, "projects/p/s.jsonl"), filepath.Join(outside, "SKILL.md")} {
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
	}
}

// TestNoKeyPassed checks that Claude Code is given no key past the gateway, even if the definition passes it on.
func TestNoKeyPassed(t *testing.T) {
	const key = "a-real-key-4711"
	for _, name := range []string{"ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"} {
		t.Setenv(name, key)
	}
	g, err := gateway.Open(gateway.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	req := agent.Request{Dir: t.TempDir(), Access: agent.Read}
	h := host.New(host.Config{})
	h.Sandbox.Bwrap = ""
	s := &setup{Setup: &host.Setup{Request: req, Gateway: g, Sandbox: h.Sandbox.For(req, sandbox.Use{Gateway: g}),
		Vars: map[string]string{}}}
	a := &Agent{host: h, cfg: Config{Terms: host.Terms{Pass: []string{"ANTHROPIC_*", "CLAUDE_CODE_*"},
		Env: map[string]string{"ANTHROPIC_AUTH_TOKEN": key}}}}
	a.command(s, req)
	if strings.Contains(strings.Join(s.Env, " "), key) {
		t.Errorf("it is given the key: %q", s.Env)
	}
}
