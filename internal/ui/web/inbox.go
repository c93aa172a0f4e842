package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

// recently is how far back the inbox shows failures.
const recently = 7 * 24 * time.Hour

// Limits of the inbox: gates, conversations, failed tasks, and those that are done.
const (
	shownGates  = 100
	shownTurns  = 20
	shownFailed = 20
	shownEnded  = 20
)

// An inbox lists what needs a person, and what stopped, runs and is done, with all of what is chosen beside it.
type inbox struct {
	Groups    []inboxGroup
	MoreGates int
	Count     int
	More      bool // there are more unfinished tasks
	First     bool // there is no task yet
	Demo      bool // a demo can be started
	Codex     bool // the demo uses Codex
	Opened    bool // something is chosen by the address

	Chosen *inboxItem // nil if there is nothing to choose
	Gate   *gateCard
	Row    *view.TaskRow
	Last   string  // of a conversation: the last text in it
	Result *output // of a task that is done
}

// An inboxGroup is what is in one situation.
type inboxGroup struct {
	Name, Note string
	Items      []inboxItem
}

// stoppedGroup is the group of what can be dismissed.
const stoppedGroup = "Stopped"

// Dismiss returns the tasks of the group that can be dismissed, separated by spaces.
func (g inboxGroup) Dismiss() string {
	if g.Name != stoppedGroup {
		return ""
	}
	var ids []string
	for _, i := range g.Items {
		ids = append(ids, i.Key)
	}
	return strings.Join(ids, " ")
}

// An inboxItem is a question, or a task.
type inboxItem struct {
	Key     string // in the address
	State   view.DisplayState
	Text    string
	Code    string // continues Text
	About   string
	When    string
	Current bool

	gate *store.Gate
	row  *view.TaskRow
}

func (s *Server) inboxPage(w http.ResponseWriter, r *http.Request) error {
	ctx, now := r.Context(), time.Now()
	needs, err := s.needs(ctx)
	if err != nil {
		return err
	}
	live, err := s.views.Tasks(ctx, view.TaskFilter{
		Statuses: []store.Status{store.Pending, store.Running, store.Blocked}, Limit: shownLive + 1})
	if err != nil {
		return err
	}
	failed, err := s.views.Tasks(ctx, view.TaskFilter{State: view.Failed, Ended: now.Add(-recently).UnixMilli(),
		Told: true, Limit: shownFailed})
	if err != nil {
		return err
	}
	today := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location()).UnixMilli()
	done, err := s.views.Tasks(ctx, view.TaskFilter{State: view.Completed, Ended: today, Limit: shownEnded})
	if err != nil {
		return err
	}
	spent, err := s.views.Costs(ctx, view.TaskFilter{Since: today}, view.CostByFlow)
	if err != nil {
		return err
	}
	body := inbox{Count: needs.count(), Demo: s.cfg.Demo != nil && !s.cfg.ReadOnly,
		Codex: s.cfg.Demo != nil && s.cfg.Demo.Codex}
	if body.More = len(live) > shownLive; body.More {
		live = live[:shownLive]
	}
	at := r.URL.Query().Get("at")
	shown := shownQuestions(needs.open, at)
	body.MoreGates = len(needs.open) - len(shown)
	questions, err := s.questions(ctx, shown, live, now)
	if err != nil {
		return err
	}
	var stopped, running []inboxItem
	chats := 0
	for _, t := range live {
		switch {
		case !needs.rows[t.ID]:
			if t.Display.State == view.DisplayRunning || t.Display.State == view.DisplayQueued {
				running = append(running, taskItem(t, now))
			}
		case t.Flow == flow.ChatFlow && chats < shownTurns:
			chats++
			questions = append(questions, taskItem(t, now))
		default:
			stopped = append(stopped, taskItem(t, now))
		}
	}
	note := ""
	if cost := spent.Total.Usage.CostMicroUSD; cost > 0 {
		note = text.Dollars(cost) + " today"
	}
	body.Groups = []inboxGroup{{"Needs you", "", questions},
		{stoppedGroup, "", append(stopped, taskItems(failed, now)...)}, {"Running", "", running},
		{"Done today", note, taskItems(done, now)}}
	if len(live)+len(failed) == 0 {
		any, err := s.cfg.Store.Threads(ctx, store.ThreadFilter{Workspace: s.cfg.Workspace, Kind: store.KindRoot, Limit: 1})
		if err != nil {
			return err
		}
		body.First = len(any) == 0
	}
	if err := s.choose(ctx, &body, at); err != nil {
		return err
	}
	return s.show(w, r, http.StatusOK, "inbox", page{Title: "Inbox", Nav: "inbox", Waiting: body.Count,
		Types: stateEvents, Body: body})
}

