package web

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view"
	"github.com/plait-run/plait/internal/view/advice"
)

// A gateCard is a gate as a page shows it. People must see all that they approve, so an action with
// unknown parts is also shown as stored.
type gateCard struct {
	G       store.Gate
	Ask     view.Phrasing
	Answers []advice.Option // a button for each
	Agent   string          // the agent that asks, "" if the flow does
	Action  gate.Action
	Cwd     string    // where the action would run, if that is not the agent's working tree
	Open    bool      // the parameters must be seen, so they are shown unfolded
	Exactly string    // the stored action, if Action is not all of it
	Diff    *diffView // the change that it asks about, or nil
	SoFar   *diffView // what was changed before an approval that asks about no change, or nil; see soFar
	Lost    string    // why the diff cannot be shown; the gate cannot be approved then
	Forged  bool      // the digest does not match the action
	Input   string    // what can be edited before approving, "" if nothing can
	Now     time.Time
	Read    bool
}

// A gateStrip is a gate in one strip. If it is chosen, all of it is shown elsewhere on the page.
type gateStrip struct {
	Gate   gateCard
	Chosen bool
	Link   string
}

// Session reports whether the same action can be approved for the rest of the thread.
func (a gateCard) Session() bool {
	return a.G.Kind == store.GateApproval && a.G.Source == store.SourceAgent
}

// phrasedTypes are the types of actions whose headline and points cover everything in the parameters.
var phrasedTypes = map[string]bool{gate.Merging: true, gate.Raise: true, gate.FlowNode: true, gate.Attempt: true}

func (s *Server) newGateCard(ctx context.Context, g store.Gate) (gateCard, error) {
	a := gateCard{G: g, Ask: view.PhrasingOf(g), Answers: view.AnswersOf(g), Now: time.Now(), Read: s.cfg.ReadOnly}
	a.Ask.Headline = strings.TrimPrefix(a.Ask.Headline, g.Node+" asks: ") // the page shows who asks below
	if len(g.Action) > 0 {
		var whole bool
		if a.Action, whole, _ = view.Action(g); !whole {
			a.Exactly = string(g.Action)
		}
		a.Open = !phrasedTypes[a.Action.Type]
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
	files, err := s.gateFiles(ctx, g)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) {
		a.Lost, err = err.Error(), nil
	}
	if len(files) > 0 {
		a.Diff = newDiffView(files, gateDiffOptions(g))
		a.Diff.Patch = "/gates/" + g.ID + "/patch"
		if !a.Read {
			a.Diff.Remark = &remark{Reason: true}
		}
	}
	return a, err
}

// Who returns the role that asks, and its agent.
func (a gateCard) Who() string {
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

// soFar sets what the thread of an approval has changed, or else its task, as steps recorded it.
func (s *Server) soFar(ctx context.Context, a *gateCard, rec view.TaskRecord, tl view.Timeline) error {
	if a.G.Kind != store.GateApproval || a.Diff != nil || a.G.Source == store.SourceMerge {
		return nil
	}
	log, err := s.changeLog(ctx, rec, tl)
	if err != nil {
		return err
	}
	list := slices.DeleteFunc(log.each, func(c treeChange) bool { return c.thread != a.G.Thread })
	if len(list) == 0 {
		list = log.own
	}
	if len(list) == 0 {
		return nil
	}
	from, to := list[0].from, list[len(list)-1].to
	if files, _ := s.patchBetween(ctx, rec.Root, from, to); len(files) > 0 {
		a.SoFar = newDiffView(files, diffOptions{id: "sofar", at: changesLink(rec.Root.ID, from, to), from: from, to: to})
	}
	return ctx.Err()
}

// openQuestions returns the open gates of a task.
func (s *Server) openQuestions(ctx context.Context, id string) ([]gateCard, error) {
	open, err := s.views.Gates(ctx, view.GateFilter{Task: id, State: store.GateOpen})
	if err != nil {
		return nil, err
	}
	var out []gateCard
	for _, g := range open {
		a, err := s.newGateCard(ctx, g)
		if err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, nil
}

// outcomeSoon returns a sentence about what a task did after it was resumed, as soon as that is known: a
// task may stop again shortly after.
func (s *Server) outcomeSoon(ctx context.Context, id string) string {
	for last := time.Now().Add(outcomeWait); ; {
		select {
		case <-s.ended.Done():
			return ""
		case <-time.After(outcomeWait / 10):
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
		if said := s.stopped(id); said != "" && !drives {
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

// outcomeWait is how long outcomeSoon waits for an outcome.
const outcomeWait = time.Second
