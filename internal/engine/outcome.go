package engine

import (
	"github.com/plait-run/plait/internal/event"
	"github.com/plait-run/plait/internal/store"
)

// outcome returns the event that says what came of the instance whose attempts at the next step of row
// have all failed: the thread is blocked, or ends, for that reason. There is none when nothing was
// attempted, or nothing since the thread last went on.
func (c *threadState) outcome(row store.Thread, state store.Status, why store.Reason, now int64) []store.Event {
	if len(c.Tries) == 0 {
		return nil
	}
	last := c.Tries[len(c.Tries)-1]
	if state != store.Cancelled {
		told := row.Status == store.Blocked || last.EndedAt < row.UpdatedAt && last.Status != store.AttemptInterrupted
		if told {
			return nil
		}
	}
	return []store.Event{event.OfAttempt(row, last, now, event.AgentEnded{
		State: state, Role: last.Role, Kind: why.Kind, Message: event.Text(why.Message),
	})}
}
