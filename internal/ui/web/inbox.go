package web

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view"
)

// taskQuestions is a task with its questions.
type taskQuestions struct {
	ID, Short, Title, Flow string
	Asked                  []gateCard
}

// A yourTurn is a conversation that waits for the person.
type yourTurn struct {
	view.TaskRow
	Last string // the last text in it
}

// recently is how far back the inbox shows failures.
const recently = 7 * 24 * time.Hour

// Limits of the inbox: gates, conversations, and failed tasks.
const (
	shownGates  = 100
	shownTurns  = 20
	shownFailed = 20
)

// An inbox lists what needs a person, and next to it what is running and what failed.
type inbox struct {
	Questions       []taskQuestions
	MoreGates       int
	Stuck           []view.TaskRow // not driven, and without a question
	Chats           []yourTurn
	Running, Failed []view.TaskRow
	More            bool // there are more unfinished tasks
	First           bool // there is no task yet
	Demo            bool // a demo can be started
	Codex           bool // the demo uses Codex
	Count           int
	Now             time.Time
}

func (s *Server) inboxPage(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	needs, err := s.needs(ctx)
	if err != nil {
		return err
	}
	live, err := s.views.Tasks(ctx, view.TaskFilter{
		Statuses: []store.Status{store.Pending, store.Running, store.Blocked}, Limit: shownLive + 1})
	if err != nil {
		return err
	}
	failed, err := s.views.Tasks(ctx, view.TaskFilter{State: view.Failed, Limit: shownFailed})
	if err != nil {
		return err
	}
	body := inbox{Now: time.Now(), Count: needs.count(), Demo: s.cfg.Demo != nil && !s.cfg.ReadOnly,
		Codex: s.cfg.Demo != nil && s.cfg.Demo.Codex}
	if body.More = len(live) > shownLive; body.More {
		live = live[:shownLive]
	}
	if err := s.questions(ctx, &body, needs.open, live); err != nil {
		return err
	}
	for _, t := range live {
		switch {
		case !needs.rows[t.ID]:
			if t.Display.State == view.DisplayRunning || t.Display.State == view.DisplayQueued {
				body.Running = append(body.Running, t)
			}
		case t.Flow == flow.ChatFlow && len(body.Chats) < shownTurns:
			last, err := s.lastSaid(ctx, t.ID)
			if err != nil {
				return err
			}
			body.Chats = append(body.Chats, yourTurn{t, last})
		default:
			body.Stuck = append(body.Stuck, t)
		}
	}
	for _, t := range failed {
		if body.Now.Sub(time.UnixMilli(int64(t.UpdatedAt))) < recently {
			body.Failed = append(body.Failed, t)
		}
	}
	if len(live)+len(failed) == 0 {
		any, err := s.cfg.Store.Threads(ctx, store.ThreadFilter{Workspace: s.cfg.Workspace, Kind: store.KindRoot, Limit: 1})
		if err != nil {
			return err
		}
		body.First = len(any) == 0
	}
	return s.show(w, r, http.StatusOK, "inbox", page{Title: "Inbox", Nav: "inbox", Waiting: body.Count,
		Types: stateEvents, Body: body})
}

// questions groups open gates by task. The task that asked first comes first.
func (s *Server) questions(ctx context.Context, body *inbox, open []store.Gate, live []view.TaskRow) error {
	shown := 0
	for _, g := range open {
		if shown == shownGates {
			body.MoreGates++
			continue
		}
		at := slices.IndexFunc(body.Questions, func(q taskQuestions) bool { return q.ID == g.Task })
		if at < 0 {
			q := taskQuestions{ID: g.Task}
			if i := slices.IndexFunc(live, func(t view.TaskRow) bool { return t.ID == g.Task }); i >= 0 {
				q.Title, q.Short, q.Flow = live[i].Title, live[i].Short, live[i].Flow
			} else { // not in the list of recent tasks
				row, err := s.cfg.Store.Thread(ctx, g.Task)
				if errors.Is(err, store.ErrNotFound) {
					continue // removed in the meantime
				}
				if err == nil {
					q.Short, q.Flow = row.Short, row.Flow
					q.Title, err = s.views.Title(ctx, row)
				}
				if err != nil {
					return err
				}
			}
			at = len(body.Questions)
			body.Questions = append(body.Questions, q)
		}
		a, err := s.newGateCard(ctx, g)
		if err != nil {
			return err
		}
		body.Questions[at].Asked = append(body.Questions[at].Asked, a)
		shown++
	}
	return nil
}

// lastSaid returns what a thread has come to so far.
func (s *Server) lastSaid(ctx context.Context, id string) (string, error) {
	row, err := s.cfg.Store.Thread(ctx, id)
	if err != nil || row.Head.IsZero() {
		return "", err
	}
	r, err := s.views.Result(ctx, row)
	return withoutFrontMatter(r.Text), err
}

// An answered is an answered gate in the list of answers.
type answered struct {
	G      store.Gate
	Ask    view.Phrasing
	Title  string // of its task
	Short  string
	Answer string // in one word
}

// shownAnswers limits the list of answers.
const shownAnswers = 200

// verdicts are the words for gates that are no longer open.
var verdicts = map[store.GateState]string{store.GateApproved: "approved", store.GateRejected: "denied",
	store.GateAnswered: "answered", store.GateExpired: "expired", store.GateWithdrawn: "withdrawn"}

func verdictOf(g store.Gate) string {
	if g.Edited != nil {
		return "approved with another input"
	}
	return verdicts[g.State]
}

// answersPage lists the answers: who, when, and through which channel.
func (s *Server) answersPage(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	gates, err := s.views.Gates(ctx, view.GateFilter{})
	if err != nil {
		return err
	}
	gates = slices.DeleteFunc(gates, func(g store.Gate) bool { return g.State == store.GateOpen })
	slices.SortStableFunc(gates, func(a, b store.Gate) int { return int(b.AnsweredAt - a.AnsweredAt) })
	body := struct {
		Answers []answered
		More    int
	}{More: max(0, len(gates)-shownAnswers)}
	type about struct{ title, short string }
	known := map[string]about{}
	for _, g := range gates[:min(len(gates), shownAnswers)] {
		of, ok := known[g.Task]
		if !ok {
			row, err := s.cfg.Store.Thread(ctx, g.Task)
			if err == nil {
				of.short = row.Short
				of.title, err = s.views.Title(ctx, row)
			}
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return err
			}
			known[g.Task] = of
		}
		body.Answers = append(body.Answers, answered{g, view.PhrasingOf(g), of.title, of.short, verdictOf(g)})
	}
	return s.show(w, r, http.StatusOK, "answers", page{Title: "Answers", Nav: "inbox", Types: stateEvents, Body: body,
		Crumbs: []crumb{{"Inbox", "/"}, {"Answers", ""}}})
}
