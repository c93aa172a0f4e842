package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/engine/dispatch"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/sys/lock"
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

// Slots returns the slots of a worker on this machine, which shares them with the machine's other processes. It returns
// nil for zero: any number of its agents may work.
func (c *Controller) Slots(most int) *dispatch.Slots {
	if most == 0 {
		return nil
	}
	return dispatch.NewSlots(most, func() (*lock.Lock, error) { return engine.MachineSlot(c.locks, most) })
}

// teamConfig configures the engine of a task that workers drive.
func (c *Controller) teamConfig() engine.Config {
	cfg := c.engineConfig(true)
	cfg.Claim, cfg.Patience = engine.ThreadClaim{Store: c.cfg.Store}, teamPatience
	return cfg
}

// askTeam records what a person asks of a task, if anything, for the workers.
func (c *Controller) askTeam(ctx context.Context, row store.Thread, r Resume) error {
	if r.Prompt == "" && !r.Again && r.Options.Empty() && row.Status != store.Blocked {
		stopped, err := c.stopped(ctx, row)
		if err != nil {
			return err
		}
		if !stopped {
			r.note("nothing of it can be tried again: it continues, or waits for an answer")
			return nil
		}
	}
	if (r.Options.Context != "" || len(r.Options.Needs) > 0) && row.Status == store.Running {
		// The driver of a part keeps the options that it began with.
		driven, err := c.drivenParts(ctx, row)
		if err != nil {
			return err
		}
		if len(driven) > 0 {
			return usage("workers are at work on task %s: --context and --needs are for one that waits", row.ID)
		}
	}
	if r.Prompt != "" && row.Status == store.Running {
		return c.queueInput(ctx, row, r)
	}
	return c.ask(ctx, row, r)
}

// stopped reports whether a part of a task is blocked by something that may be tried again.
func (c *Controller) stopped(ctx context.Context, row store.Thread) (bool, error) {
	rows, err := thread.Subtree(ctx, c.cfg.Store, row.ID)
	if err != nil {
		return false, fmt.Errorf("resume task %s: %w", row.ID, err)
	}
	return slices.ContainsFunc(rows, func(t store.Thread) bool {
		return t.Status == store.Blocked && t.Reason != nil &&
			slices.Contains([]store.ReasonKind{store.ReasonAttempts, store.ReasonLimit, store.ReasonJoin,
				store.ReasonWorker}, t.Reason.Kind)
	}), nil
}

// ensureNoDriver returns a *store.HeldError if workers drive parts of a team's task. Its lease, which the caller holds,
// does not say that: the lease of such a task is for its directory.
func (c *Controller) ensureNoDriver(ctx context.Context, root store.Thread) error {
	if !Team(root) {
		return nil
	}
	driven, err := c.drivenParts(ctx, root)
	if err == nil && len(driven) > 0 {
		err = &store.HeldError{Name: "task " + root.ID, Owner: "workers of the team"}
	}
	return err
}

// drivenParts returns the parts of a task that workers are driving.
func (c *Controller) drivenParts(ctx context.Context, row store.Thread) (map[string]bool, error) {
	rows, err := thread.Subtree(ctx, c.cfg.Store, row.ID)
	if err != nil {
		return nil, fmt.Errorf("resume task %s: %w", row.ID, err)
	}
	var names []string
	for _, t := range rows {
		if !t.Ended() {
			names = append(names, store.ThreadLease(t.ID))
		}
	}
	owners, err := c.cfg.Store.Holders(ctx, names)
	if err != nil {
		return nil, fmt.Errorf("resume task %s: %w", row.ID, err)
	}
	driven := map[string]bool{}
	for _, t := range rows {
		if _, held := owners[store.ThreadLease(t.ID)]; held {
			driven[t.ID] = true
		}
	}
	return driven, nil
}

// waitUntilIdle waits until a task that workers drive has ended, or cannot continue without a person. With wait it
// waits for that person too. If ctx ends first, the error is a *LeftError.
func (c *Controller) waitUntilIdle(ctx context.Context, id string, wait bool) (store.Thread, error) {
	bg, e := context.WithoutCancel(ctx), engine.New(c.teamConfig())
	for pos := int64(0); ; {
		next, err := c.cfg.Store.Wait(ctx, pos)
		if err == nil && pos > 0 && ctx.Err() == nil {
			var events []store.Event
			events, err = c.cfg.Store.Events(ctx, pos, store.EventFilter{Task: id, Limit: 1})
			if err == nil && len(events) == 0 && next > pos {
				pos = next // something happened to another task
				continue
			}
		}
		row, readErr := c.cfg.Store.Thread(bg, id)
		switch {
		case ctx.Err() != nil:
			return row, &LeftError{row}
		case errors.Join(err, readErr) != nil:
			return row, fmt.Errorf("follow task %s: %w", id, errors.Join(err, readErr))
		case row.Ended():
			return row, nil
		}
		if pos = next; wait {
			continue
		}
		if idle, err := c.isIdle(ctx, e, row); err != nil || idle {
			return row, err
		}
	}
}

// isIdle reports whether a task cannot continue without a person, once people's requests and answers have been
// applied, by this process or by a worker.
func (c *Controller) isIdle(ctx context.Context, e *engine.Engine, root store.Thread) (bool, error) {
	bg := context.WithoutCancel(ctx)
	for {
		if asks, _, err := c.waitsOnlyForPeople(bg, root.ID); err != nil || !asks {
			return false, err
		}
		agenda, err := e.Reconcile(bg, root.ID)
		if err != nil || len(agenda.Drive) > 0 || agenda.Queued > 0 || len(agenda.Stop) > 0 {
			return false, err
		}
		asks, working, err := c.waitsOnlyForPeople(bg, root.ID)
		if err != nil || !asks || working {
			return asks, err
		}
		if driven, err := c.drivenParts(bg, root); err != nil || len(driven) == 0 {
			return err == nil, err
		}
		select { // a worker has begun to drive it, perhaps with an answer; that it lets go is no event
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return false, nil
		}
	}
}

// waitsOnlyForPeople reports whether a task is blocked, or all of its working agents wait for a person, and whether
// there are such agents.
func (c *Controller) waitsOnlyForPeople(ctx context.Context, id string) (asks, working bool, err error) {
	rows, err := c.cfg.Store.Task(ctx, id)
	if err != nil {
		return false, false, fmt.Errorf("follow task %s: %w", id, err)
	}
	waiting := map[string]bool{} // by attempt
	for _, g := range rows.Gates {
		waiting[g.Attempt] = true
	}
	if slices.ContainsFunc(rows.Running, func(a store.Attempt) bool { return !waiting[a.ID] }) {
		return false, true, nil
	}
	blocked := slices.ContainsFunc(rows.Threads, func(t store.Thread) bool {
		return t.ID == id && t.Status == store.Blocked
	})
	return blocked || len(rows.Running) > 0, len(rows.Running) > 0, nil
}

// cancelOnTeam ends the threads of a task that are not being driven, after its row was marked as cancelled.
// Workers see that mark and end the others.
func (c *Controller) cancelOnTeam(ctx context.Context, id string) (store.Thread, error) {
	if _, err := engine.New(c.teamConfig()).Reconcile(ctx, id); err != nil {
		return store.Thread{}, err
	}
	return c.cfg.Store.Thread(ctx, id)
}
