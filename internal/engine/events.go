package engine

import (
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
)

// started returns the events of a thread that begins to run, none if it already runs.
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

func blockedEvents(row store.Thread, why store.Reason, now int64) []store.Event {
	var out []store.Event
	if why.Kind == store.ReasonLimit {
		out = append(out, event.New(row, now, event.LimitReached{Limit: why.Limit, Message: event.Text(why.Message)}))
	}
	out = append(out, event.New(row, now, event.ThreadBlocked{Kind: why.Kind, Message: event.Text(why.Message)}))
	if row.Kind == store.KindRoot {
		out = append(out, event.New(row, now, event.TaskUpdated{State: event.InputRequired}))
	}
	return out
}

// outcome returns the event for the instance whose attempts at the next step of row have all failed: for that
// reason the thread is blocked or ends. There is none if nothing was attempted since the thread last ran.
func (c *threadState) outcome(row store.Thread, state store.Status, why store.Reason, now int64) []store.Event {
	if len(c.Tries) == 0 {
		return nil
	}
	last := c.Tries[len(c.Tries)-1]
	if state != store.Cancelled {
		reported := row.Status == store.Blocked || last.EndedAt < row.UpdatedAt && last.Status != store.AttemptInterrupted
		if reported {
			return nil
		}
	}
	return []store.Event{event.OfAttempt(row, last, now, event.AgentEnded{
		State: state, Role: last.Role, Kind: why.Kind, Message: event.Text(why.Message),
	})}
}
