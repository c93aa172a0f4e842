package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/plait-run/plait/internal/control"
	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
)

// newEngine returns an engine for agents without a desk.
func newEngine(s store.Store, worker engine.Worker) *engine.Engine {
	return engine.New(engine.Config{
		Store: s, Reader: thread.NewReader(s),
		Worker: func(store.Thread, string, flow.Role) (engine.Worker, error) { return worker, nil },
		Desk:   func(store.Thread, string, string) (engine.Desk, error) { return nodesk{}, nil },
		Limits: func(_ store.Thread, def *flow.Definition) (flow.Limits, error) { return def.Limits, nil },
	})
}

// drive steps a thread and all that it waits for to its end: paths side by side,
// and after each path's end a look whether the join is decided.
func drive(ctx context.Context, e *engine.Engine, row store.Thread) (store.Thread, error) {
	for !row.Ended() {
		at, err := e.Step(ctx, row.ID, row.Head)
		switch {
		case err != nil:
			return row, err
		case at.Fork != nil:
			ended := make(chan error)
			for _, path := range at.Fork.Paths {
				go func() {
					_, err := drive(ctx, e, path)
					ended <- err
				}()
			}
			for range at.Fork.Paths {
				if err = errors.Join(err, <-ended); err == nil {
					_, err = e.Resolve(ctx, at.ID, at.Head, false)
				}
			}
			if err == nil {
				at, err = e.Join(ctx, at.ID, at.Head)
			}
		case at.Call != nil:
			if _, err = drive(ctx, e, at.Call.Child); err == nil {
				at, err = e.Return(ctx, at.ID, at.Head)
			}
		}
		if err == nil && at.Status == store.Blocked {
			err = fmt.Errorf("thread %s is blocked: %+v", at.ID, at.Reason)
		}
		if err != nil {
			return row, err
		}
		row = at.Thread
	}
	return row, nil
}

// play runs a task of the player's.
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
	row, err = drive(ctx, newEngine(s, engine.Worker{Agent: p, Name: "noop"}), row)
	if err == nil && row.Status != store.Completed {
		err = fmt.Errorf("the task of forks is %s: %+v", row.Status, row.Reason)
	}
	return err
}
