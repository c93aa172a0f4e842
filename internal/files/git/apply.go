package git

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// ErrChanged reports that files are not as expected.
var ErrChanged = errors.New("changed meanwhile")

// maxNamed is the maximum number of paths that an error names.
const maxNamed = 20

// Apply changes the files of the work tree from one tree to another. Only paths
// that differ between the two are touched. Each must currently be as in from, or
// already as in to, so that Apply can be repeated after a crash; otherwise nothing
// is touched, and the error matches ErrChanged and names the paths, at most 20. An
// ignored file, or a link or a repository that a path leads through, also counts
// as changed.
//
// No index, HEAD or ref changes. New files are written next to the old ones and
// renamed, never through a link; line endings are such that Snapshot then returns to,
// if it would have returned from. (A file that is in to, but ignored by to's own
// .gitignore, is written, but Snapshot sees it only if the index has it.) Directories
// that deletions leave empty are removed. The error matches ErrRefused, and nothing
// is touched, if a path is below .git or .plait, if a submodule differs, or if a path
// must be removed that a sparse checkout excludes.
//
// No other process should write the same files meanwhile: a write is noticed up to
// the moment of renaming, and then the rest is left undone.
func (r *Repo) Apply(ctx context.Context, from, to string) error {
	if err := r.apply(ctx, from, to); err != nil {
		return fmt.Errorf("apply %s: %w", to, err)
	}
	return nil
}

func (r *Repo) apply(ctx context.Context, from, to string) error {
	p, err := r.plan(ctx, from, to)
	if err != nil {
		return err
	}
	defer p.close()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return p.execute()
}

