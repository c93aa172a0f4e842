package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
)

// A Change is what a commit, or several in a row, changed.
type Change struct {
	Commit string // the last one
	Before string // tree of the files before, without .plait/, as snapshots are
	After  string // and of the last commit
}

// Change returns what a person names as git does: a commit, which is compared with its first parent, or a range A..B.
// The error matches ErrNoCommit if there is none.
func (r *Repo) Change(ctx context.Context, named string) (Change, error) {
	c, err := r.change(ctx, named)
	if err != nil {
		return c, fmt.Errorf("look up %q: %w", named, err)
	}
	return c, nil
}

func (r *Repo) change(ctx context.Context, named string) (c Change, err error) {
	s, err := r.begin(noTree)
	if err != nil {
		return c, err
	}
	defer s.end()
	from, to, ranged := strings.Cut(named, "..")
	if !ranged {
		to = named
	}
	if c.Commit, err = s.commit(ctx, to); err != nil {
		return c, err
	}
	if c.After, err = s.plainTree(ctx, c.Commit); err != nil {
		return c, err
	}
	before := ""
	if ranged {
		before, err = s.commit(ctx, from)
	} else {
		before, err = s.resolveRev(ctx, c.Commit+"^1")
	}
	switch {
	case err != nil:
	case before == "":
		c.Before, err = s.line(ctx, "mktree") // of nothing
	default:
		c.Before, err = s.plainTree(ctx, before)
	}
	return c, err
}

// plainTree returns the tree of a commit without .plait/.
func (s *session) plainTree(ctx context.Context, commit string) (string, error) {
	tree, err := s.treeOf(ctx, commit)
	if err != nil {
		return "", err
	}
	return s.replacePlaitDir(ctx, tree, nil)
}

// commit returns the commit that a person names.
func (s *session) commit(ctx context.Context, named string) (string, error) {
	if named == "" || strings.HasPrefix(named, "-") || strings.ContainsAny(named, "\x00\n") {
		return "", ErrNoCommit
	}
	id, err := s.resolveRev(ctx, named+"^{commit}")
	var f *failure
	if err == nil && id == "" || errors.As(err, &f) {
		return "", ErrNoCommit
	}
	return id, err
}

// PatchID returns the id of the patch from one tree or commit to another, white space included, see git-patch-id(1): it
// is that of the same changes elsewhere, whatever the lines around them are numbered. It is "" if there are no changes.
func (r *Repo) PatchID(ctx context.Context, from, to string) (string, error) {
	patch, err := r.Diff(ctx, from, to)
	if err != nil {
		return "", err
	}
	return r.PatchIDOf(ctx, patch)
}

// PatchIDOf is PatchID for the text of a patch.
func (r *Repo) PatchIDOf(ctx context.Context, patch []byte) (string, error) {
	s, err := r.begin(noTree)
	if err != nil {
		return "", fmt.Errorf("name patch: %w", err)
	}
	defer s.end()
	out, err := s.run(ctx, bytes.NewReader(patch), "patch-id", "--verbatim")
	if err != nil {
		return "", fmt.Errorf("name patch: %w", err)
	}
	id, _, _ := strings.Cut(string(out), " ")
	return id, nil
}
