package forge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/plait-run/plait/internal/app/attest"
	"github.com/plait-run/plait/internal/files/git"
	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view"
)

// ErrNoChange is the error for a task that recorded no changed files.
var ErrNoChange = errors.New("the task recorded no changed files: its agents did not write, or not in a Git repository")

// A Publisher puts the changes of tasks on branches of a repository. It changes no index, HEAD or file.
type Publisher struct {
	View *view.Reader
	Repo *git.Repo
}

// A Change is what a task changed, and the branch that it goes onto.
type Change struct {
	Row     store.Thread
	Branch  string
	History []git.Revision // of the branch, newest first
	Parent  string         // the commit that the change goes onto, or ""
	Before  string         // the git trees around what the branch does not have yet
	After   string
	Step    dag.Hash // that left After
	Has     string   // the commit that has it already, or ""
}

// Tip returns the commit that the branch points at, "" if there is no branch.
func (c Change) Tip() string {
	if len(c.History) == 0 {
		return ""
	}
	return c.History[0].ID
}

// state is what a step did to files.
type state struct {
	step          dag.Hash
	before, after string
	own           bool // it is not shared with the task that this one was forked from
}

// Change reads what a task changed. The error matches ErrNoChange if that is nothing.
func (p *Publisher) Change(ctx context.Context, row store.Thread) (c Change, err error) {
	c.Row = row
	trail, err := p.trail(ctx, row)
	if err != nil {
		return c, fmt.Errorf("read the change of task %s: %w", row.ID, err)
	}
	opts, err := record.OptionsOf(row)
	if err != nil {
		return c, err
	}
	round := opts.Forge != nil && opts.Forge.Branch != ""
	if len(trail) == 0 || !round && trail[0].after == trail[len(trail)-1].before {
		return c, ErrNoChange
	}
	if round {
		c.Branch = opts.Forge.Branch
		c.History, err = p.Repo.History(ctx, c.Branch)
	} else {
		c.Branch, c.History, err = p.branch(ctx, row, trail)
	}
	if err != nil {
		return c, err
	}
	first := trail[len(trail)-1]
	c.Before, c.After, c.Step = first.before, trail[0].after, trail[0].step
	c.has(trail, round)
	if c.Parent = c.Tip(); c.Parent == "" {
		c.Parent, err = p.base(ctx, row, first.before)
	}
	return c, err
}

// has finds what the branch has of the trail, newest step first.
func (c *Change) has(trail []state, round bool) {
	if round {
		for _, s := range trail {
			if s.own {
				c.Before = s.before
			}
		}
	}
	for _, r := range c.History {
		_, step := Trailers(r.Message)
		i := slices.IndexFunc(trail, func(s state) bool { return s.step.String() == step })
		if i < 0 {
			continue
		}
		if !round || trail[i].own {
			if c.Before = trail[i].after; c.Before == c.After {
				c.Has = r.ID
			}
		}
		return
	}
}

// trail returns the steps of a task that recorded files, newest first.
func (p *Publisher) trail(ctx context.Context, row store.Thread) (trail []state, err error) {
	own := true
	for s, err := range p.View.Nodes.Walk(ctx, row.Head) {
		if err != nil {
			return nil, err
		}
		own = own && (row.ForkedFrom == nil || s.Hash != row.ForkedFrom.Step)
		d, err := p.View.Nodes.Detail(ctx, s.State.Detail)
		if err != nil {
			return nil, err
		}
		if d == nil {
			continue
		}
		if before, after := d.Trees(); after != "" && before != "" {
			trail = append(trail, state{s.Hash, before, after, own})
		}
	}
	return trail, nil
}

// branch finds the branch of a task: that of the task that it was forked from, if it has some of its steps, or its own.
func (p *Publisher) branch(ctx context.Context, row store.Thread, trail []state) (string, []git.Revision, error) {
	own := ""
	for at := row; ; {
		title, err := p.View.Title(ctx, at)
		if err != nil {
			return "", nil, err
		}
		name := Branch(p.View.Names().Of(ctx, at), title)
		own = cmp.Or(own, name)
		history, err := p.Repo.History(ctx, name)
		if err != nil {
			return "", nil, err
		}
		if slices.ContainsFunc(history, func(r git.Revision) bool {
			task, step := Trailers(r.Message)
			return task == row.ID || slices.ContainsFunc(trail, func(s state) bool { return s.step.String() == step })
		}) {
			return name, history, nil
		}
		if at.ForkedFrom == nil {
			return own, nil, nil
		}
		from, err := p.View.Store.Thread(ctx, at.ForkedFrom.Thread)
		if err == nil {
			at, err = p.View.Store.Thread(ctx, from.Task)
		}
		if errors.Is(err, store.ErrNotFound) { // it was removed
			return own, nil, nil
		}
		if err != nil {
			return "", nil, err
		}
	}
}

