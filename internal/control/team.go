package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
)

// OnTeam, as Options.On, means that workers drive the task: see [Worker].
const OnTeam = record.OnTeam

// Team reports whether workers drive a task, by its root thread.
func Team(root store.Thread) bool { return record.Team(root) }

// Moving returns the types of events after which a task may have something to do.
func Moving() []string { return engine.Moving() }

// A LeftError reports that a process has stopped following a task, which workers still drive.
type LeftError struct{ Row store.Thread }

func (e *LeftError) Error() string { return "task " + e.Row.ID + " continues with the team's workers" }

// teamPatience is how long a worker keeps an agent that waits for an answer, since others want its slot.
const teamPatience = 5 * time.Minute

// teamEngine returns an engine for a task that workers drive. machine is how many agents may work on this
// machine at once; zero: as many as the person's settings allow.
func (c *Controller) teamEngine(machine int) *engine.Engine {
	cfg := c.engineConfig(true)
	cfg.Shared, cfg.Patience = true, teamPatience
	if machine > 0 {
		cfg.Machine = machine
	}
	return engine.New(cfg)
}

// askTeam records what a person asks of a task, if anything, for the workers.
func (c *Controller) askTeam(ctx context.Context, row store.Thread, r Resume, meant string) error {
	if r.Prompt == "" && !r.Again && r.Options.Empty() && row.Status != store.Blocked {
		return nil // it continues anyway
	}
	if (r.Options.Context != "" || len(r.Options.Needs) > 0) && row.Status == store.Running {
		// The driver of a part keeps the options that it began with.
		driven, err := c.driven(ctx, row)
		if err != nil {
			return err
		}
		if driven {
			return usage("workers are at work on task %s: --context and --needs are for one that waits", row.ID)
		}
	}
	if r.Prompt != "" && row.Status == store.Running {
		return c.tell(ctx, row, meant, r)
	}
	return c.ask(ctx, row, r, meant)
}

// driven reports whether a worker is driving a part of a task.
func (c *Controller) driven(ctx context.Context, row store.Thread) (bool, error) {
	rows, err := thread.Subtree(ctx, c.cfg.Store, row.ID)
	if err != nil {
		return false, fmt.Errorf("resume task %s: %w", row.ID, err)
	}
	var names []string
	for _, t := range rows {
		if !t.Ended() {
			names = append(names, store.ThreadLease(t.ID))
		}
	}
	owners, err := c.cfg.Store.Holders(ctx, names)
	if err != nil {
		return false, fmt.Errorf("resume task %s: %w", row.ID, err)
	}
	return len(owners) > 0, nil
}

// follow waits until a task that workers drive has ended, or cannot continue without a person. With wait it
// waits for that person too. If ctx ends first, the error is a *LeftError.
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
		if wait {
			continue
		}
		if rests, err := c.rests(keep, id); err != nil || rests {
			return row, err
		}
	}
}

// rests reports whether a task cannot continue without a person, once people's wishes and answers have been
// applied.
func (c *Controller) rests(ctx context.Context, id string) (bool, error) {
	if asks, err := c.onlyAsks(ctx, id); err != nil || !asks {
		return false, err
	}
	agenda, err := c.teamEngine(0).Reconcile(ctx, id)
	if err != nil || len(agenda.Drive) > 0 || len(agenda.Stop) > 0 {
		return false, err
	}
	return c.onlyAsks(ctx, id)
}

// onlyAsks reports whether a task is blocked, or all of its working agents wait for a person.
func (c *Controller) onlyAsks(ctx context.Context, id string) (bool, error) {
	rows, err := c.cfg.Store.Task(ctx, id)
	if err != nil {
		return false, fmt.Errorf("follow task %s: %w", id, err)
	}
	asks := map[string]bool{} // by attempt
	for _, g := range rows.Gates {
		asks[g.Attempt] = true
	}
	for _, a := range rows.Running {
		if !asks[a.ID] {
			return false, nil
		}
	}
	root := slices.IndexFunc(rows.Threads, func(t store.Thread) bool { return t.ID == id })
	return len(rows.Running) > 0 || root >= 0 && rows.Threads[root].Status == store.Blocked, nil
}

// cancelOnTeam ends the threads of a task that are not being driven, after its row was marked as cancelled.
// Workers see that mark and end the others.
func (c *Controller) cancelOnTeam(ctx context.Context, id string) (store.Thread, error) {
	if _, err := c.teamEngine(0).Reconcile(ctx, id); err != nil {
		return store.Thread{}, err
	}
	return c.cfg.Store.Thread(ctx, id)
}
