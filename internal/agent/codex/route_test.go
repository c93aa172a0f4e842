package codex

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/host"
	"github.com/plait-run/plait/internal/agent/sandbox"
)

// An ear is a Traffic that counts, and lets a number of requests through.
type ear struct {
	most int // 0: all

	mu    sync.Mutex
	calls []agent.Call
	used  agent.Usage
}

func (e *ear) Begin(_ context.Context, c *agent.Call) (*agent.Reply, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.most > 0 && len(e.calls) == e.most {
		return nil, errors.New("100 of 100 tokens used")
	}
	e.calls = append(e.calls, *c)
	return nil, nil
}

func (e *ear) End(_ *agent.Call, _ agent.Reply, used agent.Usage) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.used.InputTokens += used.InputTokens
	e.used.OutputTokens += used.OutputTokens
}

// TestThroughTheGateway checks that both interfaces of Codex reach their model through the attempt's gateway, even when
// a session continues, and that it counts what Codex reports.
func TestThroughTheGateway(t *testing.T) {
	l := newLab(t, answer)
	once := &ExecAgent{installed: installed{host: l.host, cfg: l.agent.cfg}}
	session := ""
	for _, kind := range []string{"codex", "codex, again", "codex-exec"} {
		e := &ear{}
		var res agent.Result
		var err error
		if kind == "codex-exec" {
			y := newExecTry(t, "go")
			y.req.Traffic = e
			res, err = y.run(t.Context(), t, once)
		} else {
			y := l.try(t, "go")
			y.req.Traffic, y.req.Session = e, session
			res, err = y.run(t.Context(), t, l.agent)
			session = res.Session
		}
		if err != nil || len(e.calls) == 0 || e.calls[0].Path != "/responses" ||
			!strings.Contains(string(e.calls[0].Body), `"input"`) {
			t.Fatalf("%s: %v, %d calls", kind, err, len(e.calls))
		}
		if want := (agent.Usage{InputTokens: res.Usage.InputTokens, OutputTokens: res.Usage.OutputTokens}); e.used != want ||
			want.InputTokens == 0 {
			t.Errorf("%s: the gateway counts %+v, Codex %+v", kind, e.used, res.Usage)
		}
		if strings.Contains(res.Sandbox, "direct") {
			t.Errorf("%s: %s", kind, res.Sandbox)
		}
	}
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			e, y := &ear{}, l.try(t, "go")
			y.req.Traffic = e
			if _, err := y.run(t.Context(), t, l.agent); err != nil || len(e.calls) == 0 {
				t.Errorf("side by side: %v, %d calls", err, len(e.calls))
			}
		})
	}
	both.Wait()
}

// TestStopsWhenRefused checks that Codex does not ask a second time.
func TestStopsWhenRefused(t *testing.T) {
	l := newLab(t, answer)
	y := l.try(t, "go")
	e := &ear{}
	e.most, e.calls = 1, make([]agent.Call, 1)
	y.req.Traffic = e
	_, err := y.run(t.Context(), t, l.agent)
	var fail *agent.Failure
	if !errors.As(err, &fail) || !strings.Contains(fail.Message, "100 of 100 tokens used") || len(e.calls) != 1 {
		t.Errorf("%v", err)
	}
}