// base returns the commit that a task began on: the one that HEAD named when its first files were recorded.
func (p *Publisher) base(ctx context.Context, row store.Thread, before string) (string, error) {
	for {
		base, err := p.Repo.BaseOf(ctx, "refs/plait/"+row.Task+"/", before)
		if err != nil || base != "" {
			return base, err
		}
		if row.ForkedFrom == nil {
			return p.Repo.Head(ctx)
		}
		if row, err = p.View.Store.Thread(ctx, row.ForkedFrom.Thread); errors.Is(err, store.ErrNotFound) {
			return p.Repo.Head(ctx)
		} else if err != nil {
			return "", err
		}
	}
}

// A Trial is a change on its branch, before it is committed.
type Trial struct {
	Tree      string
	Files     []string // that the commit changes
	Protected []string // those of them from which programs or instructions are taken
	Conflicts []string // why there is no tree
}

// Try merges a change onto its branch, as trees. Changes of the person's that were there before the task began, and
// that are not committed, are left out.
func (p *Publisher) Try(ctx context.Context, c Change) (t Trial, err error) {
	for _, tree := range []string{c.Before, c.After} {
		if has, err := p.Repo.Has(ctx, tree); err != nil {
			return t, err
		} else if !has {
			return t, view.Advise(fmt.Errorf("%s does not have the files that the task left: %w", p.Repo.Root(),
				store.ErrNotFound), "fetch them with `plait task pull %s`", c.Row.ID)
		}
	}
	into := c.Parent
	if into == "" {
		t.Tree = c.After
		t.Files, err = p.Repo.Changed(ctx, c.Before, c.After)
	} else {
		var m git.Merged
		m, err = p.Repo.Merge(ctx, into, []git.Side{{Name: "task", Base: c.Before, Tree: c.After}})
		if err != nil {
			return t, err
		}
		for _, conflict := range m.Conflicts {
			t.Conflicts = append(t.Conflicts, conflict.Paths...)
		}
		t.Tree = m.Tree
		t.Files, err = p.Repo.Changed(ctx, into, m.Tree)
	}
	for _, f := range t.Files {
		if worktree.Protected(f) {
			t.Protected = append(t.Protected, f)
		}
	}
	return t, err
}

// Settled reports whether the branch has a change: in a commit of its own, or because others pushed the same since it
// began.
func (p *Publisher) Settled(ctx context.Context, c Change) (bool, error) {
	if c.Has != "" || c.Before == c.After {
		return true, nil
	}
	for _, r := range c.History {
		tree, err := p.Repo.Plain(ctx, r.ID)
		if err != nil || tree == c.Before {
			return false, err
		}
		c.Parent = r.ID
		t, err := p.Try(ctx, c)
		if err != nil || len(t.Files) == 0 && len(t.Conflicts) == 0 {
			return err == nil, err
		}
	}
	return false, nil
}

// Commit commits a change that was tried to its branch, in the name of the person. It returns "" if the branch has it.
func (p *Publisher) Commit(ctx context.Context, c Change, t Trial, message string) (string, error) {
	if len(t.Files) == 0 {
		return "", nil
	}
	return p.Repo.CommitAs(ctx, git.Draft{Branch: c.Branch, Parent: c.Parent, Tree: t.Tree, Message: message})
}

// Base returns the branch of a remote that a new request is for: the one that the branch which is checked out follows,
// if it has the commit that the change goes onto, else "", which is the default one. It is an error if the remote does
// not have that commit, as far as is known here: the push would publish commits that nobody asked to publish.
func (p *Publisher) Base(ctx context.Context, c Change, remote string) (string, error) {
	i := slices.IndexFunc(c.History, func(r git.Revision) bool { task, _ := Trailers(r.Message); return task == "" })
	if i < 0 {
		return "", nil
	}
	onto := c.History[i].ID
	has, base, err := p.Repo.OnRemote(ctx, remote, onto)
	if err == nil && !has {
		err = view.Advise(fmt.Errorf("nothing was pushed: the change goes onto commit %.12s, which is not on %s: %w", onto,
			remote, store.ErrConflict), "push your own commits first; or if it is there, `git fetch %s`", remote)
	}
	return base, err
}

// Report says what is published of a change.
func (p *Publisher) Report(ctx context.Context, c Change, costs bool) (r Report, err error) {
	if r.Title, err = p.View.Title(ctx, c.Row); err != nil {
		return r, err
	}
	result, err := p.View.Result(ctx, c.Row)
	if err != nil {
		return r, err
	}
	of, err := attest.Read(ctx, p.View.Store, c.Row.Task)
	if err == nil {
		r.Change, err = of.Change(ctx)
	}
	if err != nil {
		return r, err
	}
	opts, err := record.OptionsOf(c.Row)
	if err != nil {
		return r, err
	}
	if opts.Forge != nil {
		r.Issue = opts.Forge.Issue
	}
	r.Summary, r.Task, r.Short = result.Text, c.Row.Task, p.View.Names().Of(ctx, c.Row)
	r.Commit, r.Tree, r.Step = c.Has, c.After, c.Step
	if costs {
		r.Cost = costOf(r.Change)
	}
	if c.Has != "" { // without what the person had changed, and with what else the branch has
		r.Tree, err = p.Repo.Plain(ctx, c.Has)
	}
	return r, err
}
