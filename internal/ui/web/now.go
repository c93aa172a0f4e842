package web

import (
	"cmp"
	"context"

	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view"
)

// newest returns the newest events that the filter selects, newest first.
func (s *Server) newest(ctx context.Context, f store.EventFilter) ([]store.Event, error) {
	f.Newest, f.Limit = true, shownEvents
	return s.cfg.Store.Events(ctx, 0, f)
}

// doing returns what each instance of a task did last.
func (s *Server) doing(ctx context.Context, id string) (map[string]string, error) {
	events, err := s.newest(ctx, store.EventFilter{Task: id, Types: event.Types(event.AgentItems{})})
	return view.LastActivity(events), err
}

// An eventLine is an event as a page shows it.
type eventLine struct {
	Pos, TS int64
	Type    string
	Who     string
	Texts   []string
}

// eventLines describes events of a task in sentences, in order. An event that this version does not
// know is shown as it is.
func eventLines(events []store.Event, t view.Task, named func(string) string) []eventLine {
	labels := map[string]string{}
	for _, th := range t.Threads {
		labels[th.ID] = th.Label
	}
	n := view.NewNarrator(labels)
	n.All, n.Named = true, named
	for _, m := range t.Roster {
		n.Acts[m.Thread] = m.Action != ""
	}
	out := make([]eventLine, 0, len(events))
	for _, ev := range events {
		h := eventLine{Pos: ev.Pos, TS: ev.TS, Type: ev.Type, Who: cmp.Or(n.Label(ev.Thread), ev.Instance)}
		for _, s := range n.Tell(ev) {
			h.Who = s.Who
			h.Texts = append(h.Texts, s.Text)
		}
		if event.Read(ev) == nil {
			h.Texts = []string{line(160, string(ev.Payload))}
		}
		if len(h.Texts) > 0 || h.Type != event.Types(event.AgentItems{})[0] { // there is something to show
			out = append(out, h)
		}
	}
	return out
}

// shownEvents limits the events on a task's page.
const shownEvents = 200
