package git

import (
	"context"
	"fmt"
	"strings"
)

// A KeptBranch is a branch below plait/.
type KeptBranch struct {
	Name, Commit string
	Ours         bool // its commit was made here, and nothing has been committed to it since
	Reached      bool // a branch that is not below plait/, a remote branch or a tag has the commit
	CheckedOut   bool
}

// Branches lists the branches below plait/, by name.
func (r *Repo) Branches(ctx context.Context) ([]KeptBranch, error) {
	list, err := r.keptBranches(ctx)
	if err != nil {
		return nil, fmt.Errorf("list branches: %w", err)
	}
	return list, nil
}

func (r *Repo) keptBranches(ctx context.Context) ([]KeptBranch, error) {
	s, err := r.begin(noTree)
	if err != nil {
		return nil, err
	}
	defer s.end()
	there, err := s.branches(ctx, heads+ownHeads)
	if err != nil {
		return nil, err
	}
	var list []KeptBranch
	for _, b := range there {
		has, err := s.run(ctx, nil, "for-each-ref", "--contains="+b.commit, "--format=%(refname)", heads, "refs/remotes/",
			"refs/tags/")
		if err != nil {
			return nil, err
		}
		kept := KeptBranch{Name: strings.TrimPrefix(b.ref, heads), Commit: b.commit, Ours: b.ours,
			CheckedOut: r.isCheckedOut(b.ref)}
		for ref := range strings.Lines(string(has)) {
			kept.Reached = kept.Reached || !strings.HasPrefix(ref, heads+ownHeads)
		}
		list = append(list, kept)
	}
	return list, nil
}

// DropBranch removes a branch below plait/ that points at commit. The error matches ErrRefused if it
// points at another one by now, or if a work tree has it checked out.
func (r *Repo) DropBranch(ctx context.Context, name, commit string) error {
	if err := r.dropBranch(ctx, name, commit); err != nil {
		return fmt.Errorf("remove branch %q: %w", name, err)
	}
	return nil
}

func (r *Repo) dropBranch(ctx context.Context, name, commit string) error {
	if err := r.checkHex(commit); err != nil {
		return err
	}
	s, err := r.begin(noTree)
	if err != nil {
		return err
	}
	defer s.end()
	if err := s.checkBranch(ctx, name); err != nil {
		return err
	}
	ref := heads + name
	if r.isCheckedOut(ref) {
		return fmt.Errorf("%w: it is checked out", ErrRefused)
	}
	if err := r.refsInside(ref); err != nil {
		return err
	}
	if err := s.updateRef(ctx, ref, "-d", ref, commit); err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return nil
}
