package acp

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/agent/gateway"
	"github.com/plait-run/plait/internal/agent/host"
	"github.com/plait-run/plait/internal/agent/sandbox"
)

func TestWrongDefinitions(t *testing.T) {
	l := fake(t, "plain", "x")
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho 1.2.3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for says, cfg := range map[string]Config{
		"exclude each other":  {Kind: "copilot", Command: []string{"x"}},
		"name an agent":       {},
		"no agent is called":  {Kind: "nobody"},
		"correct its command": {Command: []string{"there-is-none"}},
		"leaves the working":  {Command: l.cfg.Command, Terms: host.Terms{Dir: "../x"}},
		"there is none at":    {Kind: "copilot", Path: l.Dir},
		"GEMINI_API_KEY":      {Kind: "gemini", Path: program},
		"is not the address": {Kind: "qwen", Path: program, Terms: host.Terms{
			Env: map[string]string{"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "::"}}},
		"set model: in the ag": {Kind: "qwen", Path: program,
			Terms: host.Terms{Env: map[string]string{"OPENAI_API_KEY": "k"}}},
	} {
		if _, err := New(l.host, cfg); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("want %q in %v", says, err)
		}
	}
}

// TestKeyStays checks that the user's key is in nothing that an agent is given.
func TestKeyStays(t *testing.T) {
	const key = "a-real-key-4711"
	t.Setenv("OPENAI_API_KEY", key)
	l := fake(t, "plain", "x")
	for _, k := range Kinds {
		for i := range k.Routes {
			terms := host.Terms{Env: map[string]string{"ANTHROPIC_API_KEY": key}, Pass: []string{"OPENAI_API_KEY"}}
			a := &Agent{l.host, Config{Model: "m", Terms: terms}, k}
			y := l.Request("it")
			s := &setup{Setup: &host.Setup{Request: y.Req, Vars: map[string]string{}}, agent: a,
				home: a.SessionHome(y.Req.Home), route: &k.Routes[i]}
			var err error
			if s.Gateway, err = gateway.Open(gateway.Config{}); err != nil {
				t.Fatal(err)
			}
			s.Sandbox = l.host.Sandbox.For(y.Req, sandbox.Use{Gateway: s.Gateway})
			drop, err := a.prepareHome(s)
			if err != nil {
				t.Fatal(err)
			}
			s.Command("program", nil, terms.Pass, drop)
			if strings.Contains(strings.Join(s.Env, " "), key) {
				t.Errorf("%s is given the key: %q", k.Name, s.Env)
			}
			s.Close()
		}
	}
}
