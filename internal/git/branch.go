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
	// ownHeads is how the names of branches made here begin.
	ownHeads = "plait/"
	// maker and makerMail sign the commits of branches.
	maker     = "Plait"
	makerMail = "plait@localhost"
)

// Branch makes refs/heads/<name>, where the name begins with plait/, point at a
// commit of the tree with the message, signed Plait <plait@localhost> at the given
// time (seconds count, in UTC). Its parent is the commit that HEAD names, if there
// is one. A .plait/ that HEAD has stays in the commit, since no snapshot has one.
// Repeating it with the same arguments and HEAD changes nothing.
//
// A branch of that name is moved only when its commit was made here and no work
// tree has it checked out. The error matches ErrRefused otherwise, and for a name
// that is not below plait/ or that git does not take.
func (r *Repo) Branch(ctx context.Context, name, tree, message string, at time.Time) (commit string, err error) {
	commit, err = r.branch(ctx, name, tree, message, at)
	if err != nil {
		return "", fmt.Errorf("make branch %q: %w", name, err)
	}
	return commit, nil
}

func (r *Repo) branch(ctx context.Context, name, tree, message string, at time.Time) (string, error) {
	s, err := r.begin(nowhere)
	if err != nil {
		return "", err
	}
	defer s.end()
	if err := s.checkBranch(ctx, name); err != nil {
		return "", err
	}
	ref := heads + name
	commit, err := s.sign(ctx, tree, message, at)
	if err != nil {
		return "", err
	}
	old := strings.Repeat("0", r.hexLen()) // there is none
	there, err := s.branches(ctx, ref)
	if err != nil {
		return "", err
	}
	for _, b := range there {
		if b.ref != ref { // one below it: git says so
			continue
		}
		if b.commit == commit {
			return commit, nil
		}
		if !b.ours {
			return "", fmt.Errorf("%w: there is one that plait did not make", ErrRefused)
		}
		if r.checkedOut(ref) {
			return "", fmt.Errorf("%w: it is checked out", ErrRefused)
		}
		old = b.commit
	}
	if err := r.refsInside(ref); err != nil {
		return "", err
	}
	if _, err = s.run(ctx, nil, "update-ref", "--no-deref", ref, commit, old); err != nil {
		return "", fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return commit, nil
}

// sign makes a commit of the tree on HEAD.
func (s *session) sign(ctx context.Context, tree, message string, at time.Time) (string, error) {
	tree, err := s.treeOf(ctx, tree)
	if err != nil {
		return "", err
	}
	if at.Unix() < 0 {
		return "", fmt.Errorf("time %s is before 1970", at)
	}
	head, err := s.head(ctx)
	if err != nil {
		return "", err
	}
	args := []string{"commit-tree", "-F", "-"}
	if head != "" {
		args = append(args, "-p", head)
		if tree, err = s.withOwn(ctx, tree, head); err != nil {
			return "", err
		}
	}
	signed := *s
	signed.env = slices.DeleteFunc(slices.Clone(s.env), func(kv string) bool {
		return strings.HasPrefix(kv, "GIT_AUTHOR_") || strings.HasPrefix(kv, "GIT_COMMITTER_")
	})
	for _, role := range []string{"GIT_AUTHOR_", "GIT_COMMITTER_"} {
		signed.env = append(signed.env, role+"NAME="+maker, role+"EMAIL="+makerMail, fmt.Sprintf("%sDATE=@%d +0000", role, at.Unix()))
	}
	out, err := signed.run(ctx, strings.NewReader(message), append(args, tree)...)
	return strings.TrimSuffix(string(out), "\n"), err
}

// withOwn returns the tree with the .plait/ that the commit has.
func (s *session) withOwn(ctx context.Context, tree, commit string) (string, error) {
	kept, err := s.run(ctx, nil, "ls-tree", "-z", commit, "--", own)
	if err != nil || len(kept) == 0 {
		return tree, err
	}
	rest, err := s.run(ctx, nil, "ls-tree", "-z", tree)
	if err != nil {
		return "", err
	}
	var in bytes.Buffer
	for rec := range records(rest) {
		if _, path, _ := strings.Cut(rec, "\t"); path != own {
			in.WriteString(rec + "\x00")
		}
	}
	in.Write(kept)
	out, err := s.run(ctx, &in, "mktree", "-z")
	return strings.TrimSuffix(string(out), "\n"), err
}

// DropBranches removes the branches below a prefix such as plait/<task>/ that
// were made here. One that somebody committed to, or that a work tree has
// checked out, stays. It is no error when there are none.
func (r *Repo) DropBranches(ctx context.Context, prefix string) error {
	if err := r.dropBranches(ctx, prefix); err != nil {
		return fmt.Errorf("drop branches %q: %w", prefix, err)
	}
	return nil
}

func (r *Repo) dropBranches(ctx context.Context, prefix string) error {
	s, err := r.begin(nowhere)
	if err != nil {
		return err
	}
	defer s.end()
	name, ok := strings.CutSuffix(prefix, "/")
	if !ok {
		return fmt.Errorf("%w: the prefix does not end in a slash", ErrRefused)
	}
	if err := s.checkBranch(ctx, name); err != nil {
		return err
	}
	if err := r.refsInside(heads + name); err != nil {
		return err
	}
	list, err := s.branches(ctx, heads+prefix)
	if err != nil {
		return err
	}
	var in bytes.Buffer
	for _, b := range list {
		if b.ours && !r.checkedOut(b.ref) {
			fmt.Fprintf(&in, "delete %s\x00%s\x00", b.ref, b.commit)
		}
	}
	if in.Len() == 0 {
		return nil
	}
	_, err = s.run(ctx, &in, "update-ref", "--no-deref", "--stdin", "-z")
	return err
}

// checkBranch holds that the name is one below plait/ and one that git takes.
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

// A branch is one that is there.
type branch struct {
	ref, commit string
	ours        bool // its commit was made here; an amended one was not
}

// branches lists the branch and those below it, or those below a prefix.
func (s *session) branches(ctx context.Context, pattern string) ([]branch, error) {
	out, err := s.run(ctx, nil, "for-each-ref",
		"--format=%(refname) %(objectname)%00%(symref)%00%(authorname)%00%(authoremail)%00%(committername)%00%(committeremail)", pattern)
	if err != nil {
		return nil, err
	}
	signed := strings.Join([]string{"", maker, "<" + makerMail + ">", maker, "<" + makerMail + ">"}, "\x00")
	var list []branch
	for line := range strings.Lines(string(out)) {
		what, by, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\x00")
		ref, commit, _ := strings.Cut(what, " ")
		list = append(list, branch{ref: ref, commit: commit, ours: by == signed})
	}
	return list, nil
}

// checkedOut tells whether the HEAD of a work tree names the ref, or cannot be
// read. Under such a HEAD a moved branch would look like work undone.
func (r *Repo) checkedOut(ref string) bool {
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
