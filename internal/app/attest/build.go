package attest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// ErrRunning is the error for a task that is being driven: it would change while it is described.
var ErrRunning = errors.New("it is running")

// A Record is what a statement is made from: the rows of one task, and its nodes.
type Record struct {
	Nodes   *thread.Reader
	Threads []store.Thread
	Gates   []store.Gate
}

// Read returns the record of a task.
func Read(ctx context.Context, s store.View, task string) (Record, error) {
	r := Record{Nodes: thread.NewReader(s)}
	var err error
	if r.Threads, err = s.Threads(ctx, store.ThreadFilter{Task: task}); err != nil {
		return r, fmt.Errorf("read task %s: %w", task, err)
	}
	if r.Gates, err = s.Gates(ctx, store.GateFilter{Task: task}); err != nil {
		return r, fmt.Errorf("read task %s: %w", task, err)
	}
	return r, nil
}

// root returns the row of the task's root thread.
func (r Record) root() (store.Thread, error) {
	i := slices.IndexFunc(r.Threads, func(t store.Thread) bool { return t.ID == t.Task })
	if i < 0 {
		return store.Thread{}, store.ErrNotFound
	}
	return r.Threads[i], nil
}

// Change returns what the record says of the task, without Files and Log.
func (r Record) Change(ctx context.Context) (Change, error) {
	c, err := r.change(ctx)
	if err != nil {
		return c, fmt.Errorf("describe task: %w", err)
	}
	return c, nil
}

func (r Record) change(ctx context.Context) (c Change, err error) {
	root, err := r.root()
	if err != nil {
		return c, err
	}
	if root.Status == store.Running {
		return c, ErrRunning
	}
	start, err := r.Nodes.Start(ctx, root.Start)
	if err != nil {
		return c, err
	}
	opts, err := record.OptionsOf(root)
	if err != nil {
		return c, err
	}
	c.Task = Task{Bundle: root.Bundle, CreatedAt: root.CreatedAt, EndedAt: root.EndedAt, Flow: root.Flow, Head: root.Head,
		ID: root.ID, Prompt: start.Prompt, StartedBy: cmp.Or(opts.StartedBy, "person"), Status: root.Status}
	if c.Task.Digest, err = r.Nodes.Digest(ctx, root.Head); err != nil {
		return c, err
	}
	c.Approvals, c.Steps = r.approvals(), []Step{}
	seen := map[dag.Hash]bool{}
	for _, t := range append([]store.Thread{root}, r.Threads...) {
		var chain []thread.Step
		for s, err := range r.Nodes.Walk(ctx, t.Head) {
			if err != nil {
				return c, err
			}
			if seen[s.Hash] {
				break
			}
			seen[s.Hash] = true
			chain = append(chain, s)
		}
		for _, s := range slices.Backward(chain) {
			step, err := r.step(ctx, s)
			if err != nil {
				return c, fmt.Errorf("step %s: %w", s.Hash.Short(), err)
			}
			c.Steps = append(c.Steps, step)
		}
	}
	c.NotKnown = c.gaps()
	return c, nil
}

// approvals returns the answers of the task, in the order of their gates.
func (r Record) approvals() []Approval {
	all := []Approval{}
	for _, g := range r.Gates {
		if !thread.Decided(g) {
			continue
		}
		a := Approval{At: g.AnsweredAt, By: g.By, Digest: g.Digest, Gate: g.ID, Grant: g.Grant,
			Hash: thread.ApprovalHash(g), Signed: g.Signature, Verdict: g.State, Via: g.Via}
		if !g.EditedDigest.IsZero() {
			a.Digest = g.EditedDigest
		}
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b Approval) int { return cmp.Compare(a.Gate, b.Gate) })
	return all
}

func (r Record) step(ctx context.Context, s thread.Step) (Step, error) {
	v := Step{Node: s.Hash, Role: s.State.Role, Path: s.State.Path.ID}
	d, err := r.Nodes.Detail(ctx, s.State.Detail)
	if err != nil || d == nil {
		return v, err
	}
	v.Approvals, v.Prompt, v.Transcript = d.Approvals.Hashes, d.Prompt, d.Transcript
	v.StartedAt, v.EndedAt, v.Exit, v.Usage, v.Sandbox = d.StartedAt, d.EndedAt, d.Exit, d.Usage, d.Sandbox
	if d.By != nil {
		v.By = *d.By
	}
	if before, after := d.Trees(); after != "" {
		v.TreeBefore, v.TreeAfter = before, after
	}
	if d.Agent != "" {
		if v.Agent, err = r.agent(ctx, d); err != nil {
			return v, err
		}
	}
	for _, h := range d.Evidence {
		e, err := r.Nodes.Evidence(ctx, h)
		if err != nil {
			return v, err
		}
		for _, src := range e.Sources {
			if len(src.Command) > 0 && !src.Unfinished() && src.ExitCode != nil {
				v.Evidence = append(v.Evidence, evidenceOf(h, e, src, d.RanOn()))
			}
		}
	}
	return v, nil
}

