package web

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/gate"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/view"
)

// An asked is a gate as a page shows it. What is approved must have been seen: an action
// that has parts which are not known here is shown as it is kept, too.
type asked struct {
	G       store.Gate
	Ask     view.Asking
	Answers []view.Option // a button for each
	Agent   string        // that asks, "" where the flow does
	Action  gate.Action
	Cwd     string // where it would be done, when that is not the working tree of who asks
	Open    bool   // the parameters are part of what must be seen
	Exactly string // the action as it is kept, where Action is not all of it
	Diff    string // that is kept for it
	Lost    string // why what is kept for it cannot be shown: it is not to be approved then
	Forged  bool   // the digest is not that of the action
	Input   string // that can be approved in another form, "" where it cannot
	Now     time.Time
	Read    bool
}

// spelled are the types of actions whose parameters the headline and its points tell in words.
var spelled = map[string]bool{gate.Merging: true, gate.Raise: true, gate.FlowNode: true, gate.Attempt: true}

func (s *Server) asked(ctx context.Context, g store.Gate) (asked, error) {
	a := asked{G: g, Ask: view.Asks(g), Answers: view.AnswersOf(g), Now: time.Now(), Read: s.cfg.ReadOnly}
	a.Ask.Headline = strings.TrimPrefix(a.Ask.Headline, g.Node+" asks: ") // who asks stands below it
	if len(g.Action) > 0 {
		var whole bool
		if a.Action, whole, _ = view.Action(g); !whole {
			a.Exactly = string(g.Action)
		}
		a.Open = !spelled[a.Action.Type]
	}
	if d, err := gate.Digest(g.Thread, g.Action); g.Kind == store.GateApproval && (err != nil || d != g.Digest) {
		a.Forged = true
	}
	if input, err := gate.Input(g); err == nil {
		a.Input = string(input)
	}
	row, err := s.cfg.Store.Thread(ctx, g.Thread)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return a, err
	}
	if a.Action.Cwd != cmp.Or(row.Tree, row.Workspace) {
		a.Cwd = a.Action.Cwd
	}
	if g.Attempt != "" {
		at, err := s.cfg.Store.Attempt(ctx, g.Attempt)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return a, err
		}
		a.Agent = at.Agent
	}
	a.Diff, err = s.views.GateDiff(ctx, g)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) {
		a.Lost, err = err.Error(), nil
	}
	return a, err
}

// Who is the role that asks, and the agent that does it.
func (a asked) Who() string {
	who := cmp.Or(a.G.Node, string(a.G.Source))
	switch {
	case a.G.Source == store.SourceMerge, a.G.Source == store.SourceLimit, a.G.Source == store.SourceInterrupted:
		return "Plait"
	case a.G.Source == store.SourceFlow:
		return "gate " + who
	case a.Agent != "" && a.Agent != who:
		return who + " (" + a.Agent + ")"
	}
	return who
}

// asks are the open gates of a task.
func (s *Server) asks(ctx context.Context, id string) ([]asked, error) {
	open, err := s.views.Gates(ctx, view.GateFilter{Task: id, State: store.GateOpen})
	if err != nil {
		return nil, err
	}
	var out []asked
	for _, g := range open {
		a, err := s.asked(ctx, g)
		if err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, nil
}

// became says in a sentence what became of a task that was let go on, as soon as that can be
// told: a moment later it may have stopped again.
func (s *Server) became(ctx context.Context, id string) string {
	for last := time.Now().Add(becomes); ; {
		select {
		case <-s.ended.Done():
			return ""
		case <-time.After(becomes / 10):
		}
		row, err := s.cfg.Store.Thread(ctx, id)
		if err != nil {
			return ""
		}
		v, err := s.views.Task(ctx, row)
		if err != nil {
			return ""
		}
		drives, late := s.work.drives(id), time.Now().After(last)
		if said := s.cfg.Program.Says(s.work.said(id)); said != "" && !drives {
			return "The task stopped: " + said
		}
		why := ""
		if v.Display.Reason != "" {
			why = ": " + v.Display.Reason
		}
		switch {
		case v.Display.State == view.DisplayDone:
			return "The task is done."
		case v.Display.State == view.DisplayFailed && (!drives || row.Ended()):
			return "The task failed" + why
		case v.Display.State == view.DisplayCancelled:
			return "The task is cancelled."
		case v.Display.State == view.DisplayNeedsYou && (!drives || len(v.OpenGates()) > 0 || late):
			return "The task needs you" + why
		case v.Display.State == view.DisplayRunning:
			return "The task is running."
		case late:
			return "The task is " + string(v.Display.State) + why
		}
	}
}

// becomes is how long it is waited for what becomes of a task.
const becomes = time.Second
