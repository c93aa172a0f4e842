package control

import (
	"context"
	"errors"
	"fmt"

	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/store"
)

// OnTeam as Options.On says that workers drive a task: see [Worker].
const OnTeam = record.OnTeam

// Team reports whether workers drive a task, by its root thread.
func Team(root store.Thread) bool { return record.Team(root) }

// Moving returns the types of events after which there may be something to do for a task.
func Moving() []string { return engine.Moving() }

// A LeftError says that whoever followed a task has stopped to, while workers drive it.
type LeftError struct{ Row store.Thread }

func (e *LeftError) Error() string { return "task " + e.Row.ID + " goes on with the team's workers" }

// teamEngine returns an engine for a task that workers drive. machine bounds how many agents are at work on this
// machine at once; zero: as a person has set.
func (c *Controller) teamEngine(machine int) *engine.Engine {
	cfg := c.engineConfig(true)
	cfg.Shared = true
	if machine > 0 {
		cfg.Machine = machine
	}
	return engine.New(cfg)
}

// follow waits until a task that workers drive has ended, or until nothing of it goes on without a person. With
// wait it goes on waiting then. When ctx ends first, the error is a *LeftError.
func (c *Controller) follow(ctx context.Context, id string, wait bool) (store.Thread, error) {
	keep := context.WithoutCancel(ctx)
	for pos := int64(0); ; {
		next, err := c.cfg.Store.Wait(ctx, pos)
		row, readErr := c.cfg.Store.Thread(keep, id)
		switch {
		case ctx.Err() != nil:
			return row, &LeftError{row}
		case errors.Join(err, readErr) != nil:
			return row, fmt.Errorf("follow task %s: %w", id, errors.Join(err, readErr))
		case row.Ended():
			return row, nil
		}
		pos = next
		if row.Status != store.Blocked || wait {
			continue
		}
		if rests, err := c.rests(keep, row); err != nil || rests {
			return row, err
		}
	}
}

// rests reports whether nothing goes on in a blocked task without a person. What people wished and answered is
// taken in first.
func (c *Controller) rests(ctx context.Context, row store.Thread) (bool, error) {
	agenda, err := c.teamEngine(0).Reconcile(ctx, row.ID)
	if err != nil || len(agenda.Drive) > 0 || len(agenda.Stop) > 0 {
		return false, err
	}
	now, err := c.cfg.Store.Thread(ctx, row.ID)
	return err == nil && now.Status == store.Blocked, err
}

// cancelOnTeam ends of a task what nobody drives, after its row says that it is to be cancelled. Workers hear of
// that and end the rest.
func (c *Controller) cancelOnTeam(ctx context.Context, id string) (store.Thread, error) {
	if _, err := c.teamEngine(0).Reconcile(ctx, id); err != nil {
		return store.Thread{}, err
	}
	return c.cfg.Store.Thread(ctx, id)
}
