package attest

import (
	"context"
	"fmt"
	"slices"

	"github.com/plait-run/plait/internal/files/git"
	"github.com/plait-run/plait/internal/record/store"
)

// A Revision is a change as a repository has it. What is not known is "".
type Revision struct {
	Commit string
	Tree   string // after the change, without .plait/
	Patch  string // its patch id, white space included
}

// Subjects returns the subjects of a statement about the change.
func (r Revision) Subjects() []Subject {
	all := []Subject{}
	for _, x := range []struct{ name, kind, digest string }{
		{"commit", DigestCommit, r.Commit}, {"patch", DigestPatch, r.Patch}, {"tree", DigestTree, r.Tree},
	} {
		if x.digest != "" {
			all = append(all, Subject{map[string]string{x.kind: x.digest}, x.name})
		}
	}
	return all
}

// Resolve returns the change that a person names: a commit, which is compared with its first parent, or a range A..B.
// The error matches [git.ErrNoCommit] if there is none.
func Resolve(ctx context.Context, repo *git.Repo, named string) (Revision, error) {
	c, err := repo.Change(ctx, named)
	if err != nil {
		return Revision{}, fmt.Errorf("find change: %w", err)
	}
	r := Revision{Commit: c.Commit, Tree: c.After}
	if r.Patch, err = repo.PatchID(ctx, c.Before, c.After); err != nil {
		return r, fmt.Errorf("find change: %w", err)
	}
	return r, nil
}

// Made returns what a task made of the files of a repository.
func (r Record) Made(ctx context.Context, repo *git.Repo) (Revision, error) {
	before, after, err := r.Trees(ctx)
	if err != nil || before == after || repo == nil {
		return Revision{Tree: after}, err
	}
	patch, err := repo.PatchID(ctx, before, after)
	if err != nil { // another clone, or git gc
		return Revision{Tree: after}, nil
	}
	return Revision{Tree: after, Patch: patch}, nil
}

// Find returns the newest ended task of a workspace that made a change: the one that left the same files, or, since
// these change with a rebase, the same patch. The error matches store.ErrNotFound if there is none.
func Find(ctx context.Context, s store.View, repo *git.Repo, workspace string, want Revision) (store.Thread, error) {
	rows, err := s.Threads(ctx, store.ThreadFilter{Kind: store.KindRoot})
	if err != nil {
		return store.Thread{}, fmt.Errorf("find task of a change: %w", err)
	}
	rows = slices.DeleteFunc(rows, func(t store.Thread) bool { return t.Workspace != workspace || !t.Ended() })
	slices.Reverse(rows)
	records := make([]Record, len(rows))
	for i, row := range rows {
		if records[i], err = Read(ctx, s, row.ID); err != nil {
			return store.Thread{}, err
		}
		before, after, err := records[i].Trees(ctx)
		if err != nil {
			return store.Thread{}, err
		}
		if after == want.Tree && after != "" && before != after {
			return row, nil
		}
	}
	for i, row := range rows {
		made, err := records[i].Made(ctx, repo)
		if err != nil {
			return store.Thread{}, err
		}
		if made.Patch == want.Patch && made.Patch != "" {
			return row, nil
		}
	}
	return store.Thread{}, fmt.Errorf("no task of this workspace made that change: %w", store.ErrNotFound)
}

// ByHand reports whether a commit changes anything else than the task did. That it leaves the same files does not say
// so: what was not committed when the task began is in both.
func ByHand(commit, made Revision) bool { return commit.Patch != made.Patch }