// plan determines everything that must be done and checks that it can be done.
func (r *Repo) plan(ctx context.Context, from, to string) (*plan, error) {
	here, err := r.begin(r.root)
	if err != nil {
		return nil, err
	}
	defer here.end()
	if err := here.resolveTrees(ctx, &from, &to); err != nil {
		return nil, err
	}
	edits, err := here.edits(ctx, from, to)
	if err != nil {
		return nil, err
	}
	p, err := newPlan(edits)
	if err != nil || len(edits) == 0 {
		return p, err
	}
	if err := p.prepare(ctx, here, from, to); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// prepare fills the plan with the state of the files and with the files to write. here is a
// session on the work tree.
func (p *plan) prepare(ctx context.Context, here *session, from, to string) (err error) {
	r := here.repo
	if p.root, err = os.OpenRoot(r.root); err != nil {
		return err
	}
	// Look before git does, so that a write in between is noticed.
	for _, m := range p.moves {
		if m.seen, err = p.look(m.path); err != nil {
			return err
		}
	}
	if p.next, err = r.begin(ownTree); err != nil {
		return err
	}
	if p.staged, err = os.OpenRoot(p.next.cwd); err != nil {
		return err
	}
	if err := p.next.stage(ctx, to, p); err != nil {
		return err
	}
	if err := here.readCurrent(ctx, from, p); err != nil {
		return err
	}
	if err := p.check(); err != nil {
		return err
	}
	p.order()
	return nil
}

// A plan describes how the files of a work tree change.
type plan struct {
	root   *os.Root
	next   *session
	staged *os.Root // the work tree of next, with the files to write
	moves  []*move
	byPath map[string]*move
	above  map[string]bool // directories of the files to write
}

func (p *plan) close() {
	for _, dir := range []*os.Root{p.root, p.staged} {
		if dir != nil {
			dir.Close()
		}
	}
	if p.next != nil {
		p.next.end()
	}
}

// A move is the change of one path.
type move struct {
	edit
	now  entry // what a snapshot would have there
	seen pathState
	done bool // already as it should be
}

// newPlan returns a plan for edits, and refuses those that must not be made.
func newPlan(edits []edit) (*plan, error) {
	p := &plan{byPath: make(map[string]*move), above: make(map[string]bool)}
	for _, e := range edits {
		if err := checkPath(e.path); err != nil {
			return nil, err
		}
		if e.from.mode == gitlink || e.to.mode == gitlink {
			return nil, fmt.Errorf("%w: submodule %q differs", ErrRefused, e.path)
		}
		m := &move{edit: e, now: e.from}
		p.moves = append(p.moves, m)
		p.byPath[e.path] = m
		for dir := path.Dir(e.path); e.to != noEntry && dir != "." && !p.above[dir]; dir = path.Dir(dir) {
			p.above[dir] = true
		}
	}
	for _, e := range edits {
		if p.byPath[stagedName(e.path)] != nil {
			return nil, fmt.Errorf("%w: path %q", ErrRefused, stagedName(e.path))
		}
	}
	return p, nil
}

// stage writes the files of the plan into the session's work tree, with line endings such
// that a snapshot taken with the repository's index has them as the tree does.
func (s *session) stage(ctx context.Context, tree string, p *plan) error {
	wanted := func(path string) bool { m := p.byPath[path]; return m != nil && m.to != noEntry }
	if err := s.unpack(ctx, tree, func(path string) bool { return wanted(path) || isAttributes(path) }); err != nil {
		return err
	}
	if err := os.Remove(s.index()); err != nil {
		return err
	}
	if err := copyIndex(filepath.Join(s.repo.gitdir, "index"), s.index()); err != nil {
		return err
	}
	got, _, err := s.stageAll(ctx)
	if err != nil {
		return err
	}
	differ, err := s.edits(ctx, tree, got)
	if err != nil {
		return err
	}
	for _, e := range differ {
		// git does not convert the line endings of a file that the index already has
		// with CRLF: then the file must have exactly the bytes of the tree.
		if !wanted(e.path) || e.from.object == e.to.object || !regular(e.from) || !regular(e.to) {
			continue
		}
		data, err := s.run(ctx, nil, "cat-file", "blob", e.from.object)
		if err != nil {
			return err
		}
		if err := p.staged.WriteFile(e.path, data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func regular(e entry) bool { return strings.HasPrefix(e.mode, "100") }

// readCurrent determines what a snapshot of the work tree would have at the plan's paths.
// The index is not trusted for these: a file that changed must not be lost.
func (s *session) readCurrent(ctx context.Context, from string, p *plan) error {
	if err := copyIndex(filepath.Join(s.repo.gitdir, "index"), s.index()); err != nil {
		return err
	}
	listed, err := s.list(ctx)
	if err != nil {
		return err
	}
	var again bytes.Buffer
	for rec := range records(listed) {
		tag, known, _ := strings.Cut(rec, " ")
		what, path, _ := strings.Cut(known, "\t")
		if p.byPath[path] != nil && strings.EqualFold(tag, "H") && strings.HasSuffix(what, " 0") {
			again.WriteString(known + "\x00")
		}
	}
	if _, err := s.run(ctx, &again, "update-index", "-z", "--index-info"); err != nil {
		return err
	}
	now, _, err := s.stageAll(ctx)
	if err != nil {
		return err
	}
	differ, err := s.edits(ctx, from, now)
	if err != nil {
		return err
	}
	for _, e := range differ {
		if m := p.byPath[e.path]; m != nil {
			m.now = e.to
		}
	}
	return nil
}

// check marks the moves that are already done and checks that the others can be made.
func (p *plan) check() error {
	var changed []string
	for _, m := range p.moves {
		ok, err := p.ready(m)
		if err != nil {
			return err
		}
		if !ok {
			changed = append(changed, m.path)
		}
	}
	if n := len(changed); n > maxNamed {
		return fmt.Errorf("%w: %q and %d more", ErrChanged, changed[:maxNamed], n-maxNamed)
	} else if n > 0 {
		return fmt.Errorf("%w: %q", ErrChanged, changed)
	}
	return nil
}

// ready reports whether a move can be made or is already done; the latter it marks as done.
func (p *plan) ready(m *move) (ok bool, err error) {
	there := m.seen.info
	if m.seen.nested {
		return false, nil
	}
	if m.to == noEntry {
		switch {
		case m.now == noEntry:
			m.done = true
			return there == nil || there.IsDir(), nil
		case m.now != m.from:
			return false, nil
		case there == nil && m.seen.through == "":
			return false, fmt.Errorf("%w: %q is excluded by a sparse checkout", ErrRefused, m.path)
		}
		return there != nil && !there.IsDir(), nil
	}
	if m.now == m.to {
		m.done = true
		return true, nil
	}
	switch {
	case m.now != m.from:
	case m.seen.through != "":
		first := p.byPath[m.seen.through]
		return first != nil && first.to == noEntry, nil
	case there == nil:
		return true, nil
	case there.IsDir():
		if m.from == noEntry {
			return p.emptied(m.path)
		}
		return false, nil
	case m.from != noEntry:
		return true, nil
	}
	// An ignored file, which no snapshot has, may be there from an earlier Apply.
	if m.done, err = p.isWritten(m); err != nil {
		return false, err
	}
	return m.done, nil
}

// emptied reports whether the plan removes everything in a directory.
func (p *plan) emptied(dir string) (bool, error) {
	all := true
	err := fs.WalkDir(p.root.FS(), dir, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		m := p.byPath[at]
		if !d.IsDir() && (m == nil || m.to != noEntry) || d.Name() == ".git" {
			all = false
			return fs.SkipAll
		}
		return nil
	})
	return all, err
}

// order sorts the moves: those that make way for others come first. .gitattributes and
// .gitignore come last: they decide how files are read, and after a crash the other files
// must still compare as they did before.
func (p *plan) order() {
	// A path in a directory that becomes a file, or one that itself becomes a directory.
	makesWay := func(m *move) bool {
		for dir := path.Dir(m.path); dir != "."; dir = path.Dir(dir) {
			if over := p.byPath[dir]; over != nil && over.to != noEntry {
				return true
			}
		}
		return p.above[m.path]
	}
	rank := func(m *move) int {
		n := 0
		if m.to != noEntry {
			n = 1
		}
		base := path.Base(m.path)
		if base != ".gitattributes" && base != ".gitignore" || m.to == noEntry && makesWay(m) {
			return n
		}
		return n + 2
	}
	slices.SortStableFunc(p.moves, func(a, b *move) int { return cmp.Compare(rank(a), rank(b)) })
}

// execute makes the moves in order.
func (p *plan) execute() error {
	for _, m := range p.moves {
		var err error
		switch {
		case m.to == noEntry:
			err = p.remove(m)
		case !m.done:
			err = p.write(m)
		}
		if err != nil {
			return fmt.Errorf("%q: %w", m.path, err)
		}
	}
	return nil
}
