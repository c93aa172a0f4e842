// Package host is where agents' programs run: it finds the programs, and prepares the attempts.
//
// It takes what a Package says of a program, and returns where it is and its version. It takes a Request and what the
// agent's definition grants, and returns the Setup of an attempt: a place to work, a sandbox, and a gateway to the
// model. Laws:
//
//   - A program is asked for its version once, in a home of its own.
//   - A program that a definition names runs in the cell, if there is one.
//   - The gateway of an attempt has the key of its model; the program gets a token.
//
// It knows no kind of agent: what programs are told, and what they say, is known to those who import it.
package host

import (
	"fmt"
	"path/filepath"
	"sync"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/gateway"
	"github.com/plait-run/plait/internal/agent/sandbox"
)

// A Host is where agents' programs run. It may be used concurrently.
type Host struct {
	sandbox.Config
	Sandbox *sandbox.Host

	mu       sync.Mutex
	versions map[string]string // by program
}

// New returns a host. It only checks what sandboxes need.
func New(cfg sandbox.Config) *Host {
	return &Host{Config: cfg, Sandbox: sandbox.NewHost(cfg), versions: map[string]string{}}
}

// Terms are where an agent works and what it is granted, as its definition says.
type Terms struct {
	Dir     string            // relative to the request's directory, inside it
	Env     map[string]string // additional variables
	Pass    []string          // names of Plait's own variables to pass to it
	Write   []string          // directories that it may write beyond the role's access: see agent.Request.Granted
	Network bool              // its commands may use the network
}

// Check returns an error if the terms of an agent of a kind are not valid.
func (t Terms) Check(kind string) error {
	if t.Dir != "" && !filepath.IsLocal(t.Dir) {
		return fmt.Errorf("%s agent: dir %q leaves the working tree", kind, t.Dir)
	}
	return nil
}

// A Setup is the environment of one attempt.
type Setup struct {
	Dir     string           // where it works
	Gateway *gateway.Gateway // nil: it reaches its model by itself
	Box     sandbox.Box
	Env     map[string]string // the variables of caches
}

// Setup prepares an attempt of an agent with a title, and opens the gateway to upstream, which may be nil. It
// sets what terms grant in use. A *agent.Failure says what a person must fix.
func (h *Host) Setup(req agent.Request, title string, terms Terms, upstream *gateway.Upstream,
	use sandbox.Use) (*Setup, error) {
	if req.Home == "" {
		return nil, fmt.Errorf("run %s: the request names no home", title)
	}
	s := &Setup{}
	var err error
	if s.Dir, err = sandbox.Workdir(req.Dir, terms.Dir); err != nil {
		return nil, agent.Final("cannot run %s: %v", title, err)
	}
	use.Network = terms.Network
	if use.Write, err = h.Sandbox.Granted(req, terms.Write); err != nil {
		return nil, err
	}
	if s.Env, err = sandbox.Caches(req); err != nil {
		return nil, err
	}
	if upstream != nil {
		s.Gateway, err = gateway.Open(gateway.Config{Upstream: *upstream, Traffic: req.Traffic, Secrets: req.Desk.Secrets})
		if err != nil {
			return nil, err
		}
	}
	use.Gateway = s.Gateway
	s.Box = h.Sandbox.Box(req, use)
	return s, nil
}

// Close closes the gateway, which completes its log.
func (s *Setup) Close() {
	if s.Gateway != nil {
		s.Gateway.Close()
	}
}

// Used returns the usage of the attempt: as counted by the gateway, otherwise as reported by the agent.
func (s *Setup) Used(reported agent.Usage) agent.Usage {
	if s.Gateway == nil {
		return reported
	}
	u := s.Gateway.Used()
	return agent.Usage{InputTokens: u.Input, CachedInputTokens: u.Cached, OutputTokens: u.Output}
}
