package acp

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/gateway"
	"github.com/plait-run/plait/internal/agent/sandbox"
)

// A setup is the environment of one attempt.
type setup struct {
	agent    *Agent
	gateway  *gateway.Gateway // nil: direct
	box      sandbox.Box
	home     string // the agent's own directory
	dir      string
	path     string // command line
	args     []string
	env      []string
	setting  Setting
	delivery *delivery // nil: the answer is its text
}

func (s *setup) close() {
	if s.gateway != nil {
		s.gateway.Close() // completes its log
	}
}

// failed returns the last failures of requests to the model, as seen by the gateway.
func (s *setup) failed() gateway.Failure {
	if s.gateway == nil {
		return gateway.Failure{}
	}
	return s.gateway.Failed()
}

// setup prepares the agent's home, opens the gateway and builds the command line.
func (a *Agent) setup(p Program, login Login, req agent.Request) (_ *setup, err error) {
	if req.Home == "" {
		return nil, errors.New("run an agent of the kind acp: the request names no home")
	}
	k := a.kind
	s := &setup{agent: a, home: a.SessionHome(req.Home)}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.dir, err = sandbox.Workdir(req.Dir, a.cfg.Dir); err != nil {
		return nil, agent.Final("cannot run %s: %v", k.Title, err)
	}
	granted, err := a.host.box.Granted(req, a.cfg.Write)
	if err != nil {
		return nil, err
	}
	env, err := sandbox.Caches(req)
	if err != nil {
		return nil, err
	}
	if login.route != nil {
		if s.gateway, err = gateway.Open(gateway.Config{Upstream: login.upstream, Traffic: req.Traffic, Secrets: req.Desk.Secrets}); err != nil {
			return nil, err
		}
	}
	deliver := a.host.cfg.Deliver[:min(1, len(a.host.cfg.Deliver))]
	s.box = a.host.box.Box(req, sandbox.Use{
		Gateway: s.gateway, Network: a.cfg.Network, Write: granted, State: []string{s.home},
		Read: slices.Concat(p.Line, []string{p.Path, filepath.Dir(p.Path), k.CacheDir()}, deliver),
	})
	if !s.box.Walled && req.Access != agent.Full && k.Silent {
		return nil, agent.Final("%s does not ask before everything it does, and there is no sandbox here: "+
			"install bubblewrap, or give the role access: full", k.Title)
	}
	s.setting = k.setting(s.box.Walled, req.Access)
	if err := a.prepareHome(s, req, login, env); err != nil {
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
	s.path, s.args = s.box.Around(s.dir, p.Line[0], slices.Concat(p.Line[1:], k.Args, s.delivery.arguments(k, a.host.cfg.Deliver)))
	return s, nil
}

// prepareHome writes the agent's files and sets its environment. env are the variables of caches.
func (a *Agent) prepareHome(s *setup, req agent.Request, login Login, env map[string]string) error {
	k, url, token := a.kind, "", ""
	if s.gateway != nil {
		url, token = s.box.URL(), s.gateway.Token()
	}
	fill := func(text string) string { return k.fill(text, s.home, url, token, a.cfg.Model) }
	files := maps.Clone(k.Files)
	maps.Copy(env, a.cfg.Env)
	for name, value := range k.Env { // after the definition's, since its state belongs to the task
		env[name] = fill(value)
	}
	if login.route != nil { // last, so that no key of the definition gets through
		for _, at := range keys {
			delete(env, at.key)
		}
		for name, value := range login.route.Env {
			env[name] = fill(value)
		}
		if files == nil {
			files = map[string]string{}
		}
		maps.Copy(files, login.route.Files)
	}
	if err := os.MkdirAll(s.home, 0o700); err != nil {
		return fmt.Errorf("make the home of %s: %w", k.Title, err)
	}
	root, err := os.OpenRoot(s.home)
	if err != nil {
		return fmt.Errorf("make the home of %s: %w", k.Title, err)
	}
	defer root.Close()
	for name, text := range files {
		if err := agent.ReplaceIn(root, filepath.FromSlash(name), strings.NewReader(fill(text))); err != nil {
			return fmt.Errorf("make the home of %s: %w", k.Title, err)
		}
	}
	pass, drop := a.cfg.Pass, []string{}
	if login.route != nil { // nor one in Pass
		for _, at := range keys {
			if env[at.key] == "" {
				drop = append(drop, at.key)
			}
		}
	}
	s.env = sandbox.Environ(req, pass, env, drop...)
	return nil
}
