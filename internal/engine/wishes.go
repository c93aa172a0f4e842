package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/attempt"
	"github.com/plait-run/plait/internal/event"
	"github.com/plait-run/plait/internal/gate"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
)

// A Resumption is what a wish to resume a task asks for, beside going on.
type Resumption struct {
	Again   bool           `json:"again,omitempty"` // make an attempt again that was cut off and may have acted
	Full    bool           `json:"full,omitempty"`  // assemble prompts past compact marks
	Options record.Options `json:"options"`         // over what the task was started with
}

// InputTarget returns the thread that what a person adds to a task is for: the one that waits for
// input, else the task's own unless it waits for others. rows are those of the task, its own first.
// meant names a thread, or is "". attempt.ErrUsage.
func InputTarget(rows []store.Thread, meant string) (string, error) {
	root := rows[0]
	var asking []string
	waits := false
	for _, row := range rows {
		if row.Status == store.Blocked && row.Reason != nil && row.Reason.Kind == store.ReasonInput {
			asking = append(asking, row.ID)
		}
		waits = waits || row.Parent != nil && row.Parent.Thread == root.ID && !row.Ended()
	}
	switch {
	case meant != "" && meant != root.ID:
		if slices.Contains(asking, meant) {
			return meant, nil
		}
		return "", attempt.Usage("thread %s does not wait for input", meant)
	case len(asking) == 1:
		return asking[0], nil
	case len(asking) > 1:
		return "", attempt.Usage("several threads wait for input; name one of %s", strings.Join(asking, ", "))
	case root.Status == store.Blocked && root.Reason != nil && root.Reason.Kind == store.ReasonJoin:
		return "", attempt.Usage("task %s waits to try its paths again: resume it without more input, or fork it "+
			"before they began", root.ID)
	case waits:
		return "", attempt.Usage("task %s waits for its paths or a called flow, and none of them asks for input",
			root.ID)
	}
	return root.ID, nil
}

// Hears returns why what a person adds to a task makes no sense now. rows are those of the task, its
// own first; meant names a thread, or is "". attempt.ErrUsage.
func (e *Engine) Hears(ctx context.Context, rows []store.Thread, meant string) error {
	id, err := InputTarget(rows, meant)
	if err != nil {
		return err
	}
	row := rows[slices.IndexFunc(rows, func(t store.Thread) bool { return t.ID == id })]
	if asks, err := e.asks(ctx, row); err != nil || asks != askedOpen {
		return err
	}
	return attempt.Usage("thread %s: %s", row.ID, row.Reason.Message)
}

// takeWishes takes in what people asked of a task, as far as it can be now, and reports whether it
// did anything. What people add comes first: where it moves a thread on, nothing is tried again.
func (e *Engine) takeWishes(ctx context.Context, root store.Thread, held *ownership) (bool, error) {
	wishes, err := e.cfg.Store.Wishes(ctx, store.WishFilter{Task: root.Task, Open: true})
	if err != nil {
		return false, fmt.Errorf("read wishes of task %s: %w", root.Task, err)
	}
	if len(wishes) == 0 || root.Wanted == store.WantCancel {
		return false, nil
	}
	rows, err := e.under(ctx, root.ID)
	if err != nil {
		return false, fmt.Errorf("read task %s: %w", root.Task, err)
	}
	e.cfg.Log.Info("wishes found", "task", root.Task, "count", len(wishes))
	for _, w := range wishes {
		if w.Kind == store.WishInput {
			if taken, err := e.takeInput(ctx, rows, w, held); err != nil || taken {
				return taken, err
			}
		}
	}
	for _, w := range wishes {
		if w.Kind == store.WishResume {
			return true, e.takeResume(ctx, rows, w, held)
		}
	}
	return false, nil
}

// takeResume lets what is blocked try once more. rows are those of the task.
func (e *Engine) takeResume(ctx context.Context, rows []store.Thread, w store.Wish, held *ownership) error {
	fail := func(err error) error { return fmt.Errorf("resume task %s: %w", w.Task, err) }
	var r Resumption
	if len(w.Options) > 0 {
		if err := json.Unmarshal(w.Options, &r); err != nil {
			return fail(err)
		}
	}
	if r.Again {
		e.again.Store(&w.By)
		if err := e.allowAgain(ctx, w); err != nil {
			return fail(err)
		}
	}
	if r.Full {
		e.full.Store(true)
	}
	err := e.raise(ctx, rows, r.Options)
	if errors.Is(err, store.ErrConflict) {
		return nil // somebody has changed a row: it is looked at again
	}
	if err != nil {
		return fail(err)
	}
	for _, row := range rows {
		if row.Status == store.Blocked && held.take(row.ID) {
			if err := e.retry(ctx, row.ID); err != nil {
				return fail(err)
			}
		}
	}
	return e.taken(ctx, w)
}

