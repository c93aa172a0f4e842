package view

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/sys/text"
)

// unserved says why a team's task needs a person when no worker that could drive it serves.
const unserved = "no worker serves: start one"

// A Worker is a process that works for a team.
type Worker struct {
	Name   string `json:"name"`
	Unable string `json:"unable"` // why it takes no work now, "" if it does
}

// Workers returns the workers of the team that run now, by name.
func (b *Reader) Workers(ctx context.Context) ([]Worker, error) {
	serving, err := b.Store.Held(ctx, store.WorkerLease(""))
	if err != nil {
		return nil, err
	}
	list := []Worker{}
	for lease := range serving {
		list = append(list, Worker{Name: store.WorkerOf(lease)})
	}
	unable, err := b.Store.Held(ctx, store.UnableLeases)
	if err != nil {
		return nil, err
	}
	for lease := range unable {
		name, why := store.Unable(lease)
		list = append(list, Worker{name, cmp.Or(why, "it cannot work")})
	}
	slices.SortFunc(list, func(a, b Worker) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Unable, b.Unable))
	})
	return list, nil
}

// Continues reports whether a task continues without a person doing anything.
func (b *Reader) Continues(ctx context.Context, root store.Thread) bool {
	driven := b.Driven(ctx, root.ID)
	if driven || !OnTeam(root) || root.Status != store.Pending && root.Status != store.Running {
		return driven
	}
	served, err := b.served(ctx)
	return err == nil && served
}

// readTeam reads what a team's task waits for when no process holds its lease. Any worker may take it up: if one
// serves, it continues without a person.
func (b *Reader) readTeam(ctx context.Context, r *TaskRecord) error {
	o, ok := teamOf(r.Root)
	if !ok || r.Driven || r.Root.Status != store.Pending && r.Root.Status != store.Running {
		return nil
	}
	var err error
	if r.Driven, err = b.served(ctx); err != nil {
		return err
	}
	if !r.Driven {
		workers, err := b.Workers(ctx)
		for _, w := range workers {
			r.unable = append(r.unable, w.Name+": "+w.Unable)
		}
		return err
	}
	var leases []string
	for _, t := range r.Threads {
		leases = append(leases, store.ThreadLease(t.ID))
	}
	drivers, err := b.Store.Holders(ctx, leases)
	if err != nil {
		return err
	}
	r.awaits = map[string]string{}
	task, taskLost := "", false // of the first that is not driven, or the first whose worker was lost
	for _, t := range leaves(r.Threads) {
		if _, driven := drivers[store.ThreadLease(t.ID)]; driven {
			continue
		}
		heard := t.UpdatedAt
		newest, err := b.Store.Events(ctx, 0, store.EventFilter{Task: t.Task, Thread: t.ID, Newest: true, Limit: 1})
		if err != nil {
			return err
		}
		for _, e := range newest {
			heard = max(heard, e.TS)
		}
		why, lost := r.waitsFor(t, o.Needs, Time(heard))
		r.awaits[t.ID] = why
		if task == "" || lost && !taskLost {
			task, taskLost = why, lost
		}
	}
	if len(drivers) == 0 {
		r.awaits[r.Root.ID] = task
	}
	return nil
}

// leaves returns those of some threads that continue by themselves: they run, or are a task that has not begun, and
// have no unfinished thread below them.
func leaves(threads []store.Thread) []store.Thread {
	return slices.DeleteFunc(thread.Leaves(threads), func(t store.Thread) bool {
		return t.Status != store.Running && (t.Status != store.Pending || t.ID != t.Root && t.Reason == nil)
	})
}

// waitsFor says what a thread without a driver waits for, and whether its worker was lost. heard is the time
// of its last sign of life.
func (r TaskRecord) waitsFor(t store.Thread, needs []string, heard Time) (why string, lost bool) {
	if w := t.Reason; w != nil && w.Kind == store.ReasonWorker {
		return fmt.Sprintf("%s; tried again at %s", thread.Plainly(w.Message), Time(w.ResetAt)), false
	}
	worker := "waiting for a worker"
	if len(needs) > 0 {
		worker += " with " + strings.Join(needs, ", ")
	}
	for _, a := range r.Attempts {
		if a.Thread != t.ID || a.Status != store.AttemptRunning {
			continue
		}
		if a.Host == "" {
			return worker + ": the one that had it was lost, last heard of " + heard.String(), true
		}
		return worker + ": " + a.Host + " was lost, last heard of " + heard.String(), true
	}
	return worker + " since " + heard.String(), false
}

// displayOf is NewDisplay for a thread of a task.
func displayOf(row store.Thread, status store.Status, why *Reason, question *Gate) Display {
	if status == Interrupted && OnTeam(row) {
		return Display{DisplayNeedsYou, unserved}
	}
	return NewDisplay(status, why, question)
}

// display returns how to show a thread of the task.
func (r TaskRecord) display(t store.Thread, question *Gate) Display {
	why := reason(t)
	if why != nil {
		why.Message = r.nameIDs(why.Message)
	}
	if t.Status != store.Blocked && why != nil && why.Kind == store.ReasonWorker {
		why = nil // shown only while no worker drives it
	}
	d := displayOf(t, r.status(t), why, question)
	if t.ID == r.Root.ID && t.Status == store.Pending && !r.Driven && question == nil && OnTeam(t) {
		d = Display{DisplayNeedsYou, unserved}
	}
	if d.Reason == unserved && len(r.unable) > 0 {
		d.Reason = text.OneLine("no worker serves: "+strings.Join(r.unable, "; "), maxDisplayReason)
	}
	if w := r.awaits[t.ID]; w != "" && d.State != DisplayNeedsYou {
		d.Reason = w
	}
	return d
}
