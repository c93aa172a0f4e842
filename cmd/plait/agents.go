package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/claude"
	"github.com/plait-run/plait/internal/codex"
	"github.com/plait-run/plait/internal/command"
	"github.com/plait-run/plait/internal/control"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/replay"
	"github.com/plait-run/plait/internal/scripted"
)

// newAgent makes an agent from its definition. It is the one place that knows
// every kind.
func (a *app) newAgent(name string, def flow.Agent, o control.AgentOptions) (agent.Agent, error) {
	switch def.Kind {
	case "command":
		return command.New(command.Config{
			Command: def.Command, Dir: def.Dir, Env: def.Env, Pass: def.Pass, Exit: def.Exit,
		})
	case "replay":
		file := def.Recording
		if !filepath.IsAbs(file) {
			file = filepath.Join(o.Workspace, filepath.FromSlash(file))
		}
		rec, err := replay.Load(file)
		if err != nil {
			return nil, err
		}
		return replay.New(replay.Config{Recording: rec})
	case "claude":
		return a.newClaude(def, o)
	case "codex", "codex-exec":
		cfg := codex.Config{
			Model: def.Model, Effort: def.Effort, Path: def.Path, Dir: def.Dir, Config: def.Config, Env: def.Env, Pass: def.Pass,
			MCP: def.MCP, Global: def.Global,
		}
		if box := def.Sandbox; box != nil {
			cfg.Sandbox = codex.Sandbox{Network: box.Network == flow.NetworkOn, Env: box.Env, Pass: box.Pass}
			cfg.Sandbox.Write = a.places(box.Write)
		}
		if cfg.Path != "" && !filepath.IsAbs(cfg.Path) {
			cfg.Path = filepath.Join(o.Workspace, filepath.FromSlash(cfg.Path))
		}
		if o.Offline != "" {
			s, err := a.openEndpoint(o.Offline)
			if err != nil {
				return nil, err
			}
			cfg.Endpoint = &codex.Endpoint{URL: s.URL(), Model: scripted.Model, Catalog: scripted.Catalog()}
		}
		host := a.codexHost()
		if def.Kind == "codex-exec" {
			return host.ExecAgent(cfg)
		}
		return host.Agent(cfg)
	}
	return nil, fmt.Errorf("unknown kind %q; there are claude, codex, codex-exec, command and replay", def.Kind)
}

// newClaude makes an agent that is Claude Code.
func (a *app) newClaude(def flow.Agent, o control.AgentOptions) (agent.Agent, error) {
	cfg := claude.Config{Model: def.Model, Effort: def.Effort, Path: def.Path, Dir: def.Dir, Env: def.Env, Pass: def.Pass}
	if box := def.Sandbox; box != nil {
		cfg.Write, cfg.Network = a.places(box.Write), box.Network == flow.NetworkOn
		cfg.Pass = append(slices.Clone(cfg.Pass), box.Pass...)
		cfg.Env = maps.Clone(cfg.Env)
		if cfg.Env == nil {
			cfg.Env = map[string]string{}
		}
		maps.Copy(cfg.Env, box.Env)
	}
	for i, place := range cfg.Write {
		if !filepath.IsAbs(place) {
			cfg.Write[i] = filepath.Join(o.Workspace, place)
		}
	}
	if cfg.Path != "" && !filepath.IsAbs(cfg.Path) {
		cfg.Path = filepath.Join(o.Workspace, filepath.FromSlash(cfg.Path))
	}
	if o.Offline != "" {
		s, err := a.openEndpoint(o.Offline)
		if err != nil {
			return nil, err
		}
		cfg.Endpoint = strings.TrimSuffix(s.URL(), "/v1")
	}
	host, err := a.claudeHost()
	if err != nil {
		return nil, err
	}
	return host.Agent(cfg)
}

// places are paths of a definition, those below the home directory made whole.
func (a *app) places(list []string) []string {
	var out []string
	for _, place := range list {
		if below, ok := strings.CutPrefix(place, "~/"); ok {
			place = filepath.Join(a.getenv("HOME"), below)
		}
		out = append(out, filepath.FromSlash(place))
	}
	return out
}

// claudeHost is where Claude Code runs, one for all agents.
func (a *app) claudeHost() (*claude.Host, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.claude == nil {
		bin, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find plait: %w", err)
		}
		cfg := claude.HostConfig{Getenv: a.getenv, Forward: []string{bin, gatewayForward}}
		if home, err := a.findHome(); err == nil {
			cfg.Hide = []string{home}
		}
		a.claude = claude.NewHost(cfg)
	}
	return a.claude, nil
}

// codexHost is where Codex runs, one for all agents.
func (a *app) codexHost() *codex.Host {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.codex == nil {
		hide := []string{}
		if home, err := a.findHome(); err == nil {
			hide = append(hide, home)
		}
		a.codex = codex.NewHost(codex.HostConfig{Getenv: a.getenv, Hide: hide})
	}
	return a.codex
}
