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
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/gateway"
	"github.com/plait-run/plait/internal/agent/sandbox"
	"github.com/plait-run/plait/internal/sys/proc"
)

// A Config configures a Host.
type Config struct {
	sandbox.Config
	Grace time.Duration // between two steps of stopping a program; 0: as its kind needs it
}

// A Host is where the programs of all agents run. It may be used concurrently.
type Host struct {
	Config
	Sandbox *sandbox.Host

	mu       sync.Mutex
	versions map[string]string // by program
}

// New returns a host. It only checks what sandboxes need.
func New(cfg Config) *Host {
	if cfg.Getenv == nil {
		cfg.Getenv = os.Getenv
	}
	return &Host{Config: cfg, Sandbox: sandbox.NewHost(cfg.Config), versions: map[string]string{}}
}

// A Login says how a program reaches its model.
type Login struct {
	OK   bool
	Text string
	Do   string // what to do if it is not OK
	// Upstream is where its gateway sends requests; nil: it reaches the model by itself.
	Upstream *gateway.Upstream
}

// Err returns an error if it is not OK.
func (l Login) Err() error {
	if l.OK {
		return nil
	}
	return fmt.Errorf("%s: %s", l.Text, l.Do)
}

// Address returns the URL of a model's server. The error does not name the setting that text is from.
func Address(text string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSuffix(text, "/"))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%q is not the address of a model server", text)
	}
	return u, nil
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
	Sandbox sandbox.Sandbox
	Vars    map[string]string // its variables, at first those of caches

	// The program, set by Command.
	Path string
	Args []string
	Env  []string

	Title   string // of its agent, for people
	Request agent.Request

	logging sync.Mutex // guards the desk's requests, and logErr
	logErr  error
}

// Setup prepares an attempt of an agent with a title, and opens the gateway to upstream, which may be nil. It
// sets what terms grant in use. A *agent.Failure says what a person must fix.
func (h *Host) Setup(req agent.Request, title string, terms Terms, upstream *gateway.Upstream,
	use sandbox.Use) (*Setup, error) {
	if req.Home == "" {
		return nil, fmt.Errorf("run %s: the request names no home", title)
	}
	s := &Setup{Title: title, Request: req}
	var err error
	if s.Dir, err = sandbox.Workdir(req.Dir, terms.Dir); err != nil {
		return nil, agent.Final("cannot run %s: %v", title, err)
	}
	use.Network = terms.Network
	if use.Write, err = h.Sandbox.Granted(req, terms.Write); err != nil {
		return nil, err
	}
	if s.Vars, err = sandbox.Caches(req); err != nil {
		return nil, err
	}
	if upstream != nil {
		s.Gateway, err = gateway.Open(gateway.Config{Upstream: *upstream, Traffic: req.Traffic, Secrets: req.Desk.Secrets})
		if err != nil {
			return nil, err
		}
	}
	if !use.Alone {
		use.Gateway = s.Gateway
	}
	s.Sandbox = h.Sandbox.For(req, use)
	return s, nil
}

// Command sets the program of the attempt. It gets the variables in Vars, those named in pass, and none of drop.
func (s *Setup) Command(path string, args, pass, drop []string) {
	s.Path, s.Args = s.Sandbox.Around(s.Dir, path, args)
	s.Env = sandbox.Environ(s.Request, pass, s.Vars, drop...)
}

const (
	maxLine   = 64 << 20 // bytes of one line that is parsed; 6.3 MB was seen
	maxStream = 4 << 30  // bytes of a program's whole output
)

// Run runs the program until it ends: what is said of it in how, the rest from the request. It is in the desk's logs
// before it is parsed. A *agent.Failure says that the program could not be started.
func (s *Setup) Run(ctx context.Context, how proc.Config) (proc.Result, error) {
	how.Path, how.Args, how.Dir, how.Env, how.Tag = s.Path, s.Args, s.Dir, s.Env, s.Request.Tag
	how.Stdout, how.Stderr, how.MaxLine, how.MaxBytes = s.Request.Desk.Raw, s.Request.Desk.Stderr, maxLine, maxStream
	opened := how.Started
	how.Started = func(pid int, start int64) {
		if s.Request.Started != nil {
			s.Request.Started(agent.Process{PID: pid, Start: start})
		}
		if opened != nil {
			opened(pid, start)
		}
	}
	res, err := proc.Run(ctx, how)
	var se *proc.StartError
	switch {
	case errors.As(err, &se):
		return res, agent.OfMachine("%s could not be started: %v", s.Title, se)
	case err != nil:
		return res, fmt.Errorf("run %s: %w", s.Title, err)
	}
	return res, nil
}

// Log logs a line that the program is told. It returns the first error, of this call or an earlier one.
func (s *Setup) Log(line []byte) error {
	s.logging.Lock()
	defer s.logging.Unlock()
	if s.Request.Desk.Requests == nil || s.logErr != nil {
		return s.logErr
	}
	if _, err := s.Request.Desk.Requests.Write(line); err != nil {
		s.logErr = fmt.Errorf("keep what %s is told: %w", s.Title, err)
	}
	return s.logErr
}

// Logged returns the first error of Log.
func (s *Setup) Logged() error {
	s.logging.Lock()
	defer s.logging.Unlock()
	return s.logErr
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
