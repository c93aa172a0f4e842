package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/engine/attempt"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// An inputTarget is the thread that receives a person's input to a task, and the open question there that the
// input answers, if any.
type inputTarget struct {
	row      store.Thread
	question *store.Gate
}

// target returns where a person's input to a task goes: to the open question if there is exactly one, otherwise
// to the thread meant, by default the task's own. rows are those of the task, its own first; open are its open
// gates. A comment is about lines, and answers no question. Errors match attempt.ErrUsage.
func target(rows []store.Thread, open []store.Gate, meant string, comment bool) (inputTarget, error) {
	if comment {
		open = nil
	}
	var asking []inputTarget
	for _, row := range rows {
		asks, ok := waitsForInput(row, open)
		if !ok {
			continue
		}
		asking = append(asking, asks)
		if row.ID == meant {
			return asks, nil
		}
	}
	if meant == "" || meant == rows[0].ID {
		switch len(asking) {
		case 0:
		case 1:
			return asking[0], nil
		default:
			return inputTarget{}, attempt.Usage("several threads wait for input; name one of %s", listWaiting(asking))
		}
	}
	return inputTarget{row: recipient(rows, meant)}, nil
}

// waitsForInput reports whether a thread waits for a person's input, and the question that it asks. A
// conversation, or a thread left by an older version, has no question.
func waitsForInput(row store.Thread, open []store.Gate) (inputTarget, bool) {
	to := inputTarget{row: row}
	why := row.Reason
	if row.Status != store.Blocked || why == nil || why.Kind != store.ReasonInput && why.Kind != store.ReasonGate {
		return to, false
	}
	i := slices.IndexFunc(open, func(g store.Gate) bool {
		return g.Kind == store.GateInput && g.Thread == row.ID && (g.ID == why.Gate || why.Gate == "")
	})
	if i >= 0 {
		to.question = &open[i]
	}
	return to, i >= 0 || why.Kind == store.ReasonInput && why.Gate == ""
}

// recipient returns the thread that receives input for the thread id: the nearest one, from there up, that has
// not ended. An id of "" means the task's own thread.
func recipient(rows []store.Thread, id string) store.Thread {
	byID := make(map[string]store.Thread, len(rows))
	for _, t := range rows {
		byID[t.ID] = t
	}
	row, known := byID[id]
	for known && row.Ended() && row.Parent != nil {
		row, known = byID[row.Parent.Thread]
	}
	if !known {
		return rows[0]
	}
	return row
}

// listWaiting lists the threads that wait for a person, with their questions.
func listWaiting(asking []inputTarget) string {
	var list []string
	for _, a := range asking {
		name := a.row.ID
		if a.question != nil {
			name += fmt.Sprintf(" (gate %s: %s)", a.question.ID, event.Clip(a.question.Question, maxAsked))
		}
		list = append(list, name)
	}
	return strings.Join(list, ", ")
}

// maxAsked is how much of a question is listed, in bytes.
const maxAsked = 200

// waitsForOthers reports whether a thread waits for its paths, for a child, or to retry either.
func waitsForOthers(rows []store.Thread, row store.Thread) bool {
	return slices.ContainsFunc(rows, func(t store.Thread) bool {
		return t.Parent != nil && t.Parent.Thread == row.ID && !t.Ended()
	}) || row.Status == store.Blocked && row.Reason != nil && row.Reason.Kind == store.ReasonJoin
}

// CheckInput returns why a task cannot take a person's input now. meant names a thread of it, or is "". If
// driven is set, the task has a driver, and input that cannot be delivered immediately waits. Errors match
// attempt.ErrUsage.
func (e *Engine) CheckInput(ctx context.Context, task, meant string, comment, driven bool) error {
	rows, err := thread.Subtree(ctx, e.cfg.Store, task)
	if err != nil {
		return fmt.Errorf("read task %s: %w", task, err)
	}
	open, err := e.gates.Gates(ctx, store.GateFilter{Task: rows[0].Task, State: store.GateOpen})
	if err != nil {
		return fmt.Errorf("read the gates of task %s: %w", task, err)
	}
	to, err := target(rows, open, meant, comment)
	switch {
	case err == nil && meant != "" && to.row.ID != meant:
		return attempt.Usage("thread %s has ended", meant)
	case err != nil || driven || to.question != nil:
		return err
	}
	if waitsForOthers(rows, to.row) {
		return attempt.Usage("thread %s waits for its paths or a called flow, and none of them asks for input; "+
			"resume it without more, name one of them, or fork the task before they began", to.row.ID)
	}
	if asks, _, err := gateOf(ctx, e.gates, to.row); err != nil || asks != gateOpen {
		return err
	}
	return attempt.Usage("thread %s: %s", to.row.ID, to.row.Reason.Message)
}

