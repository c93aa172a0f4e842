package hosts

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/app/config"
	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/engine/dispatch"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/parse"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/store/sqlite"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/plaitd/pgtest"
	"github.com/plait-run/plait/plaitd/postgres"
)

// plans is an agent that plans that many actions.
type plans int

func (n plans) Run(_ context.Context, r agent.Request, _ func(agent.Event) error) (agent.Result, error) {
	actions := make([]string, n)
	for i := range actions {
		actions[i] = fmt.Sprintf(`{"id": "a%d", "prompt": "do it"}`, i)
	}
	return agent.Result{Output: []byte(`{"sessionGoal": "go", "actions": [` + strings.Join(actions, ",") + `]}`),
		Sandbox: "none"}, nil
}

// planned returns a worker on a store, and a task with a plan whose actions can all be driven.
func planned(b *testing.B, s store.Store, actions int) (*control.Worker, string) {
	flows, _ := parse.LoadBuiltIn("orchestrate")
	bundle := thread.Bundle{Name: flows[0].Name, Flows: map[string]json.RawMessage{}}
	for _, f := range flows {
		raw, err := json.Marshal(f)
		if err != nil {
			b.Fatal(err)
		}
		bundle.Flows[f.Name] = raw
	}
	c := control.New(control.Config{
		Store: s, Home: b.TempDir(),
		Settings: &config.Settings{Default: config.Value[string]{V: "noop"},
			Agents: map[string]config.Value[flow.Agent]{"noop": {V: flow.Agent{Kind: "replay"}}}},
		Agent: func(string, flow.Agent, control.AgentOptions) (agent.Agent, error) { return plans(actions), nil },
	})
	options := control.Options{On: control.OnTeam, Limits: flow.Limits{MaxActions: 1000, MaxTaskActions: 1000,
		MaxConcurrent: 8}}
	task, err := c.Begin(b.Context(), control.Spec{Bundle: bundle, Prompt: "go", Workspace: b.TempDir(), Options: options})
	if err != nil {
		b.Fatal(err)
	}
	cfg := control.WorkerConfig{Store: s, Open: func(context.Context, store.Thread) (*control.Controller,
		error) {
		return c, nil
	}}
	if shared, ok := s.(*postgres.Store); ok {
		cfg.Tokens = shared.Tokens
	}
	w := control.NewWorker(cfg)
	if err := w.Drive(b.Context(), task.ID, new(dispatch.Slot)); err != nil {
		b.Fatal(err)
	}
	return w, task.ID
}

// BenchmarkTeamLook measures one look at a task with a plan whose actions can all be driven.
func BenchmarkTeamLook(b *testing.B) {
	for _, kind := range []string{"sqlite", "postgres"} {
		for _, actions := range []int{8, 128} {
			b.Run(fmt.Sprintf("%s/actions=%d", kind, actions), func(b *testing.B) {
				var s store.Store
				var err error
				if kind == "sqlite" {
					s, err = sqlite.Open(b.Context(), sqlite.Config{Dir: b.TempDir()})
				} else {
					url := pgtest.Shared(b).Database(b)
					if _, _, err = postgres.Migrate(b.Context(), postgres.Config{URL: url}); err == nil {
						s, err = postgres.Open(b.Context(), postgres.Config{URL: url})
					}
				}
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { s.Close() })
				w, task := planned(b, s, actions)
				var before, after syscall.Rusage
				syscall.Getrusage(syscall.RUSAGE_SELF, &before)
				n := 0
				for b.Loop() {
					a, err := w.Reconcile(b.Context(), task)
					if err != nil || len(a.Drive) != actions {
						b.Fatalf("%d may be driven of %d: %v", len(a.Drive), actions, err)
					}
					n++
				}
				syscall.Getrusage(syscall.RUSAGE_SELF, &after)
				cpu := time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
				b.ReportMetric(float64(cpu.Microseconds())/float64(n)/1000, "ms-cpu/op")
			})
		}
	}
}
