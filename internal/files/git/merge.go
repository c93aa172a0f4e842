package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// A Side is what one agent made of a tree.
type Side struct {
	Name string
	Base string // the tree it started from
	Tree string // the tree it produced
}

// A Merged is the result of a trial merge.
type Merged struct {
	Tree      string     // into, with every side that merges cleanly, in the order given
	Taken     []string   // the names of those; a side that changed nothing is neither taken nor in conflict
	Conflicts []Conflict // the sides that are not in Tree
	// path → names of all sides that change it, in the order given; a rename touches both paths
	Touched map[string][]string
}

// A Conflict is a side that does not merge with those before it. None of its
// changes are in the merged tree.
type Conflict struct {
	Name  string
	Paths []string // sorted; relative to the root, with slashes; any bytes but NUL
}

// Merge tries to merge sides into a tree, one after the other. It touches no
// file, index, ref or HEAD; it writes only objects, which git may collect after
// two weeks. The attributes (-merge, binary and merge=union) are those of into:
// no side can choose how it is merged. A file with a merge driver is merged as
// text. The error matches ErrRefused if a side changes a path that Apply
// refuses.
func (r *Repo) Merge(ctx context.Context, into string, sides []Side) (Merged, error) {
	m, err := r.merge(ctx, into, sides)
	if err != nil {
		return Merged{}, fmt.Errorf("merge into %s: %w", into, err)
	}
	return m, nil
}

func (r *Repo) merge(ctx context.Context, into string, sides []Side) (Merged, error) {
	s, err := r.begin(ownTree)
	if err != nil {
		return Merged{}, err
	}
	defer s.end()
	m := Merged{Touched: make(map[string][]string)}
	if m.Tree, err = s.treeOf(ctx, into); err != nil {
		return Merged{}, err
	}
	if err := s.unpack(ctx, m.Tree, isAttributes); err != nil {
		return Merged{}, err
	}
	for _, side := range sides {
		if err := s.mergeSide(ctx, &m, side); err != nil {
			return Merged{}, fmt.Errorf("side %s: %w", side.Name, err)
		}
	}
	return m, nil
}

func (s *session) mergeSide(ctx context.Context, m *Merged, side Side) error {
	if err := s.resolveTrees(ctx, &side.Base, &side.Tree); err != nil {
		return err
	}
	edits, err := s.edits(ctx, side.Base, side.Tree)
	if err != nil || len(edits) == 0 {
		return err
	}
	for _, e := range edits {
		if err := checkPath(e.path); err != nil {
			return err
		}
		m.Touched[e.path] = append(m.Touched[e.path], side.Name)
	}
	tree, paths, err := s.mergeTrees(ctx, side.Base, m.Tree, side.Tree)
	if err != nil {
		return err
	}
	if tree == "" {
		m.Conflicts = append(m.Conflicts, Conflict{Name: side.Name, Paths: paths})
		return nil
	}
	m.Tree = tree
	m.Taken = append(m.Taken, side.Name)
	return nil
}

// mergeTrees returns the merged tree, or no tree and the paths in conflict.
func (s *session) mergeTrees(ctx context.Context, base, ours, theirs string) (tree string, paths []string, err error) {
	switch {
	case ours == base:
		return theirs, nil, nil
	case ours == theirs:
		return ours, nil, nil
	}
	// Not every version of git accepts a base here, but all find the common
	// ancestor of two commits.
	b, err := s.line(ctx, "commit-tree", base, "-m", "base")
	if err != nil {
		return "", nil, err
	}
	o, err := s.line(ctx, "commit-tree", ours, "-p", b, "-m", "ours")
	if err != nil {
		return "", nil, err
	}
	t, err := s.line(ctx, "commit-tree", theirs, "-p", b, "-m", "theirs")
	if err != nil {
		return "", nil, err
	}
	out, err := s.run(ctx, nil, "merge-tree", "--write-tree", "-z", "--name-only", "--messages", o, t)
	var f *failure
	conflict := errors.As(err, &f) && f.exit == 1
	if err != nil && !conflict {
		return "", nil, err
	}
	fields := strings.Split(string(out), "\x00")
	if err := s.repo.checkHex(fields[0]); err != nil {
		return "", nil, fmt.Errorf("git merge-tree: %w", err)
	}
	if !conflict {
		return fields[0], nil, nil
	}
	return "", conflictPaths(fields[1:], o, t), nil
}