// applyInput adds input to the thread that it is for if that is pending or blocked, or makes it the answer to
// the question there. A running thread takes it between two steps.
func (e *Engine) applyInput(ctx context.Context, rows []store.Thread, to inputTarget, w store.Request,
	held *ownership) (bool, error) {
	if g := to.question; g != nil {
		a := gate.Answer{Text: w.Text, By: w.By, Via: store.ViaResume}
		e.take(&a.Beside, to.row, w)
		// If another answer was first, the next pass sees it.
		return true, ignoreConflict(e.gates.Answer(ctx, g.ID, a))
	}
	if waitsForOthers(rows, to.row) || !held.tryLock(to.row.ID) {
		return false, nil
	}
	row, err := e.cfg.Store.Thread(ctx, to.row.ID)
	if err != nil || row.Status != store.Pending && row.Status != store.Blocked {
		return false, err
	}
	if asks, _, err := gateOf(ctx, e.gates, row); err != nil || asks != noGate {
		return false, err // what the thread asked comes first
	}
	if known, err := e.knowsInput(ctx, row, w); err != nil || known {
		return false, err
	}
	last, err := e.lastAttempt(ctx, row)
	if err != nil {
		return false, err
	}
	if why := row.Reason; row.Status == store.Blocked && why != nil && why.Failure == store.FailureInterrupted {
		return false, nil // a person denied that its attempt is repeated: it takes input once that is allowed
	}
	if row.Status == store.Blocked && last != nil && last.Status == store.AttemptInterrupted {
		return true, e.resume(ctx, row) // its driver first looks for unfinished attempts
	}
	return e.addInput(ctx, row, w)
}

// applyInputs adds the pending input of people to a thread that its owner drives, and returns its row.
func (e *Engine) applyInputs(ctx context.Context, row store.Thread) (store.Thread, error) {
	inputs, err := e.openInputs(ctx, row)
	if err != nil {
		return row, err
	}
	for _, w := range inputs {
		if _, err := e.addInput(ctx, row, w); err != nil {
			return row, err
		}
		if row, err = e.cfg.Store.Thread(ctx, row.ID); err != nil {
			return row, err
		}
	}
	return row, nil
}

// answered reports whether the next step of a thread takes the answer to a question that it asked. Input that came
// before it would make the question another one.
func (e *Engine) answered(ctx context.Context, row store.Thread) (bool, error) {
	from, err := e.beforeSummary(ctx, row.Head)
	if err != nil {
		return false, err
	}
	gates, err := e.cfg.Store.Gates(ctx, store.GateFilter{Thread: row.ID})
	return slices.ContainsFunc(gates, func(g store.Gate) bool {
		return g.From == from && g.State == store.GateAnswered
	}), err
}

// openInputs returns the input that a thread does not have yet, none while it waits for others.
func (e *Engine) openInputs(ctx context.Context, row store.Thread) ([]store.Request, error) {
	requests, err := e.cfg.Store.Requests(ctx, store.RequestFilter{Task: row.Task, Open: true})
	if err != nil {
		return nil, fmt.Errorf("read requests of task %s: %w", row.Task, err)
	}
	requests = slices.DeleteFunc(requests, func(w store.Request) bool { return w.Kind != store.RequestInput })
	if len(requests) == 0 {
		return nil, nil
	}
	if answered, err := e.answered(ctx, row); err != nil || answered {
		return nil, err
	}
	rows, err := thread.Subtree(ctx, e.cfg.Store, row.Root)
	if err != nil || waitsForOthers(rows, row) {
		return nil, err
	}
	var inputs []store.Request
	for _, w := range requests {
		if recipient(rows, w.Thread).ID != row.ID {
			continue
		}
		if known, err := e.knowsInput(ctx, row, w); err != nil {
			return nil, err
		} else if !known {
			inputs = append(inputs, w)
		}
	}
	return inputs, nil
}

// knowsInput reports whether the agent whose turn it is has seen the input, and still has it in its context.
func (e *Engine) knowsInput(ctx context.Context, row store.Thread, w store.Request) (bool, error) {
	c, _, err := e.load(ctx, row.ID, row.Head)
	return err == nil && c != nil && e.attempts.Knows(&c.Thread, w), err
}

// addInput commits input as a step of a thread, which runs again. The caller owns the thread. It reports false
// when the thread has moved.
func (e *Engine) addInput(ctx context.Context, row store.Thread, w store.Request) (bool, error) {
	c, _, err := e.load(ctx, row.ID, row.Head)
	if err != nil || c == nil {
		return false, err
	}
	if err := e.dropNext(ctx, c); err != nil {
		return false, err
	}
	return e.advance(ctx, c, func(row store.Thread) (*threadState, store.Batch, error) {
		now := e.now()
		draft := inputDraft(w, now)
		var err error
		if draft.Detail.Approvals, err = e.approvals(ctx, row); err != nil {
			return nil, store.Batch{}, err
		}
		next, ch, err := e.appended(ctx, c, draft)
		if err != nil {
			return nil, store.Batch{}, err
		}
		b := store.Batch{Objects: ch.Objects}
		e.take(&b, row, w)
		next.Row.InFlight, next.Row.UpdatedAt = "", now
		if row.Status != store.Pending { // otherwise the first attempt makes it run
			row.Head = next.Row.Head
			b.Events = append(b.Events, resumed(row, now)...)
			next.Row.Status, next.Row.Reason = store.Running, nil
		}
		return next, b, nil
	})
}

// inputDraft returns the step for a person's input.
func inputDraft(w store.Request, now int64) thread.Draft {
	meta := thread.InputMeta(string(cmp.Or(w.Via, store.ViaResume)), "")
	var r Resumption
	if json.Unmarshal(w.Options, &r) == nil && r.About != nil { // without options there is nothing to read
		meta = thread.CommentMeta(*r.About)
	}
	return thread.Draft{Role: thread.RoleInput, Meta: meta, Text: w.Text, Detail: thread.ByPerson(w.By, now, now), At: now}
}
