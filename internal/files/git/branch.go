package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// heads is where branches are.
	heads = "refs/heads/"
	// ownHeads is the prefix of the names of branches made here.
	ownHeads = "plait/"
	// author and authorMail sign the commits of branches.
	author     = "Plait"
	authorMail = "plait@localhost"
)

// Branch makes refs/heads/<name>, where the name begins with plait/, point at a
// commit of the tree with the message, signed Plait <plait@localhost> at the given
// time (in UTC, to the second). Its parent is the commit that HEAD named when the
// snapshot under the ref asOf was taken, so that merging the branch does not undo what
// was committed since; without asOf, the commit that HEAD names now. There may be no
// parent. If the parent has a .plait/, the commit keeps it, since no snapshot has one.
// Repeating Branch with the same arguments changes nothing.
//
// A branch of that name is moved only if its commit was made here and no work
// tree has it checked out. The error matches ErrRefused otherwise, and for a name
// that is not below plait/ or that git does not accept.
func (r *Repo) Branch(ctx context.Context, name, tree, asOf, message string, at time.Time) (commit string, err error) {
	commit, err = r.branch(ctx, name, tree, asOf, message, at)
	if err != nil {
		return "", fmt.Errorf("make branch %q: %w", name, err)
	}
	return commit, nil
}

