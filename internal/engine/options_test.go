package engine

import (
	"context"
	"testing"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/store"
)

// Options that a task is given while an agent works apply after its step.
func TestOptionsWhileAnAgentWorks(t *testing.T) {
	var give func() error
	s, engine, row := setUp(t, "read", func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		if err := give(); err != nil {
			return agent.Result{}, err
		}
		return finish(ctx, req, emit)
	})
	give = func() error {
		now, err := s.Thread(t.Context(), row.ID)
		if err != nil {
			return err
		}
		more := record.Options{Limits: flow.Limits{MaxTokens: 1000}}
		return engine().setOptions(t.Context(), []store.Thread{now}, more)
	}
	after, err := engine().Step(t.Context(), row.ID, row.Head)
	if err != nil || after.Head == row.Head {
		t.Fatalf("%+v, %v", after, err)
	}
	now, err := s.Thread(t.Context(), row.ID)
	if err != nil {
		t.Fatal(err)
	}
	if opts, err := record.OptionsOf(now); err != nil || opts.Limits.MaxTokens != 1000 {
		t.Errorf("the task's options are %+v, %v", opts, err)
	}
}
