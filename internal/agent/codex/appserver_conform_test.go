package codex

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/host"
	"github.com/plait-run/plait/internal/agent/scripted"
	"github.com/plait-run/plait/internal/testing/agenttest"
)

// A dressed agent changes the request before it is run.
type dressed struct {
	agent.Agent
	dress func(*agent.Request)
}

func (d dressed) Run(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
	d.dress(&req)
	return d.Agent.Run(ctx, req, emit)
}

func endpoint(url string) Config {
	return Config{Endpoint: &Endpoint{URL: url, Model: scripted.Model, Catalog: scripted.Catalog()}}
}

func TestAppConformance(t *testing.T) {
	needCodex(t)
	h := NewHost(host.New(host.Config{Grace: 500 * time.Millisecond}))
	agenttest.Run(t, agenttest.Config{
		Model: func(t *testing.T, m agenttest.Model) agent.Agent {
			cfg := endpoint(m.URL)
			cfg.Env = map[string]string{"HOME": bareHome}
			a, err := h.Agent(cfg)
			if err != nil {
				t.Fatal(err)
			}
			return a
		},
		Dress: func(m agenttest.Model, r *agent.Request) {
			if m.Asks {
				r.Access = agent.Read
			}
		},
		Lacks: map[string]string{
			"Edited":       "a decision of the protocol has no input",
			"DeniedReason": "a decision of the protocol has no text",
			"Forked":       "a session whose turn is not known is not forked",
		},
	})
}

// A switchboard is one endpoint for many scripted models: a mark in the prompt
// selects the one that answers.
type switchboard struct {
	*httptest.Server
	mu     sync.Mutex
	models map[string]http.Handler
}

func newSwitchboard(t *testing.T) *switchboard {
	b := &switchboard{models: map[string]http.Handler{}}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		b.mu.Lock()
		var to http.Handler
		for mark, m := range b.models {
			if bytes.Contains(body, []byte(mark)) {
				to = m
			}
		}
		b.mu.Unlock()
		if to == nil {
			http.Error(w, "no such model", http.StatusBadRequest)
			return
		}
		to.ServeHTTP(w, r)
	}))
	t.Cleanup(b.Close)
	return b
}

// add connects a scripted model and returns its mark.
func (b *switchboard) add(t *testing.T, m *scripted.Server) string {
	t.Helper()
	u, err := url.Parse(strings.TrimSuffix(m.URL(), "/v1"))
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(u)
	proxy.FlushInterval = -1
	b.mu.Lock()
	defer b.mu.Unlock()
	mark := fmt.Sprintf("(model %d)", len(b.models)+1)
	b.models[mark] = proxy
	return mark
}

func TestAppConformanceShared(t *testing.T) {
	needCodex(t)
	board := newSwitchboard(t)
	h := NewHost(host.New(host.Config{Grace: time.Second}))
	home := t.TempDir()
	var mu sync.Mutex
	servers := map[agent.Process]int{}
	agenttest.Run(t, agenttest.Config{
		Cannot: map[agenttest.Ending]string{
			agenttest.Fails: "shown with hosts of their own", agenttest.Hangs: "shown with hosts of their own",
			agenttest.Stubborn: "shown with hosts of their own", agenttest.Leaves: "shown with hosts of their own",
		},
		New: func(t *testing.T, s agenttest.Script) agent.Agent {
			mark := board.add(t, agenttest.ServeScenario(t, agenttest.Scenario(s), nil))
			a, err := h.Agent(endpoint(board.URL + "/v1"))
			if err != nil {
				t.Fatal(err)
			}
			return dressed{a, func(r *agent.Request) {
				r.Home, r.Prompt = home, mark
				started := r.Started
				r.Started = func(p agent.Process) {
					mu.Lock()
					servers[p]++
					mu.Unlock()
					started(p)
				}
			}}
		},
	})
	shared := false
	for _, n := range servers {
		shared = shared || n > 1
	}
	if !shared {
		t.Errorf("no two attempts shared a server: %v", servers)
	}
}