func TestRoutes(t *testing.T) {
	const key = "the-real-key"
	provider := func(settings map[string]any) map[string]any {
		return map[string]any{"model_provider": "x", "model_providers": map[string]any{"x": settings}}
	}
	for name, c := range map[string]struct {
		cfg   Config
		mine  map[string]any
		env   map[string]string
		want  string // address and key, "" for direct
		leave map[string]any
	}{
		"a login": {},
		"a key": {env: map[string]string{apiKey: key}, want: openai + " " + key,
			leave: map[string]any{"name": "openai"}},
		"the agent's key": {cfg: Config{Env: map[string]string{apiKey: key}}, want: openai + " " + key,
			leave: map[string]any{"name": "openai"}},
		"another base": {mine: map[string]any{"openai_base_url": "https://eu.example/v1/"},
			env:  map[string]string{apiKey: key},
			want: "https://eu.example/v1 " + key, leave: map[string]any{"name": "openai"}},
		"a provider": {mine: provider(map[string]any{"name": "X", "base_url": "https://x.example/v1", "env_key": "X_KEY",
			"request_max_retries": 2}),
			env: map[string]string{"X_KEY": key}, want: "https://x.example/v1 " + key,
			leave: map[string]any{"name": "X", "request_max_retries": 2}},
		"a local one": {mine: provider(map[string]any{"base_url": "http://127.0.0.1:11434/v1", "wire_api": "responses"}),
			want: "http://127.0.0.1:11434/v1 ", leave: map[string]any{"wire_api": "responses"}},
		"the agent's": {cfg: Config{Config: provider(map[string]any{"base_url": "http://a.example"})},
			want: "http://a.example ", leave: map[string]any{}},
		"keys in headers": {mine: provider(map[string]any{"base_url": "https://x.example",
			"env_http_headers": map[string]any{"K": "V"}})},
		"a login at a provider": {mine: provider(map[string]any{"base_url": "https://x.example",
			"requires_openai_auth": true})},
		"another dialect": {mine: provider(map[string]any{"base_url": "https://x.example", "wire_api": "chat"})},
		"not known":       {mine: map[string]any{"model_provider": "ollama"}},
	} {
		h := NewHost(host.New(host.Config{Config: sandbox.Config{
			Getenv: func(name string) string { return c.env[name] }}}))
		r := c.cfg.route(h, c.mine)
		got := ""
		if r != nil {
			got = r.upstream.URL.String() + " " + r.upstream.Key
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		} else if r != nil {
			if diff := cmp.Diff(c.leave, r.provider); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}
}

// TestKeyStaysWithPlait checks that Codex does not get the key of its model when it has a gateway.
func TestKeyStaysWithPlait(t *testing.T) {
	t.Setenv(apiKey, "the-real-key")
	h := NewHost(host.New(host.Config{}))
	cfg := Config{Env: map[string]string{apiKey: "the-agents-key"}}
	for _, routed := range []bool{true, false} {
		s := &setup{home: t.TempDir(), scratch: t.TempDir()}
		if routed {
			s.route = cfg.route(h, nil)
		}
		env := strings.Join(cfg.environ(NewHost(host.New(host.Config{})), s, nil, nil, ""), "\n")
		if strings.Contains(env, "the-real-key") || strings.Contains(env, "the-agents-key") == routed {
			t.Errorf("routed %v: %s", routed, env)
		}
	}
}

// TestAReplayNeedsNoLogin checks that a replay uses the gateway without a key, and an upstream that is nowhere.
func TestAReplayNeedsNoLogin(t *testing.T) {
	h := newHost(0)
	mine := map[string]any{"model_provider": "p", "model_providers": map[string]any{
		"p": map[string]any{"base_url": "http://127.0.0.1:9/v1", "env_key": "K"}}}
	for _, settings := range []map[string]any{nil, mine} {
		if r := (Config{Replay: true}).route(h, settings); r == nil || r.upstream != nowhere {
			t.Errorf("with %v: got %+v", settings, r)
		}
	}
	if r := (Config{}).route(h, nil); r != nil {
		t.Errorf("without a login and no replay: got %+v", r)
	}
}

// TestGatewayIgnored checks that a Codex that answers without using its gateway is detected.
func TestGatewayIgnored(t *testing.T) {
	y := newExecTry(t, "it")
	y.req.Traffic = new(ear)
	res, err := y.run(t.Context(), t, fakeCodex(t, sayStart+sayDone))
	if err != nil || !strings.Contains(res.Sandbox, "its gateway saw no request") {
		t.Errorf("%+v, %v", res, err)
	}
}
