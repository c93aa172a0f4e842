package view

import (
	"context"
	"slices"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// A Thread is the state of a thread, and its steps.
type Thread struct {
	ID          string            `json:"id"`
	Task        string            `json:"task"`
	Kind        store.ThreadKind  `json:"kind"`
	Flow        string            `json:"flow"`
	Status      store.Status      `json:"status"` // may be interrupted
	Reason      *store.Reason     `json:"reason"`
	Start       dag.Hash          `json:"start"`
	Head        dag.Hash          `json:"head"`
	Bundle      dag.Hash          `json:"bundle"`
	ParentState dag.Hash          `json:"parentState"` // the calling state
	Depth       int               `json:"depth"`       // 0 is the top
	Parent      *store.Parent     `json:"parent"`
	Path        *store.Path       `json:"path"`
	ForkedFrom  *store.ForkedFrom `json:"forkedFrom"`
	Workspace   string            `json:"workspace"`
	Prompt      string            `json:"prompt"`
	Usage       store.Usage       `json:"usage"`    // of Steps and running attempts
	Steps       []Step            `json:"steps"`    // oldest first
	Trying      []store.Attempt   `json:"trying"`   // attempts at the step after the head
	WaitsFor    []Below           `json:"waitsFor"` // paths and calls that have not ended

	Next int `json:"next,omitempty"` // see [Reader.Thread]

	Count      int `json:"-"` // number of steps, those that are not in Steps included
	Summarized int `json:"-"` // number of steps that the newest summary replaces
	Own        int `json:"-"` // number of the first step of its own, for a path, or 0
}

// A Below is a path or a call of a thread.
type Below struct {
	ID     string           `json:"id"`
	Kind   store.ThreadKind `json:"kind"`
	Flow   string           `json:"flow"`
	Path   *store.Path      `json:"path"`
	Status store.Status     `json:"status"`
	Reason *store.Reason    `json:"reason"`
	Steps  int              `json:"steps"` // count
}

// Thread reads a thread with only its newest n steps (0: all) before step number before (0: the end). Next is the
// value of before for the preceding steps, 0 if there are none. Summarized and Own are set only with all steps.
func (b *Reader) Thread(ctx context.Context, row store.Thread, before, n int) (*Thread, error) {
	v, err := b.About(ctx, row)
	if err != nil {
		return nil, err
	}
	from, most := 1, 0
	if before > 0 || n > 0 {
		last := row.Steps
		if before > 0 {
			last = min(last, before-1)
		}
		if n > 0 {
			from = max(1, last-n+1)
		}
		if most = last - from + 1; most <= 0 {
			return v, nil
		}
	}
	if v.Steps, err = b.Steps(ctx, row, from, most); err != nil {
		return nil, err
	}
	for _, s := range v.Steps {
		v.Usage = v.Usage.Add(s.Usage)
	}
	if from > 1 {
		v.Next = from
	}
	if most == 0 {
		v.fillOwn()
	}
	return v, nil
}

// fillOwn sets what all steps of a thread say about it.
func (v *Thread) fillOwn() {
	if v.Path != nil && v.Path.Fork == v.Start {
		v.Own = 1
	}
	for i, s := range v.Steps {
		if v.Path != nil && s.Hash == v.Path.Fork {
			v.Own = i + 2
		}
		if !s.Compact.IsZero() {
			v.Summarized = i
		}
	}
}

// About reads a thread without its steps: Steps is empty, Usage has only running attempts,
// Summarized and Own are 0. Its cost does not depend on the number of steps.
func (b *Reader) About(ctx context.Context, row store.Thread) (*Thread, error) {
	start, err := b.Nodes.Start(ctx, row.Start)
	if err != nil {
		return nil, err
	}
	statuses := b.statuses()
	v := &Thread{
		ID: row.ID, Task: row.Task, Flow: row.Flow, Status: statuses.of(ctx, row), Reason: row.Reason,
		Start: row.Start, Head: row.Head, Bundle: row.Bundle, ParentState: start.ParentState, Depth: start.Depth,
		Kind: row.Kind, Parent: row.Parent, Path: row.Path,
		ForkedFrom: row.ForkedFrom, Workspace: row.Workspace, Steps: []Step{}, WaitsFor: []Below{}, Count: row.Steps,
	}
	if v.Prompt, err = b.Nodes.Text(ctx, start.Prompt); err != nil {
		return nil, err
	}
	lineage, err := thread.ReadLineage(ctx, b.Store, row)
	if err != nil {
		return nil, err
	}
	if v.Trying, err = b.trying(ctx, row); err != nil {
		return nil, err
	}
	for _, at := range v.Trying {
		v.Usage = v.Usage.Add(at.Usage)
	}
	for _, t := range lineage.Children(row.ID) {
		if !t.Ended() {
			v.WaitsFor = append(v.WaitsFor, Below{t.ID, t.Kind, t.Flow, t.Path, statuses.of(ctx, t), t.Reason, t.Steps})
		}
	}
	return v, nil
}

// trying returns the attempts at the step after a thread's head, or at the one that it ended without.
func (b *Reader) trying(ctx context.Context, row store.Thread) ([]store.Attempt, error) {
	from, err := b.Nodes.BeforeEnd(ctx, row.Head)
	if err != nil {
		return nil, err
	}
	attempts, err := b.Store.Attempts(ctx, store.AttemptFilter{Thread: row.ID, From: from})
	if err != nil {
		return nil, err
	}
	out := []store.Attempt{}
	for _, at := range attempts {
		if at.From == from && at.Status != store.AttemptDone { // an empty filter would select all
			out = append(out, at)
		}
	}
	return out, nil
}

// Steps reads at most n steps of a thread, oldest first, starting with number from; n 0 means all
// of them. Between the head and those only states are read, no texts, so the newest steps are the
// cheapest.
func (b *Reader) Steps(ctx context.Context, row store.Thread, from, n int) ([]Step, error) {
	from = max(from, 1)
	total, err := b.Nodes.Length(ctx, row.Head)
	if err != nil || from > total {
		return []Step{}, err
	}
	lineage, err := thread.ReadLineage(ctx, b.Store, row)
	if err != nil {
		return nil, err
	}
	var chain []thread.Step // up to the head, since later steps determine the paths of earlier ones
	for s, err := range b.Nodes.Walk(ctx, row.Head) {
		if err != nil {
			return nil, err
		}
		if chain = append(chain, s); len(chain) == total-from+1 {
			break
		}
	}
	slices.Reverse(chain)
	paths := thread.StepPaths(chain, thread.PathOf(row))
	if n > 0 {
		chain = chain[:min(n, len(chain))]
	}
	steps := make([]Step, len(chain))
	for i, s := range chain {
		if steps[i], err = b.step(ctx, s, from+i); err != nil {
			return nil, err
		}
		steps[i].Path = paths[i]
		if child, ok := lineage.Child(s.State.ChildThread); ok {
			steps[i].Child = child.ID
		}
	}
	return steps, b.fillDone(ctx, steps)
}

// A ThreadRow is a thread in a list.
type ThreadRow struct {
	store.Thread
	Status store.Status `json:"status"` // may be interrupted
}

// A ThreadLine is a thread in the list of threads.
type ThreadLine struct {
	ThreadRow
	Display Display `json:"display"`
	Title   string  `json:"title"`
	Name    string  `json:"name"` // what users type for it
}

// A ThreadFilter selects threads.
type ThreadFilter struct {
	All    bool   // in every workspace
	Parts  bool   // including paths, calls and workers
	Status string // only in this state, one of [StateWords]; "" for any
	Flow   string // only those of this flow, "" for any
	Since  int64  // only begun at this time or later, Unix ms; 0 for any
	Until  int64  // only begun before this time, Unix ms; 0 for any
	Before string // only those after this id in the list
	Limit  int    // maximum number, 0 for all
}

// Threads lists threads, newest first, which is the order of their ids. next is the value of
// Before for the next page, "" after the last one.
func (b *Reader) Threads(ctx context.Context, f ThreadFilter) (list []ThreadLine, next string, err error) {
	f.Status = normalWord(f.Status)
	by := store.ThreadFilter{Newest: true, Limit: f.Limit, Workspace: b.Workspace, Statuses: statusesOf(f.Status)}
	if f.All {
		by.Workspace = ""
	}
	if !f.Parts {
		by.Kind = store.KindRoot
	}
	by.After = f.Before
	if until := thread.FirstID(f.Until); f.Until > 0 && (by.After == "" || until < by.After) {
		by.After = until
	}
	asked, err := b.openQuestions(ctx)
	if err != nil {
		return nil, "", err
	}
	out, names, statuses := []ThreadLine{}, b.Names(), b.statuses()
	for {
		rows, err := b.Store.Threads(ctx, by)
		if err != nil {
			return nil, "", err
		}
		for _, t := range rows {
			by.After = t.ID
			if f.Since > 0 && t.ID < thread.FirstID(f.Since) {
				return out, "", nil // the rest is older
			}
			l := ThreadLine{ThreadRow: ThreadRow{t, statuses.of(ctx, t)}}
			l.Display = displayOf(t, l.Status, reason(t), asked[t.ID])
			l.Display.Reason = names.In(ctx, l.Display.Reason)
			if f.Flow != "" && t.Flow != f.Flow ||
				f.Status != "" && string(l.Status) != f.Status && !isDisplayed(f.Status, l.Display) {
				continue
			}
			if l.Title, err = b.Title(ctx, t); err != nil {
				return nil, "", err
			}
			l.Name = names.Of(ctx, t)
			if out = append(out, l); len(out) == f.Limit {
				return out, t.ID, nil
			}
		}
		if f.Limit == 0 || len(rows) < f.Limit {
			return out, "", nil
		}
	}
}

// openQuestions returns the oldest open question or approval of each thread and of each task.
func (b *Reader) openQuestions(ctx context.Context) (map[string]*Gate, error) {
	open, err := b.Store.Gates(ctx, store.GateFilter{State: store.GateOpen})
	if err != nil {
		return nil, err
	}
	by := map[string]*Gate{}
	for _, g := range open {
		for _, id := range []string{g.Thread, g.Task} {
			if by[id] == nil {
				by[id] = &Gate{ID: g.ID, Kind: g.Kind, Question: About(g)}
			}
		}
	}
	return by, nil
}

// A Standing is the state of a thread after run, resume or fork, as those commands print it
// and the API returns it.
type Standing struct {
	Thread  string       `json:"thread"`
	Short   string       `json:"short"` // what users type for it, "" for a part
	Task    string       `json:"task"`
	Status  store.Status `json:"status"`
	Display Display      `json:"display"`
	Head    string       `json:"head"`
	Exit    int          `json:"exit"` // the exit code of the command; 0 if the thread continues
	Summary string       `json:"summary"`
	Result  string       `json:"result,omitempty"` // once the thread has ended, see record.Result
	// Recorded reports whether another process drives the thread and will act on what was added.
	Recorded bool `json:"recorded,omitempty"`
}

// NewStanding returns the state of row.
func NewStanding(row store.Thread) Standing {
	return Standing{Thread: row.ID, Short: row.Short, Task: row.Task, Status: row.Status,
		Display: NewDisplay(row.Status, reason(row), nil), Head: row.Head.String()}
}

// A Digest is the outcome digest of a chain.
type Digest struct {
	Digest dag.Hash `json:"digest"`
	Head   dag.Hash `json:"head"`
	Thread string   `json:"thread,omitempty"` // "" for a step
}

// Digest returns the outcome digest of the chain of a thread or a step.
func (b *Reader) Digest(ctx context.Context, of Subject) (*Digest, error) {
	if of.Row.ID == "" { // a thread without steps has a digest, a start has none
		if _, err := b.Nodes.State(ctx, of.Head); err != nil {
			return nil, err
		}
	}
	d, err := b.Nodes.Digest(ctx, of.Head)
	if err != nil {
		return nil, err
	}
	return &Digest{d, of.Head, of.Row.ID}, nil
}
