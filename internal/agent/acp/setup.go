package acp

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/host"
	"github.com/plait-run/plait/internal/agent/sandbox"
)

// A setup is the environment of one attempt.
type setup struct {
	*host.Setup
	agent    *Agent
	home     string // the agent's own directory
	version  string // of its program, "" if not known
	route    *Route // to its model, nil: the agent's own way
	setting  Setting
	delivery *delivery // nil: the answer is its text
}

// setup prepares the agent's home, opens the gateway and builds the command line.
func (a *Agent) setup(p host.Program, req agent.Request) (_ *setup, err error) {
	k := a.kind
	login, route := Login(a.host, k, a.cfg)
	s := &setup{agent: a, home: a.SessionHome(req.Home), version: p.Version, route: route}
	deliver := a.cfg.Deliver[:min(1, len(a.cfg.Deliver))]
	s.Setup, err = a.host.Setup(req, k.Title, a.cfg.Terms, login.Upstream, sandbox.Use{State: []string{s.home},
		Read: slices.Concat(p.Line, []string{p.Path, filepath.Dir(p.Path), k.CacheDir()}, deliver)})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if !s.Sandbox.Enforced && req.Access != agent.Full && k.Silent {
		return nil, agent.Final("%s does not ask before everything it does, and there is no sandbox here: "+
			"install bubblewrap, or give the role access: full", k.Title)
	}
	s.setting = k.setting(s.Sandbox.Enforced, req.Access)
	drop, err := a.prepareHome(s)
	if err != nil {
		return nil, err
	}
	if req.Shaped {
		if s.delivery, err = newDelivery(req.Schema); err == nil {
			err = s.delivery.offer(s.home, req.Attempt)
		}
		if err != nil {
			return nil, err
		}
	}
	args := slices.Concat(p.Line[1:], k.Args, s.delivery.arguments(k, a.cfg.Deliver))
	s.Command(p.Line[0], args, a.cfg.Pass, drop)
	return s, nil
}

// prepareHome writes the agent's files and sets its variables. It returns the names of those that it must not get.
func (a *Agent) prepareHome(s *setup) (drop []string, err error) {
	k, env, url, token := a.kind, s.Vars, "", ""
	if s.Gateway != nil {
		url, token = s.Sandbox.URL(), s.Gateway.Token()
	}
	fill := func(text string) string { return k.fill(text, s.home, url, token, a.cfg.Model) }
	files := map[string]string{}
	maps.Copy(files, k.Files)
	maps.Copy(env, a.cfg.Env)
	for name, value := range k.Env { // after the definition's, since its state belongs to the task
		env[name] = fill(value)
	}
	if s.route != nil { // last, so that no key of the definition gets through, nor one in Pass
		for _, at := range keys {
			delete(env, at.key)
		}
		for name, value := range s.route.Env {
			env[name] = fill(value)
		}
		for _, at := range keys {
			if env[at.key] == "" {
				drop = append(drop, at.key)
			}
		}
		maps.Copy(files, s.route.Files)
	}
	root, err := agent.OpenHome(s.home)
	if err != nil {
		return nil, fmt.Errorf("make the home of %s: %w", k.Title, err)
	}
	defer root.Close()
	for name, text := range files {
		if err := agent.ReplaceIn(root, filepath.FromSlash(name), strings.NewReader(fill(text))); err != nil {
			return nil, fmt.Errorf("make the home of %s: %w", k.Title, err)
		}
	}
	return drop, nil
}
