package web

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/gate"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/view"
)

// An asked is a gate as a page shows it. What is approved must have been seen: an action
// that has parts which are not known here is shown as it is kept, too.
type asked struct {
	G       store.Gate
	Answers []view.Option // a button for each
	Asker   string
	Action  gate.Action
	Exactly string // the action as it is kept, where Action is not all of it
	Diff    string // that is kept for it
	Lost    string // why what is kept for it cannot be shown: it is not to be approved then
	Forged  bool   // the digest is not that of the action
	Title   string // of the task
	Now     time.Time
	Read    bool
}

func (s *Server) asked(ctx context.Context, g store.Gate, title string) (asked, error) {
	a := asked{G: g, Answers: view.AnswersOf(g), Asker: view.Asker(g), Title: title, Now: time.Now(), Read: s.cfg.ReadOnly}
	if len(g.Action) > 0 {
		var whole bool
		if a.Action, whole, _ = view.Action(g); !whole {
			a.Exactly = string(g.Action)
		}
	}
	if d, err := gate.Digest(g.Thread, g.Action); g.Kind == store.GateApproval && (err != nil || d != g.Digest) {
		a.Forged = true
	}
	var err error
	a.Diff, err = s.views.GateDiff(ctx, g)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) {
		a.Lost, err = err.Error(), nil
	}
	return a, err
}

// asks are the open gates of a task.
func (s *Server) asks(ctx context.Context, id, title string) ([]asked, error) {
	open, err := s.views.Gates(ctx, view.GateFilter{Task: id, State: store.GateOpen})
	if err != nil {
		return nil, err
	}
	var out []asked
	for _, g := range open {
		a, err := s.asked(ctx, g, title)
		if err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, nil
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

// Bounds of the inbox: gates, tasks that failed, and tasks that have not ended.
const (
	shownGates  = 100
	shownFailed = 20
	shownLive   = 200
)

func (s *Server) inboxPage(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	live, err := s.views.Tasks(ctx, view.TaskFilter{
		Statuses: []store.Status{store.Pending, store.Running, store.Blocked}, Limit: shownLive + 1})
	if err != nil {
		return err
	}
	failed, err := s.views.Tasks(ctx, view.TaskFilter{State: view.Failed, Limit: shownFailed})
	if err != nil {
		return err
	}
	open, err := s.views.Gates(ctx, view.GateFilter{State: store.GateOpen})
	if err != nil {
		return err
	}
	var body struct {
		Gates           []asked
		MoreGates       int
		Stuck           []stuck
		Chats           []view.TaskRow // that a person has to go on with
		Working, Failed listed
		More            bool // there are more that have not ended
	}
	now := time.Now()
	body.Working.Now, body.Failed.Now = now, now
	if body.More = len(live) > shownLive; body.More {
		live = live[:shownLive]
	}
	titles, asks := map[string]string{}, map[string]bool{}
	for _, t := range live {
		titles[t.ID] = t.Title
	}
	for _, g := range open {
		asks[g.Task] = true
		if len(body.Gates) == shownGates {
			body.MoreGates++
			continue
		}
		title, known := titles[g.Task]
		if !known { // an older one
			row, err := s.cfg.Store.Thread(ctx, g.Task)
			if errors.Is(err, store.ErrNotFound) {
				continue // removed meanwhile
			}
			if err == nil {
				title, err = s.views.Title(ctx, row)
			}
			if err != nil {
				return err
			}
		}
		a, err := s.asked(ctx, g, title)
		if err != nil {
			return err
		}
		body.Gates = append(body.Gates, a)
	}
	for _, t := range live {
		switch {
		case t.Flow == flow.ChatFlow && !asks[t.ID] && t.Status != store.Running:
			body.Chats = append(body.Chats, t)
		case t.Status == view.Interrupted, t.Status == store.Blocked && !asks[t.ID]:
			body.Stuck = append(body.Stuck, s.stuck(ctx, t))
		case t.Status == store.Running, t.Status == store.Pending:
			body.Working.Tasks = append(body.Working.Tasks, t)
		}
	}
	for _, t := range failed {
		if now.Sub(time.UnixMilli(int64(t.UpdatedAt))) < recently {
			body.Failed.Tasks = append(body.Failed.Tasks, t)
		}
	}
	return s.show(w, r, http.StatusOK, "inbox", page{Title: "Inbox", Nav: "inbox", Waiting: len(open), Types: moves,
		Body: body})
}

func (s *Server) stuck(ctx context.Context, t view.TaskRow) stuck {
	out := stuck{ID: t.ID, Title: t.Title, Status: string(t.Status), Why: "the process that drove it is gone"}
	if row, err := s.cfg.Store.Thread(ctx, t.ID); err == nil && row.Reason != nil {
		out.Why = row.Reason.Message
	}
	return out
}
