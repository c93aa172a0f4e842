package main

import (
	"context"
	"fmt"
	"os"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/engine/attempt"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/housetest"
)

// newEngine returns an engine with a single agent for all, and no desks.
func newEngine(s store.Store, one agent.Agent) *engine.Engine {
	return engine.New(engine.Config{
		Store: s, Reader: thread.NewReader(s), Desks: housetest.BareDesks{},
		Agents: attempt.Agents{
			Defined: map[string]flow.Agent{"noop": {Kind: "replay"}}, Default: "noop",
			Make: func(string, flow.Agent, attempt.AgentOptions) (agent.Agent, error) { return one, nil },
		},
	})
}

// drive runs a task to its end in the engine's own loop: paths run concurrently, and after each
// path's end it checks whether the join is decided.
func drive(ctx context.Context, e *engine.Engine, row store.Thread) (store.Thread, error) {
	row, err := e.Run(ctx, row.ID)
	if err == nil && !row.Ended() {
		err = fmt.Errorf("thread %s is %s: %+v", row.ID, row.Status, row.Reason)
	}
	return row, err
}

// play runs a task of player p.
func (b *bench) play(ctx context.Context, p *player) error {
	s, dir, err := b.open(ctx)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	defer s.Close()
	workspace, err := os.MkdirTemp(b.dir, "workspace-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(workspace)
	if p.floor, err = newFloor(dir); err != nil {
		return err
	}
	defer p.floor.close()
	bundle, err := p.bundle()
	if err != nil {
		return err
	}
	c := control.New(control.Config{Store: s, Home: dir, Settings: p.settings(), Agent: p.agent})
	row, err := c.Begin(ctx, control.Spec{Bundle: bundle, Prompt: "go", Workspace: workspace})
	if err != nil {
		return err
	}
	row, err = drive(ctx, newEngine(s, p), row)
	if err == nil && row.Status != store.Completed {
		err = fmt.Errorf("the task of forks is %s: %+v", row.Status, row.Reason)
	}
	return err
}