// allowAgain approves that attempts which were cut off, and may have acted, are made again.
func (e *Engine) allowAgain(ctx context.Context, w store.Wish) error {
	open, err := e.gates.Gates(ctx, store.GateFilter{Task: w.Task, State: store.GateOpen})
	if err != nil {
		return err
	}
	for _, g := range open {
		if g.Source != store.SourceInterrupted {
			continue
		}
		_, err := e.gates.Answer(ctx, g.ID, gate.Answer{Approve: true, By: w.By, Via: store.ViaCLI,
			Text: "resume --again"})
		if err != nil && !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
	return nil
}

// taken marks a wish as taken in. Of two who take it one is first: for the other it is as if it had.
func (e *Engine) taken(ctx context.Context, w store.Wish) error {
	err := e.cfg.Store.Commit(ctx, store.Batch{Wishes: []store.WishChange{e.take(w)}})
	if err != nil && !errors.Is(err, store.ErrConflict) {
		return fmt.Errorf("take in a wish of task %s: %w", w.Task, err)
	}
	return nil
}

func (e *Engine) take(w store.Wish) store.WishChange {
	w.TakenAt = max(1, e.now())
	return store.WishChange{Row: w, Take: true}
}

// retry lets a blocked thread try once more what it was blocked at. What waits for a person's
// answer, or for more input, goes on waiting.
func (e *Engine) retry(ctx context.Context, id string) error {
	row, err := e.cfg.Store.Thread(ctx, id)
	if err != nil || row.Status != store.Blocked || row.Reason == nil {
		return err
	}
	switch row.Reason.Kind {
	case store.ReasonInput:
		return nil
	case store.ReasonGate, store.ReasonConflict:
		if asks, err := e.asks(ctx, row); err != nil || asks != askedNothing {
			return err
		}
	case store.ReasonJoin:
		_, err := e.Again(ctx, id, row.Head)
		return err
	case store.ReasonChild, store.ReasonLimit: // a limit may be the one that forbade to call again
		called, err := e.Recall(ctx, id, row.Head)
		if err != nil || called || row.Reason.Kind == store.ReasonChild {
			return err
		}
	}
	return e.resume(ctx, row)
}

// takeInput adds what a person said to the thread that it is for, when that is pending or blocked.
// One that runs takes it in itself, between two steps. What has no thread to go to stays open.
func (e *Engine) takeInput(ctx context.Context, rows []store.Thread, w store.Wish, held *ownership) (bool, error) {
	id, err := InputTarget(rows, w.Thread)
	if err != nil || !held.take(id) {
		return false, nil
	}
	row, err := e.cfg.Store.Thread(ctx, id)
	if err != nil || row.Status != store.Pending && row.Status != store.Blocked {
		return false, err
	}
	if asks, err := e.asks(ctx, row); err != nil || asks == askedOpen {
		return false, err
	}
	last, err := e.lastAttempt(ctx, row)
	if err != nil {
		return false, err
	}
	if row.Status == store.Blocked && last != nil && last.Status == store.AttemptInterrupted {
		return true, e.resume(ctx, row) // whoever drives it looks first at what was left
	}
	return e.addInput(ctx, row, w)
}

// takeInputs adds what people said meanwhile to a thread that its owner drives, and returns its row.
func (e *Engine) takeInputs(ctx context.Context, row store.Thread) (store.Thread, error) {
	wishes, err := e.cfg.Store.Wishes(ctx, store.WishFilter{Task: row.Task, Open: true})
	if err != nil {
		return row, fmt.Errorf("read wishes of task %s: %w", row.Task, err)
	}
	for _, w := range wishes {
		if w.Kind != store.WishInput {
			continue
		}
		rows, err := e.under(ctx, row.Root)
		if err != nil {
			return row, err
		}
		if id, err := InputTarget(rows, w.Thread); err != nil || id != row.ID {
			continue
		}
		if _, err := e.addInput(ctx, row, w); err != nil {
			return row, err
		}
		if row, err = e.cfg.Store.Thread(ctx, row.ID); err != nil {
			return row, err
		}
	}
	return row, nil
}

// addInput commits what a person said as a step of a thread, which runs again. The caller owns the
// thread. It reports false when the thread cannot take it now.
func (e *Engine) addInput(ctx context.Context, row store.Thread, w store.Wish) (bool, error) {
	if row.Ended() || row.Wanted == store.WantCancel {
		return false, nil
	}
	c, _, err := e.load(ctx, row.ID, row.Head)
	if err != nil || c == nil {
		return false, err
	}
	if err := e.dropNext(ctx, c); err != nil {
		return false, err
	}
	return e.advance(ctx, c, func(row store.Thread) (*threadState, store.Batch, error) {
		now := e.now()
		ch, err := thread.Append(row, c.Tip, thread.Draft{
			Role: thread.RoleInput, Meta: thread.InputMeta(cmp.Or(string(w.Via), "resume"), ""), Text: w.Text,
			Detail: ByPerson(w.By, now), At: now,
		})
		if err != nil {
			return nil, store.Batch{}, err
		}
		b := store.Batch{Objects: ch.Objects, Wishes: []store.WishChange{e.take(w)}}
		ch.Row.InFlight, ch.Row.UpdatedAt = "", now
		if row.Status != store.Pending { // else the first attempt makes it run
			b.Events = []store.Event{event.New(ch.Row, now, event.ThreadResumed{From: row.Status, Head: ch.Row.Head})}
			if row.Status == store.Blocked && row.Kind == store.KindRoot {
				b.Events = append(b.Events, event.New(ch.Row, now, event.TaskUpdated{State: event.Working}))
			}
			ch.Row.Status, ch.Row.Reason = store.Running, nil
		}
		next, err := e.stateAfter(ctx, c, ch)
		return next, b, err
	})
}

// ByPerson is the detail of a step that a person made, who is by, or "".
func ByPerson(by string, now int64) *thread.Detail {
	d := &thread.Detail{StartedAt: now, EndedAt: now, Attempts: []thread.Earlier{}, Context: []thread.ContextUse{}}
	if by != "" {
		d.By = &by
	}
	return d
}