func (r *Repo) branch(ctx context.Context, name, tree, asOf, message string, at time.Time) (string, error) {
	s, err := r.begin(noTree)
	if err != nil {
		return "", err
	}
	defer s.end()
	if err := s.checkBranch(ctx, name); err != nil {
		return "", err
	}
	ref := heads + name
	commit, err := s.commitAs(ctx, tree, asOf, message, at)
	if err != nil {
		return "", err
	}
	old := strings.Repeat("0", r.hexLen()) // there is none
	there, err := s.branches(ctx, ref)
	if err != nil {
		return "", err
	}
	for _, b := range there {
		if b.ref != ref { // one below it: git reports that
			continue
		}
		if b.commit == commit {
			return commit, nil
		}
		if !b.ours {
			return "", fmt.Errorf("%w: there is one that plait did not make", ErrRefused)
		}
		if r.isCheckedOut(ref) {
			return "", fmt.Errorf("%w: it is checked out", ErrRefused)
		}
		old = b.commit
	}
	if err := r.refsInside(ref); err != nil {
		return "", err
	}
	if err = s.updateRef(ctx, ref, ref, commit, old); err != nil {
		return "", fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return commit, nil
}

// commitAs makes a commit of the tree on what HEAD names, or named when the snapshot asOf was taken.
func (s *session) commitAs(ctx context.Context, tree, asOf, message string, at time.Time) (string, error) {
	tree, err := s.treeOf(ctx, tree)
	if err != nil {
		return "", err
	}
	if at.Unix() < 0 {
		return "", fmt.Errorf("time %s is before 1970", at)
	}
	head, err := s.headAsOf(ctx, asOf)
	if err != nil {
		return "", err
	}
	if head != "" {
		if tree, err = s.addPlaitDir(ctx, tree, head); err != nil {
			return "", err
		}
	}
	return s.commitOn(ctx, tree, head, message, at)
}

// commitOn makes a commit of the tree on a parent, if there is one.
func (s *session) commitOn(ctx context.Context, tree, parent, message string, at time.Time) (string, error) {
	args := []string{"commit-tree", "-F", "-"}
	if parent != "" {
		args = append(args, "-p", parent)
	}
	signed := *s
	signed.env = slices.DeleteFunc(slices.Clone(s.env), func(kv string) bool {
		return strings.HasPrefix(kv, "GIT_AUTHOR_") || strings.HasPrefix(kv, "GIT_COMMITTER_")
	})
	for _, role := range []string{"GIT_AUTHOR_", "GIT_COMMITTER_"} {
		signed.env = append(signed.env, role+"NAME="+author, role+"EMAIL="+authorMail,
			fmt.Sprintf("%sDATE=@%d +0000", role, at.Unix()))
	}
	out, err := signed.run(ctx, strings.NewReader(message), append(args, tree)...)
	return strings.TrimSuffix(string(out), "\n"), err
}

// headAsOf returns the commit that HEAD named when the snapshot under ref was taken,
// or that it names now if ref is ""; "" if there is none.
func (s *session) headAsOf(ctx context.Context, ref string) (string, error) {
	if ref == "" {
		return s.head(ctx)
	}
	if !strings.HasPrefix(ref, refBase) {
		return "", fmt.Errorf("%w: %q is not the ref of a snapshot", ErrRefused, ref)
	}
	if err := s.repo.refsInside(ref); err != nil {
		return "", err
	}
	out, err := s.line(ctx, "rev-list", "--parents", "-n", "1", ref)
	if err != nil {
		return "", err
	}
	if _, parent, ok := strings.Cut(out, " "); ok {
		parent, _, _ = strings.Cut(parent, " ")
		return parent, nil
	}
	return "", nil
}

// addPlaitDir returns the tree with the .plait/ of the commit added.
func (s *session) addPlaitDir(ctx context.Context, tree, commit string) (string, error) {
	kept, err := s.run(ctx, nil, "ls-tree", "-z", commit, "--", plaitDir)
	if err != nil || len(kept) == 0 {
		return tree, err
	}
	return s.replacePlaitDir(ctx, tree, kept)
}

// replacePlaitDir returns the tree with another entry for .plait/, or none.
func (s *session) replacePlaitDir(ctx context.Context, tree string, entry []byte) (string, error) {
	rest, err := s.run(ctx, nil, "ls-tree", "-z", tree)
	if err != nil {
		return "", err
	}
	var in bytes.Buffer
	for rec := range records(rest) {
		if _, path, _ := strings.Cut(rec, "\t"); path != plaitDir {
			in.WriteString(rec + "\x00")
		}
	}
	in.Write(entry)
	out, err := s.run(ctx, &in, "mktree", "-z")
	return strings.TrimSuffix(string(out), "\n"), err
}

// checkBranch checks that the name is below plait/ and valid for git.
func (s *session) checkBranch(ctx context.Context, name string) error {
	rest, ok := strings.CutPrefix(name, ownHeads)
	if !ok || len(name) > maxRef || strings.ContainsRune(rest, 0) {
		return fmt.Errorf("%w: want at most %d bytes below %s", ErrRefused, maxRef, ownHeads)
	}
	_, err := s.run(ctx, nil, "check-ref-format", heads+name)
	var f *failure
	if errors.As(err, &f) && f.exit == 1 {
		return fmt.Errorf("%w: no name for a branch", ErrRefused)
	}
	return err
}

// A branch is an existing branch.
type branch struct {
	ref, commit string
	ours        bool // its commit was made here; an amended one was not
}

// branches returns the branch named pattern and those below it, or those below a prefix.
func (s *session) branches(ctx context.Context, pattern string) ([]branch, error) {
	out, err := s.run(ctx, nil, "for-each-ref",
		"--format=%(refname) "+
			"%(objectname)%00%(symref)%00%(authorname)%00%(authoremail)%00%(committername)%00%(committeremail)",
		pattern)
	if err != nil {
		return nil, err
	}
	signed := strings.Join([]string{"", author, "<" + authorMail + ">", author, "<" + authorMail + ">"}, "\x00")
	var list []branch
	for line := range strings.Lines(string(out)) {
		what, by, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\x00")
		ref, commit, _ := strings.Cut(what, " ")
		list = append(list, branch{ref: ref, commit: commit, ours: by == signed})
	}
	return list, nil
}

// isCheckedOut reports whether the HEAD of a work tree names the ref, or cannot be
// read. In such a work tree a moved branch would look as if work had been undone.
func (r *Repo) isCheckedOut(ref string) bool {
	list, _ := os.ReadDir(filepath.Join(r.common, "worktrees"))
	dirs := []string{r.common}
	for _, d := range list {
		dirs = append(dirs, filepath.Join(r.common, "worktrees", d.Name()))
	}
	for _, dir := range dirs {
		text, err := readSmall(filepath.Join(dir, "HEAD"))
		if err != nil && !errors.Is(err, os.ErrNotExist) || strings.TrimSpace(text) == "ref: "+ref {
			return true
		}
	}
	return false
}
