package engine

import (
	"context"

	"github.com/plait-run/plait/internal/event"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/store"
)

// completeAtJoin completes a path in the batch of its last step: the one after which the
// join is next. It reports whether that is so.
func (e *Engine) completeAtJoin(next *threadState, batch *store.Batch) bool {
	if next.Row.Kind != store.KindPath {
		return false
	}
	d, ok := next.Next().(flow.AtJoin)
	if !ok {
		return false
	}
	now := next.Row.UpdatedAt
	next.Row.Status, next.Row.EndedAt, next.Row.InFlight = store.Completed, now, ""
	batch.Events = append(batch.Events, event.New(next.Row, now, event.ThreadEnded{
		Status: store.Completed, Head: next.Row.Head, Path: next.Row.Path.ID, Join: d.Join,
	}))
	return true
}

// atJoin ends a thread that has reached the join of its path: a path that a fork by hand has adopted, or a
// fork by hand from inside a path, which no thread waits for.
func (e *Engine) atJoin(ctx context.Context, c *threadState, d flow.AtJoin) (store.Thread, error) {
	if c.Row.Kind != store.KindPath {
		return e.end(ctx, c, flow.End{Summary: d.Summary()})
	}
	return e.endPath(ctx, c, store.Completed, nil)
}

// endPath commits that a path has ended where it is: a path writes no last step.
func (e *Engine) endPath(ctx context.Context, c *threadState, status store.Status, why *store.Reason) (store.Thread,
	error) {
	ctx = context.WithoutCancel(ctx)
	return e.change(ctx, c, func(row store.Thread, now int64) (store.Thread, []store.Event) {
		ended := event.ThreadEnded{Status: status, Head: row.Head, Path: row.Path.ID, Join: row.Path.Join}
		var events []store.Event
		if why != nil {
			ended.Summary = event.Text(why.Message)
			events = c.outcome(row, status, *why, now)
			why.Message = store.Text(why.Message)
		}
		events = append(events, event.New(row, now, ended))
		row.Status, row.Reason, row.InFlight, row.EndedAt = status, why, "", now
		return row, events
	})
}

// started returns the events of a thread that begins to run, none when it does
// already.
func started(row store.Thread, now int64) []store.Event {
	if row.Status != store.Pending {
		return nil
	}
	events := []store.Event{event.New(row, now, event.ThreadStarted{
		Flow: row.Flow, Start: row.Start, Head: row.Head, Kind: row.Kind, Parent: row.Parent,
	})}
	if row.Kind == store.KindRoot {
		events = append(events, event.New(row, now, event.TaskUpdated{State: event.Working}))
	}
	return events
}

// resumed returns the events of a thread that runs again.
func resumed(row store.Thread, now int64) []store.Event {
	events := []store.Event{event.New(row, now, event.ThreadResumed{From: row.Status, Head: row.Head})}
	if row.Kind == store.KindRoot && row.Status == store.Blocked {
		events = append(events, event.New(row, now, event.TaskUpdated{State: event.Working}))
	}
	return events
}
