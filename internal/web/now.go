package web

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/event"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/view"
)

// newest returns the newest events that the filter lets through, newest first.
func (s *Server) newest(ctx context.Context, f store.EventFilter) ([]store.Event, error) {
	f.Newest, f.Limit = true, shownEvents
	return s.cfg.Store.Events(ctx, 0, f)
}

// doing says what each instance of a task did last.
func (s *Server) doing(ctx context.Context, id string) (map[string]string, error) {
	events, err := s.newest(ctx, store.EventFilter{Task: id, Types: event.Types(event.AgentItems{})})
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, ev := range slices.Backward(events) {
		_, items := view.Items(ev)
		for _, it := range items {
			switch it.Kind {
			case agent.EventMessage:
				out[ev.Instance] = told(it.Text)
			case agent.EventCommand, agent.EventTool, agent.EventThought:
				if text := line(100, it.Text); text != "" {
					out[ev.Instance] = text
				}
			case agent.EventFile:
				for _, f := range it.Files {
					out[ev.Instance] = f.Change + " " + f.Path
				}
			}
		}
	}
	return out, nil
}

// told is a message in a line: what it says in words, "…" when that is nothing.
func told(text string) string {
	text = strings.TrimSpace(text)
	if rest, ok := strings.CutPrefix(text, "---\n"); ok {
		if _, body, ok := strings.Cut(rest, "\n---"); ok {
			text = body
		} else {
			text = ""
		}
	}
	var handed struct{ Summary string }
	if strings.HasPrefix(text, "{") && json.Unmarshal([]byte(text), &handed) == nil {
		text = handed.Summary // of a worker
	}
	if l := line(100, text); l != "" && l[0] != '{' && l[0] != '[' {
		return l
	}
	return "…"
}