// choose reads all of what is chosen: the item at, or the first if there is none of that name any more.
func (s *Server) choose(ctx context.Context, body *inbox, at string) error {
	for g := range body.Groups {
		for i := range body.Groups[g].Items {
			if one := &body.Groups[g].Items[i]; body.Chosen == nil || one.Key == at {
				body.Chosen, body.Opened = one, one.Key == at
			}
		}
	}
	c := body.Chosen
	if c == nil {
		return nil
	}
	c.Current = true
	if c.gate != nil {
		a, err := s.newGateCard(ctx, *c.gate)
		body.Gate = &a
		if err != nil {
			return err
		}
		row, err := s.cfg.Store.Thread(ctx, c.gate.Task)
		if err != nil {
			return err
		}
		rec, tl, err := s.recordOf(ctx, row)
		if err != nil {
			return err
		}
		return s.soFar(ctx, &a, rec, tl)
	}
	body.Row = c.row
	var err error
	if c.row.Flow == flow.ChatFlow {
		body.Last, err = s.lastSaid(ctx, c.row.ID)
	} else if c.row.Display.State == view.DisplayDone {
		var row store.Thread
		if row, err = s.cfg.Store.Thread(ctx, c.row.ID); err == nil {
			body.Result, err = s.result(ctx, row)
		}
	}
	return err
}

// taskItem returns a task as an item.
func taskItem(t view.TaskRow, now time.Time) inboxItem {
	about := t.Flow
	if t.Display.Reason != "" {
		about = line(160, t.Display.Reason)
	} else if cost := t.Usage.CostMicroUSD; cost > 0 {
		about += " · " + text.Dollars(cost)
	}
	i := inboxItem{Key: t.ID, State: t.Display.State, Text: cmp.Or(line(120, t.Title), "(no title)"), About: about,
		When: ago(now, time.UnixMilli(int64(t.UpdatedAt))), row: &t}
	if c := t.Controller; c != nil && c.Total > 0 && t.Display.State == view.DisplayRunning {
		i.When = fmt.Sprintf("%d of %d", c.Done, c.Total)
	}
	return i
}

func taskItems(rows []view.TaskRow, now time.Time) (list []inboxItem) {
	for _, t := range rows {
		list = append(list, taskItem(t, now))
	}
	return list
}

// shownQuestions returns the first of the open gates, and the one with the id at.
func shownQuestions(open []store.Gate, at string) []store.Gate {
	shown := open[:min(len(open), shownGates)]
	if i := slices.IndexFunc(open, func(g store.Gate) bool { return g.ID == at }); i >= shownGates {
		shown = append(slices.Clone(shown), open[i])
	}
	return shown
}

// questions returns open gates, those of one task together. The task that asked first comes first.
func (s *Server) questions(ctx context.Context, open []store.Gate, live []view.TaskRow, now time.Time) ([]inboxItem,
	error) {
	var list []inboxItem
	titles := map[string]string{}
	place := map[string]int{} // of tasks
	for _, t := range live {
		titles[t.ID] = t.Title
	}
	for _, g := range open {
		title, known := titles[g.Task]
		if !known { // not in the list of recent tasks
			row, err := s.cfg.Store.Thread(ctx, g.Task)
			if errors.Is(err, store.ErrNotFound) {
				continue // removed in the meantime
			}
			if err == nil {
				title, err = s.views.Title(ctx, row)
			}
			if err != nil {
				return nil, err
			}
			titles[g.Task] = title
		}
		if _, ok := place[g.Task]; !ok {
			place[g.Task] = len(place)
		}
		ask := view.PhrasingOf(g)
		list = append(list, inboxItem{Key: g.ID, State: view.DisplayNeedsYou,
			Text: line(200, strings.TrimPrefix(ask.Headline, g.Node+" asks: ")), Code: ask.Code,
			About: cmp.Or(line(80, title), "(no title)") + " · " + view.Asker(g), When: text.Ago(g.OpenedAt, now), gate: &g})
	}
	slices.SortStableFunc(list, func(a, b inboxItem) int {
		return cmp.Compare(place[a.gate.Task], place[b.gate.Task])
	})
	return list, nil
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