// agent returns who made a step. The model is the one that the gateway saw requests for, if it kept them.
func (r Record) agent(ctx context.Context, d *thread.Detail) (*Agent, error) {
	a := &Agent{Name: d.Agent}
	if d.Model != "" {
		a.Model, a.ModelBy = d.Model, ModelByAgent
	}
	if d.Calls.IsZero() {
		return a, nil
	}
	calls, err := r.Nodes.ModelCalls(ctx, d.Calls)
	if err != nil {
		return nil, err
	}
	var seen []string
	for _, c := range calls {
		if c.Model != "" && !slices.Contains(seen, c.Model) {
			seen = append(seen, c.Model)
		}
	}
	if seen != nil {
		a.Model, a.ModelBy = strings.Join(seen, ", "), ModelByGateway
	}
	return a, nil
}

func evidenceOf(h dag.Hash, e *thread.Evidence, src thread.EvidenceSource, tree string) Evidence {
	v := Evidence{Command: strings.Join(src.Command, " "), Exit: *src.ExitCode, ID: thread.FullID(e.By, e.ID), Node: h,
		Output: src.Hash, Result: resultFailed, Tree: tree}
	if v.Exit == 0 {
		v.Result = resultPassed
	}
	return v
}

// byEnd returns the steps in the order in which they ended, whatever threads they are of.
func (c *Change) byEnd() []Step {
	return slices.SortedStableFunc(slices.Values(c.Steps), func(a, b Step) int {
		return cmp.Or(cmp.Compare(a.EndedAt, b.EndedAt), cmp.Compare(a.StartedAt, b.StartedAt))
	})
}

// gaps returns what the steps themselves show not to be known.
func (c *Change) gaps() []Unknown {
	missing := map[Gap][]dag.Hash{GapByHand: c.byHand()}
	for _, s := range c.Steps {
		for _, gap := range c.gapsOf(s) {
			missing[gap] = append(missing[gap], s.Node)
		}
	}
	all := []Unknown{}
	for _, gap := range gaps() {
		if steps := missing[gap]; steps != nil {
			all = append(all, Unknown{steps, gap})
		}
	}
	return all
}

// byHand returns the steps that found files as no step before them had found or left them.
func (c *Change) byHand() (steps []dag.Hash) {
	known := map[string]bool{}
	for _, s := range c.byEnd() {
		if s.TreeBefore == "" || s.TreeAfter == "" {
			continue
		}
		if len(known) > 0 && !known[s.TreeBefore] {
			steps = append(steps, s.Node)
		}
		known[s.TreeBefore], known[s.TreeAfter] = true, true
	}
	return steps
}

// gapsOf returns what is not known of a step.
func (c *Change) gapsOf(s Step) []Gap {
	var all []Gap
	if s.Agent != nil {
		if strings.Contains(s.Sandbox, "via: direct") {
			all = append(all, GapDirect)
		}
		if s.Sandbox == "" || strings.HasPrefix(s.Sandbox, "none") {
			all = append(all, GapNoSandbox)
		}
		if s.TreeAfter == "" {
			all = append(all, GapNoTree)
		}
	}
	if slices.ContainsFunc(c.Approvals, func(a Approval) bool {
		return a.Signed == "" && slices.Contains(s.Approvals, a.Hash)
	}) {
		all = append(all, GapUnsigned)
	}
	return all
}

// Trees returns the git trees before and after a task: those of the steps of its root thread. They are "" if they are
// not recorded.
func (r Record) Trees(ctx context.Context) (before, after string, err error) {
	root, err := r.root()
	if err != nil {
		return "", "", fmt.Errorf("find the files of a task: %w", err)
	}
	for s, err := range r.Nodes.Walk(ctx, root.Head) {
		if err != nil {
			return "", "", fmt.Errorf("find the files of a task: %w", err)
		}
		d, err := r.Nodes.Detail(ctx, s.State.Detail)
		if err != nil {
			return "", "", fmt.Errorf("find the files of a task: %w", err)
		}
		if d == nil {
			continue
		}
		b, a := d.Trees()
		before, after = cmp.Or(b, before), cmp.Or(after, a)
	}
	return before, after, nil
}