// conflictPaths reads what merge-tree prints after the tree: the paths, an empty
// field, and messages of the form count, paths, kind, text. A path that had to
// make way ends in the name of its side, which is removed.
func conflictPaths(fields []string, sides ...string) []string {
	n := max(slices.Index(fields, ""), 0)
	found, messages := fields[:n:n], fields[min(n+1, len(fields)):]
	for len(found) == 0 && len(messages) > 0 { // for example a directory renamed to two places
		n, err := strconv.Atoi(messages[0])
		if err != nil || n < 0 || n > len(messages)-3 {
			break
		}
		if strings.HasPrefix(messages[n+1], "CONFLICT") {
			found = append(found, messages[1:n+1]...)
		}
		messages = messages[n+3:]
	}
	var paths []string
	for _, p := range found {
		for _, side := range sides {
			if before, after, ok := strings.Cut(p, "~"+side); ok && !strings.Contains(after, "/") {
				p = before
			}
		}
		paths = append(paths, p)
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// unpack reads the tree into the session's index, which git refuses if one of its
// paths is not valid in a work tree, and writes the wanted files.
func (s *session) unpack(ctx context.Context, tree string, want func(path string) bool) error {
	if _, err := s.run(ctx, nil, "read-tree", "--reset", tree); err != nil {
		return err
	}
	listed, err := s.run(ctx, nil, "ls-files", "-z", "--stage")
	if err != nil {
		return err
	}
	missing, err := s.missing(ctx, listed)
	if err != nil {
		return err
	}
	var in bytes.Buffer
	for entry := range records(listed) {
		_, path, _ := strings.Cut(entry, "\t")
		if want(path) && (missing[path] == "" || !isAttributes(path)) {
			in.WriteString(path + "\x00")
		}
	}
	if in.Len() == 0 {
		return nil
	}
	_, err = s.run(ctx, &in, "checkout-index", "-z", "--stdin")
	return err
}

func isAttributes(p string) bool { return path.Base(p) == ".gitattributes" }

// noEntry is the entry at a path that a tree does not have.
var noEntry = entry{}

// An entry is what a tree has at a path.
type entry struct{ mode, object string }

// An edit is a path that differs between two trees.
type edit struct {
	path     string
	from, to entry
}

// edits lists what differs between two trees, by path.
func (s *session) edits(ctx context.Context, from, to string) ([]edit, error) {
	out, err := s.run(ctx, nil, "diff-tree", "-r", "-z", "--raw", "--full-index", "--no-renames", "--no-ext-diff",
		"--ignore-submodules=none", from, to)
	if err != nil {
		return nil, err
	}
	var list []edit
	var e edit
	for rec := range records(out) {
		if e == (edit{}) {
			f := strings.Fields(rec) // ":100644 100755 <object> <object> M"
			if len(f) != 5 {
				return nil, fmt.Errorf("git diff-tree: cannot read %q", rec)
			}
			e.from, e.to = entryOf(strings.TrimPrefix(f[0], ":"), f[2]), entryOf(f[1], f[3])
			continue
		}
		e.path = rec
		list, e = append(list, e), edit{}
	}
	return list, nil
}

func entryOf(mode, object string) entry {
	if strings.Trim(mode, "0") == "" {
		return noEntry
	}
	return entry{mode, object}
}

// checkPath refuses a path that is not valid in a work tree, or that belongs to git or to Plait.
func checkPath(p string) error {
	for i, part := range strings.Split(p, "/") {
		// Ignoring case, as some file systems do.
		if part == "" || part == "." || part == ".." || strings.EqualFold(part, ".git") ||
			strings.EqualFold(part, "git~1") ||
			i == 0 && strings.EqualFold(part, plaitDir) {
			return fmt.Errorf("%w: path %q", ErrRefused, p)
		}
	}
	return nil
}
