// Package model is the agent kind model: a model without an agent program. Plait itself calls the
// Chat Completions API or the Messages API, and runs the tools that the model asks for: read,
// search, edit, run.
//
// Laws:
//
//   - Requests go through a gateway, like those of other agents, to be counted, limited and
//     recorded.
//   - The key is in the environment variable that the definition names, and nowhere else.
//   - Files are reached through os.Root: the working tree, the artifacts, and the part of the
//     record that the agent may read.
//   - Commands run in a sandbox. Without one, each command and each change needs approval. A
//     change of a protected file by the tool edit always does, and so does a command outside the
//     sandbox.
//   - The conversation is a file in the task's home, with one JSON line per message, written
//     before it is sent.
//   - A response is acted on when the server has said, in a word that is known to mean it, that it is whole. An
//     event that cannot be read breaks it off, and it is requested again. Lenient in form, strict in meaning.
//
// It never answers for a person: questions that no person can answer are refused.
package model

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/gateway"
	"github.com/plait-run/plait/internal/agent/host"
	"github.com/plait-run/plait/internal/agent/sandbox"
)

// The APIs.
const (
	Chat     = "chat"     // Chat Completions: OpenAI, Ollama, vLLM, llama.cpp and most others
	Messages = "messages" // Anthropic's
)

// A Config is the definition of one agent. Missing fields are taken from the environment, see
// [Find].
type Config struct {
	URL      string         // base URL of the API, with its version
	API      string         // Chat or Messages
	Model    string         // its name
	KeyEnv   string         // the variable that has the key
	MaxTurns int            // requests of one attempt, 0: defaultTurns
	Extra    map[string]any // additional fields of each request, such as temperature; null leaves out one of Plait's

	host.Terms // of its commands
}

// defaultTurns is the maximum number of requests in an attempt if the definition does not set
// one.
const defaultTurns = 100

// A Server is a model's server.
type Server struct {
	URL    *url.URL
	API    string
	Model  string
	KeyEnv string // the variable with the key, "" for none
	key    string
}

// Find completes a definition from the environment and reports what is missing. Without a URL the
// API is OpenAI's, with OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL. With api: messages, or
// if only Anthropic's key is set, it is Anthropic's, with ANTHROPIC_BASE_URL, ANTHROPIC_API_KEY
// and ANTHROPIC_MODEL. A key from the environment is only sent to the URL from the environment:
// any other URL gets the key that its definition names.
func Find(get func(string) string, c Config) (Server, error) {
	s := Server{API: c.API, KeyEnv: c.KeyEnv}
	if s.API == "" {
		s.API = Chat
		if c.URL == "" && get("ANTHROPIC_API_KEY") != "" && get("OPENAI_API_KEY") == "" && get("OPENAI_BASE_URL") == "" {
			s.API = Messages
		}
	}
	prefix, address, own := "OPENAI", get("OPENAI_BASE_URL"), "https://api.openai.com/v1"
	if s.API == Messages {
		prefix, address, own = "ANTHROPIC", "", "https://api.anthropic.com/v1"
		if base := get("ANTHROPIC_BASE_URL"); base != "" { // Anthropic's has no version
			if u, err := url.Parse(base); err == nil {
				address = u.JoinPath("v1").String()
			}
		}
	}
	if c.URL == "" && s.KeyEnv == "" {
		s.KeyEnv = prefix + "_API_KEY"
	}
	if s.KeyEnv != "" {
		s.key = get(s.KeyEnv)
	}
	known := cmp.Or(c.URL, address)
	var err error
	if s.URL, err = host.Address(cmp.Or(known, own)); err != nil {
		return s, fmt.Errorf("%w; set url: in the agent's definition to one such as http://localhost:11434/v1", err)
	}
	if s.Model = c.Model; s.Model == "" && c.URL == "" {
		s.Model = get(prefix + "_MODEL")
	}
	switch {
	case s.key == "" && (c.KeyEnv != "" || known == ""):
		return s, fmt.Errorf("there is no key for %s: set %s, name another server by url: in the agent's definition or by "+
			"%s_BASE_URL, or try it with --offline", s.URL.Host, s.KeyEnv, prefix)
	case s.Model == "":
		return s, fmt.Errorf("no model of %s is named: set model: in the agent's definition, or %s_MODEL", s.URL.Host, prefix)
	}
	return s, nil
}

