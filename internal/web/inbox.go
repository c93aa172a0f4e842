package web

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/plait-run/plait/internal/gate"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/view"
)

// An asked is a gate as a page shows it.
type asked struct {
	G      store.Gate
	Action *gate.Action // what exactly, nil for a question
	Title  string       // of the task
	Now    time.Time
	Read   bool
}

func (s *Server) asked(g store.Gate, title string) asked {
	a := asked{G: g, Title: title, Now: time.Now(), Read: s.cfg.ReadOnly}
	if len(g.Action) > 0 && string(g.Action) != "null" {
		a.Action = new(gate.Action)
		if json.Unmarshal(g.Action, a.Action) != nil {
			a.Action = nil // it is shown by its question alone
		}
	}
	return a
}

// listed are tasks in a table.
type listed struct {
	Tasks []view.TaskRow
	Now   time.Time
}

// A stuck task goes on when somebody asks it to.
type stuck struct{ ID, Title, Status, Why string }

// recently is how far back failures are in the inbox.
const recently = 7 * 24 * time.Hour

func (s *Server) inboxPage(w http.ResponseWriter, r *http.Request) error {
	rows, err := s.book.Tasks(r.Context(), view.TaskFilter{})
	if err != nil {
		return err
	}
	open, err := s.open(r.Context(), "")
	if err != nil {
		return err
	}
	titles, asks := map[string]string{}, map[string]bool{}
	var body struct {
		Gates           []asked
		Stuck           []stuck
		Working, Failed listed
	}
	now := time.Now()
	body.Working.Now, body.Failed.Now = now, now
	for _, t := range rows {
		titles[t.ID] = t.Title
	}
	for _, g := range open {
		title, ok := titles[g.Task]
		if !ok {
			continue // another workspace's
		}
		asks[g.Task] = true
		body.Gates = append(body.Gates, s.asked(g, title))
	}
	for _, t := range rows {
		switch {
		case t.Status == store.Failed && now.Sub(time.UnixMilli(int64(t.UpdatedAt))) < recently:
			body.Failed.Tasks = append(body.Failed.Tasks, t)
		case t.Status == "interrupted", t.Status == store.Blocked && !asks[t.ID]:
			body.Stuck = append(body.Stuck, s.stuck(r.Context(), t))
		case t.Status == store.Running, t.Status == store.Pending:
			body.Working.Tasks = append(body.Working.Tasks, t)
		}
	}
	return s.show(w, r, http.StatusOK, "inbox", page{Title: "Inbox", Nav: "inbox", Body: body})
}

func (s *Server) stuck(ctx context.Context, t view.TaskRow) stuck {
	out := stuck{ID: t.ID, Title: t.Title, Status: t.Status, Why: "the process that drove it is gone"}
	if row, err := s.cfg.Store.Thread(ctx, t.ID); err == nil && row.Reason != nil {
		out.Why = row.Reason.Message
	}
	return out
}
