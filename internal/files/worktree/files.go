package worktree

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/plait-run/plait/internal/files/git"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// maxChain is how many tree nodes may follow one that has everything: to get the files of the last, the
// bundles of all of them are read.
const maxChain = 50

// A Change is what a step or a join did to the files: two git trees of the thread's repository.
type Change struct {
	Name     string // the files are kept in the repository under it, too
	From, To string
	Whole    bool // keep what the files were before the first change, too: then any repository can take them in
}

// Keep makes the node that records the files of row's repository after a change: what changed since the newest step
// up to head that has such a node or, if none has, since c.From. stage keeps bytes as a blob. If nothing changed, there
// is no node.
func (t *Trees) Keep(ctx context.Context, row store.Thread, c Change, head dag.Hash,
	stage func(io.Reader) (dag.Hash, error)) (node dag.Hash, objects []store.Object, err error) {
	node, objects, err = t.keep(ctx, row, c, head, stage)
	if err == nil {
		err = t.stamp(row, c.To)
	}
	if err != nil {
		return dag.Hash{}, nil, fmt.Errorf("keep the files of thread %s: %w", row.ID, err)
	}
	return node, objects, nil
}

func (t *Trees) keep(ctx context.Context, row store.Thread, c Change, head dag.Hash,
	stage func(io.Reader) (dag.Hash, error)) (none dag.Hash, objects []store.Object, err error) {
	before, err := t.keptAt(ctx, row, head)
	if err != nil {
		return none, nil, err
	}
	p := git.Packing{Ref: ref(row.ID, c.Name), Tree: c.To, Bounded: t.placed(row)}
	was := ""
	if !c.Whole {
		p.Begun, was = c.From, c.From
	}
	if !before.IsZero() {
		chain, err := t.chain(ctx, before)
		if err != nil {
			return none, nil, err
		}
		first, err := t.onto(ctx, chain[0])
		if err != nil {
			return none, nil, err
		}
		last := chain[len(chain)-1]
		was, p.Onto = last.Tree, last.Commit
		switch {
		case c.Whole && first != "" && row.Files.IsZero(): // until now, what the files were at first was only named
			before, was, p.Onto = none, "", ""
		case len(chain) > maxChain && c.Whole:
			before, p.Onto = none, ""
		case len(chain) > maxChain:
			before, p.Onto = none, first
		}
	}
	if was == c.To {
		return none, nil, nil
	}
	repo, err := repository(ctx, row)
	if err != nil {
		return none, nil, err
	}
	b, file, err := repo.Bundle(ctx, p)
	if err != nil {
		return none, nil, err
	}
	defer file.Close()
	blob, err := stage(file)
	if err != nil {
		return none, nil, err
	}
	if b.Onto != p.Onto {
		before = none // the repository lacks the commit of the previous bundle
	}
	obj, err := thread.NewNode(dag.TypeTree, thread.Files{Tree: c.To, Commit: b.Commit, Bundle: blob, Base: before})
	if err != nil {
		return none, nil, err
	}
	return obj.Hash, []store.Object{obj}, nil
}

// chain returns the tree nodes needed for the files of one of them, beginning with one that has everything.
func (t *Trees) chain(ctx context.Context, h dag.Hash) (chain []*thread.Files, err error) {
	for !h.IsZero() {
		f, err := t.cfg.Reader.Files(ctx, h)
		if err != nil {
			return nil, err
		}
		chain, h = append(chain, f), f.Base
	}
	slices.Reverse(chain)
	return chain, nil
}

// A Pulled is the result of Pull.
type Pulled struct {
	Branch string
	Commit string
	Tree   string
	On     string // the commit that the branch begins at; "": the repository lacks the one that the task began on
}

// Pull makes a branch, in the repository of dir, from the files that the newest step up to head left, using
// only the record. It checks nothing out, and moves no other branch.
func (t *Trees) Pull(ctx context.Context, dir string, row store.Thread, head dag.Hash) (Pulled, error) {
	fail := func(err error) (Pulled, error) {
		return Pulled{}, fmt.Errorf("pull the files of thread %s: %w", row.ID, err)
	}
	last, err := t.keptAt(ctx, row, head)
	if err != nil {
		return fail(err)
	}
	if last.IsZero() {
		return fail(fmt.Errorf("no files are kept: no step changed any, or the task ran without Git or with files off: %w",
			store.ErrNotFound))
	}
	chain, err := t.chain(ctx, last)
	if err != nil {
		return fail(err)
	}
	repo, err := git.Open(ctx, dir)
	if err != nil {
		return fail(err)
	}
	if err := t.take(ctx, repo, row, chain); err != nil {
		return fail(err)
	}
	p := Pulled{Branch: branchBase + row.Task + "/files-" + head.Short(), Tree: chain[len(chain)-1].Tree}
	slices.Reverse(chain)
	if !row.Files.IsZero() {
		// A task that began with uploaded files started from their commit. If an agent has committed since,
		// the repository lacks its commit.
		chain = slices.Insert(chain, 0, chain[len(chain)-1])
	}
	for _, f := range chain {
		if p.On, err = repo.Origin(ctx, f.Commit); err != nil {
			return fail(err)
		}
		if p.On != "" {
			break
		}
	}
	at := row.CreatedAt
	for s, err := range t.cfg.Reader.Walk(ctx, head) {
		if err != nil {
			return fail(err)
		}
		at = s.State.Timestamp
		break
	}
	asOf := ref(row.ID, "pulled")
	if err := repo.Keep(ctx, asOf, p.Tree, p.On); err != nil {
		return fail(err)
	}
	p.Commit, err = repo.Branch(ctx, p.Branch, p.Tree, asOf, "Files of task "+row.Task+"\n", time.UnixMilli(at))
	if err != nil {
		return fail(err)
	}
	return p, nil
}

// take unpacks the bundles of a chain.
func (t *Trees) take(ctx context.Context, repo *git.Repo, row store.Thread, chain []*thread.Files) error {
	for _, f := range chain {
		if err := t.unbundle(ctx, repo, row, f); err != nil {
			return err
		}
	}
	return nil
}

// unbundle unpacks one bundle into a repository that has the commit it builds on.
func (t *Trees) unbundle(ctx context.Context, repo *git.Repo, row store.Thread, f *thread.Files) error {
	onto, err := t.onto(ctx, f)
	if err != nil {
		return err
	}
	if onto != "" && f.Base.IsZero() {
		has, err := repo.Has(ctx, onto)
		if err != nil {
			return err
		}
		if !has {
			return taskError{fmt.Errorf("this repository does not have commit %s, on which the task began; fetch it first: %w",
				onto, store.ErrNotFound)}
		}
	}
	r, _, err := t.cfg.Reader.Objects().Open(ctx, f.Bundle)
	if err != nil {
		return err
	}
	defer r.Close()
	return repo.Unbundle(ctx, ref(row.ID, "files"), git.Bundle{Tree: f.Tree, Commit: f.Commit, Onto: onto}, r)
}
