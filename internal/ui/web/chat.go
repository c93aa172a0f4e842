package web

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/view"
)

func (s *Server) chatsPage(w http.ResponseWriter, r *http.Request) error {
	rows, err := s.views.Tasks(r.Context(), view.TaskFilter{Flow: flow.ChatFlow, Limit: shownTasks})
	if err != nil {
		return err
	}
	body := struct{ Chats []view.TaskRow }{rows}
	return s.show(w, r, http.StatusOK, "chats", page{Title: "Chats", Nav: "chats", Types: stateEvents, Body: body})
}

// A turn is one step of a conversation, by a person or the agent.
type turn struct {
	view.Step
	Person bool
	Last   bool // it is the last one
}

// withoutFrontMatter returns an agent's text without its front matter.
func withoutFrontMatter(text string) string {
	rest, ok := strings.CutPrefix(strings.TrimLeft(text, "\r\n"), "---\n")
	if !ok {
		return text
	}
	if _, body, ok := strings.Cut(rest, "\n---\n"); ok && strings.TrimSpace(body) != "" {
		return strings.TrimLeft(body, "\n")
	}
	return text
}

// A runningAttempt is an attempt at the next turn, and its activity so far.
type runningAttempt struct {
	store.Attempt
	Items []doneItem
}

// maxRunningItems limits the activity of a running attempt that a page shows.
const maxRunningItems = 50

func (s *Server) chatPage(w http.ResponseWriter, r *http.Request, row store.Thread) error {
	ctx := r.Context()
	if row.Flow != flow.ChatFlow {
		return notFound("task %s is not a conversation", row.ID)
	}
	v, err := s.views.About(ctx, row)
	if err != nil {
		return err
	}
	from, older, _, err := window(r, row.Steps)
	if err != nil {
		return err
	}
	if v.Steps, err = s.views.Steps(ctx, row, from, shownSteps); err != nil {
		return err
	}
	var body struct {
		V            *view.Thread
		Begun        int64 // ms
		Opening      string
		Turns        []turn
		Older        int
		Trying       []runningAttempt
		Gates        []gateCard
		Waiting      []store.Request // messages not yet passed to the agent
		Over, Driven bool
		Ours         bool // this server drives it
		Said         string
	}
	body.V, body.Older, body.Begun, body.Over = v, older, row.CreatedAt, row.Ended()
	body.Ours, body.Driven = s.work.drives(row.ID), s.views.Driven(ctx, row.ID)
	body.Said = s.stopped(row.ID)
	if from == 1 {
		body.Opening = v.Prompt
	}
	for _, st := range v.Steps {
		if st.Role == thread.RoleEnd {
			continue
		}
		one := turn{Step: st, Person: st.Role == thread.RoleInput}
		if !one.Person {
			one.Text = withoutFrontMatter(st.Text)
		}
		body.Turns = append(body.Turns, one)
		v.Usage = v.Usage.Add(st.Usage)
	}
	if n := len(body.Turns); n > 0 {
		body.Turns[n-1].Last = true
	}
	if len(v.Trying) > 0 {
		events, err := s.newest(ctx, store.EventFilter{Task: row.Task, Thread: row.ID,
			Types: event.Types(event.AgentItems{})})
		if err != nil {
			return err
		}
		slices.Reverse(events)
		for _, at := range v.Trying {
			body.Trying = append(body.Trying, runningAttempt{at, recentItems(events, at.ID)})
		}
	}
	if body.Waiting, err = s.pendingInput(ctx, row); err != nil {
		return err
	}
	title := line(60, v.Prompt)
	if body.Gates, err = s.openQuestions(ctx, row.ID); err != nil {
		return err
	}
	return s.show(w, r, http.StatusOK, "chat", page{
		Title: title, Nav: "chats", Follow: row.ID, Body: body, Crumbs: []crumb{{"Chats", "/chats"}, {title, ""}},
	})
}

// pendingInput returns the messages to a task that have not been processed yet.
func (s *Server) pendingInput(ctx context.Context, row store.Thread) ([]store.Request, error) {
	open, err := s.cfg.Store.Requests(ctx, store.RequestFilter{Task: row.Task, Open: true})
	return slices.DeleteFunc(open, func(w store.Request) bool { return w.Kind != store.RequestInput }), err
}

// recentItems returns the recent activity of an attempt from ordered events.
func recentItems(events []store.Event, attempt string) []doneItem {
	var all []doneItem
	at := map[string]int{} // index of the newest update of each item
	for _, ev := range events {
		if ev.Attempt != attempt {
			continue
		}
		_, items := view.Items(ev)
		for _, it := range items {
			if it.Kind == agent.EventUsage {
				continue
			}
			if i, ok := at[it.ID]; ok && it.ID != "" {
				all[i].Event = merged(all[i].Event, it)
				continue
			}
			at[it.ID] = len(all)
			all = append(all, doneItem{Event: it, N: len(all)})
		}
	}
	return all[max(0, len(all)-maxRunningItems):]
}

// merged applies an update to an item. An update has only what changed.
func merged(old, now agent.Event) agent.Event {
	if now.Phase == "updated" && now.Kind != agent.EventPlan {
		now.Output = tailOf(old.Output + now.Output)
		if now.Kind == agent.EventMessage {
			now.Text = old.Text + now.Text
		}
	}
	now.Text = cmp.Or(now.Text, old.Text)
	now.Output = cmp.Or(now.Output, old.Output)
	return now
}

// shownOutput limits the output of a running item that a page shows, in bytes.
const shownOutput = 16 << 10

func tailOf(s string) string {
	return strings.ToValidUTF8(s[max(0, len(s)-shownOutput):], "")
}