// An Agent runs a model. It may be used concurrently.
type Agent struct {
	host   *host.Host
	cfg    Config
	server Server
	wait   func(ctx context.Context, d time.Duration) error // before a request is repeated
}

var (
	_ agent.Continuer  = (*Agent)(nil)
	_ agent.Forker     = (*Agent)(nil)
	_ agent.Shaper     = (*Agent)(nil)
	_ agent.Instructed = (*Agent)(nil)
	_ agent.Homed      = (*Agent)(nil)
	_ agent.Steerer    = (*Agent)(nil)
)

// New checks cfg and returns its agent. It is an error if the server or model is not known, so
// that this is found before anything starts.
func New(h *host.Host, cfg Config) (*Agent, error) {
	if err := cfg.Check("model"); err != nil {
		return nil, err
	}
	if cfg.API != "" && cfg.API != Chat && cfg.API != Messages {
		return nil, fmt.Errorf("model agent: unknown api %q; there are %s and %s", cfg.API, Chat, Messages)
	}
	server, err := Find(h.Getenv, cfg)
	if err != nil {
		return nil, err
	}
	return &Agent{h, cfg, server, wait}, nil
}

// Continues reports whether the session is in the task's home.
func (a *Agent) Continues(req agent.Request) bool {
	return hasTurn(a.SessionHome(req.Home), req.Session, "")
}

// Forks reports whether the session to branch off from exists, with its turn.
func (a *Agent) Forks(req agent.Request) bool {
	return req.From != nil && hasTurn(a.SessionHome(req.From.Home), req.From.Session, req.From.Turn)
}

// Shapes reports whether an answer with a schema and a text can be requested.
func (a *Agent) Shapes(schema json.RawMessage) bool { _, err := formOf(schema); return err == nil }

// Steers reports true: what people add is sent with the next request.
func (a *Agent) Steers() bool { return true }

// Instructions returns nothing: there is no file with a user's instructions for all models.
func (a *Agent) Instructions() string { return "" }

// SessionHome returns the directory of a task's conversations.
func (a *Agent) SessionHome(home string) string { return filepath.Join(home, "model") }

// Run makes one attempt. See [agent.Agent].
func (a *Agent) Run(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
	if ctx.Err() != nil {
		return agent.Result{}, &agent.Failure{Kind: agent.Cancelled, Message: "the attempt was cancelled before it began"}
	}
	setup, err := a.host.Setup(req, "the model", a.cfg.Terms,
		&gateway.Upstream{URL: a.server.URL, Key: a.server.key, Bearer: a.server.API == Chat}, sandbox.Use{Alone: true})
	if err != nil {
		return agent.Result{}, err
	}
	defer setup.Close()
	way := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	defer way.CloseIdleConnections()
	t := &conversation{agent: a, req: req, dir: setup.Dir, vars: setup.Vars, emit: emit,
		log:    &transcript{to: req.Desk.Raw},
		fields: map[string]any{}, sandbox: setup.Sandbox,
		client: client{url: setup.Gateway.URL() + "/v1", token: setup.Gateway.Token(), http: way},
	}
	maps.Copy(t.vars, a.cfg.Env)
	maps.Copy(t.fields, a.cfg.Extra)
	if t.session, err = openSession(a.SessionHome(req.Home), req.Session, a.branch(req), req.Desk.Secrets); err != nil {
		return agent.Result{}, err
	}
	defer t.session.close()
	if t.files, err = openFiles(req, setup.Dir); err != nil {
		return agent.Result{}, err
	}
	defer t.files.close()
	return t.run(ctx)
}

// branch returns the session to branch off from, with its directory.
func (a *Agent) branch(req agent.Request) *agent.Branch {
	if req.From == nil {
		return nil
	}
	return &agent.Branch{Home: a.SessionHome(req.From.Home), Session: req.From.Session, Turn: req.From.Turn}
}
