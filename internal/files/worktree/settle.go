package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/plait-run/plait/internal/files/git"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// A Place has repositories for tasks that do not work in a person's directory: see package place.
type Place interface {
	// Has reports whether the workspace of a thread is in the place.
	Has(row store.Thread) bool
	// Ready creates the repository in the workspace of a thread, unless it exists. format is its git object
	// format.
	Ready(ctx context.Context, row store.Thread, format string) error
	// Fetch updates the repository from the remote of its workspace, if any.
	Fetch(ctx context.Context, row store.Thread) error
}

// placed reports whether a thread works in a place: its files are then those in the record.
func (t *Trees) placed(row store.Thread) bool { return t.cfg.Place != nil && t.cfg.Place.Has(row) }

// errNotKept reports that a thread cannot work in a place.
var errNotKept = errors.New("its files are not in the record: begin it with --keep-files, or upload them")

// A taskError is due to the task or what agents left of it.
type taskError struct{ error }

func (e taskError) Unwrap() error { return e.error }

// OfTask reports whether an error of Prepare is due to the task or what agents left of it: no other machine can do
// better.
func OfTask(err error) bool {
	_, own := errors.AsType[taskError](err)
	return own || errors.Is(err, errNotKept) || errors.Is(err, ErrRefused)
}

// settle makes the working tree of a thread match the recorded files at its head. A tree that already does
// stays as it is, including files that no snapshot has.
func (t *Trees) settle(ctx context.Context, row store.Thread) error {
	files, err := t.filesAt(ctx, row, row.Head)
	if err != nil {
		return err
	}
	if files == nil {
		return errNotKept
	}
	top, _, made := Made(row)
	if !made {
		return fmt.Errorf("%w: a thread of a place has a working tree of its own", git.ErrRefused)
	}
	defer t.held.take(top)()
	at, err := os.ReadFile(stampFile(top))
	was, head, soiled := strings.Cut(string(at), "\n")
	if err == nil && was == files.Tree && (!soiled || head == row.Head.String()) {
		if info, err := os.Lstat(top); err == nil && info.IsDir() {
			return t.complete(ctx, row, top)
		}
	}
	repo, err := t.gather(ctx, row, files)
	if err != nil {
		return err
	}
	for _, name := range []string{stampFile(top), readyFile(top)} { // a half-made tree has neither
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := bring(ctx, repo, top, files.Tree); err != nil {
		return err
	}
	if err := t.stamp(row, files.Tree); err != nil {
		return err
	}
	return t.complete(ctx, row, top)
}

// Shed removes the working tree of a thread in a place, which the caller may drive, with all that the record does not
// have: it is made again when the thread is driven.
func (t *Trees) Shed(row store.Thread) error {
	if !t.placed(row) || !Own(row) {
		return nil
	}
	top := root(row)
	defer t.held.take(top)()
	for _, name := range []string{stampFile(top), readyFile(top), top} {
		if err := git.RemoveAll(name); err != nil {
			return fmt.Errorf("remove the working tree of thread %s: %w", row.ID, err)
		}
	}
	return nil
}

// held are directories that are being changed, or must not change for a while.
type held struct {
	mu  sync.Mutex
	dir map[string]*holding
}

type holding struct {
	sync.Mutex
	n int // number of holders and waiters
}

// take waits until the caller has exclusive use of a directory. The function that it returns releases it.
func (h *held) take(dir string) func() {
	h.mu.Lock()
	if h.dir == nil {
		h.dir = map[string]*holding{}
	}
	x := h.dir[dir]
	if x == nil {
		x = &holding{}
		h.dir[dir] = x
	}
	x.n++
	h.mu.Unlock()
	x.Lock()
	return func() {
		x.Unlock()
		h.mu.Lock()
		defer h.mu.Unlock()
		if x.n--; x.n == 0 {
			delete(h.dir, dir)
		}
	}
}

// bring makes a working tree match a git tree, whatever its current state.
func bring(ctx context.Context, repo *git.Repo, top, tree string) error {
	work, err := repo.Worktree(ctx, top)
	if err == nil {
		if err = work.Restore(ctx, tree); err == nil || ctx.Err() != nil {
			return err
		}
	}
	if err := git.RemoveAll(top); err != nil { // it does not exist, or an agent left it unusable
		return err
	}
	return repo.Checkout(ctx, top, tree)
}

// stampFile is the file that names the git tree that a working tree was last known to match and, if an agent may
// have written there since, the head at which it began.
func stampFile(top string) string { return top + ".at" }

// stamp records that the working tree of a thread matches a git tree. It is for places, where another machine
// may continue from the tree.
func (t *Trees) stamp(row store.Thread, tree string) error {
	top, _, made := Made(row)
	if !t.placed(row) || !made {
		return nil
	}
	return os.WriteFile(stampFile(top), []byte(tree), 0o644)
}

// soil adds to the stamp of a thread's working tree that an agent writes there from the thread's head on: a later
// step does not begin with what a killed agent left.
func (t *Trees) soil(row store.Thread) error {
	top, _, made := Made(row)
	if !t.placed(row) || !made {
		return nil
	}
	at, err := os.ReadFile(stampFile(top))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	tree, _, _ := strings.Cut(string(at), "\n")
	return t.stamp(row, tree+"\n"+row.Head.String())
}

// gather puts the git objects of files into the repository of a thread's workspace.
func (t *Trees) gather(ctx context.Context, row store.Thread, files *thread.Files) (*git.Repo, error) {
	format := "sha1"
	if len(files.Tree) == 64 {
		format = "sha256"
	}
	defer t.held.take(row.Workspace)()
	if err := t.cfg.Place.Ready(ctx, row, format); err != nil {
		return nil, err
	}
	repo, err := git.Open(ctx, row.Workspace)
	if err != nil {
		return nil, err
	}
	if real, err := filepath.EvalSymlinks(row.Workspace); err != nil || real != repo.Root() {
		return nil, fmt.Errorf("%w: %s is not a repository", git.ErrRefused, row.Workspace)
	}
	var missing []*thread.Files // newest first
	for f := files; ; {
		has, err := repo.Has(ctx, f.Commit)
		if err != nil {
			return nil, err
		}
		if has {
			break
		}
		if missing = append(missing, f); f.Base.IsZero() {
			break
		}
		if f, err = t.cfg.Reader.Files(ctx, f.Base); err != nil {
			return nil, err
		}
	}
	if len(missing) > 0 {
		if err := t.begunOn(ctx, repo, row); err != nil {
			return nil, err
		}
	}
	for _, f := range slices.Backward(missing) {
		if err := t.unbundle(ctx, repo, row, f); err != nil {
			return nil, err
		}
	}
	return repo, nil
}

// begunOn fetches the commit that a task's uploaded files build on, if any, and makes it the HEAD of the task's
// repository, from which agents work.
func (t *Trees) begunOn(ctx context.Context, repo *git.Repo, row store.Thread) error {
	if row.Files.IsZero() {
		return nil
	}
	f, err := t.cfg.Reader.Files(ctx, row.Files)
	if err != nil {
		return err
	}
	onto, err := t.onto(ctx, f)
	if err != nil || onto == "" {
		return err
	}
	has, err := repo.Has(ctx, onto)
	if err == nil && !has {
		if err = t.cfg.Place.Fetch(ctx, row); err == nil {
			has, err = repo.Has(ctx, onto)
		}
	}
	if err == nil && !has {
		err = taskError{fmt.Errorf("the task begins at commit %s, which the remote of its workspace does not have: push it, "+
			"and resume", onto)}
	}
	if err != nil {
		return err
	}
	return repo.SetHead(ctx, onto)
}

// onto returns the commit that a bundle builds on: that of its base, or one of the workspace's remote.
func (t *Trees) onto(ctx context.Context, f *thread.Files) (string, error) {
	if !f.Base.IsZero() {
		base, err := t.cfg.Reader.Files(ctx, f.Base)
		if err != nil {
			return "", err
		}
		return base.Commit, nil
	}
	r, _, err := t.cfg.Reader.Objects().Open(ctx, f.Bundle)
	if err != nil {
		return "", err
	}
	defer r.Close()
	return git.BundleOnto(r)
}

// filesAt returns the files that a thread had at one of its heads, or those it began with; nil if the record
// lacks them.
func (t *Trees) filesAt(ctx context.Context, row store.Thread, head dag.Hash) (*thread.Files, error) {
	h, err := t.keptAt(ctx, row, head)
	if err != nil || h.IsZero() {
		return nil, err
	}
	return t.cfg.Reader.Files(ctx, h)
}

// keptAt returns the tree node of the files that a thread had at a head. It goes up through the thread's
// callers to what the task began with. A later upload counts from the head at which it was made; before that,
// only steps have the files.
func (t *Trees) keptAt(ctx context.Context, row store.Thread, head dag.Hash) (dag.Hash, error) {
	opts, err := record.OptionsOf(row)
	if err != nil {
		return dag.Hash{}, err
	}
	for !head.IsZero() {
		h, start, err := t.keptIn(ctx, head, opts.Uploaded)
		if err != nil || !h.IsZero() {
			return h, err
		}
		if h = opts.Uploaded[start.String()]; !h.IsZero() {
			return h, nil
		}
		begun, err := t.cfg.Reader.Start(ctx, start)
		if err != nil {
			return h, err
		}
		head = begun.ParentState
	}
	if len(opts.Uploaded) > 0 {
		return dag.Hash{}, nil
	}
	return row.Files, nil
}

// keptIn returns the tree node of one thread's newest step up to head, or of an upload after that step, and the
// thread's start. The steps of a path count only from the join that merged it.
func (t *Trees) keptIn(ctx context.Context, head dag.Hash, uploaded map[string]dag.Hash) (
	files, start dag.Hash, err error) {
	start = head
	var past dag.Hash // up to this fork, steps belong to a path, which has its own files
	for s, err := range t.cfg.Reader.Walk(ctx, head) {
		if err != nil {
			return files, start, err
		}
		if start = s.State.Start; !past.IsZero() {
			if s.Hash != past {
				continue
			}
			past = dag.Hash{}
		}
		if files = uploaded[s.Hash.String()]; !files.IsZero() {
			return files, start, nil
		}
		d, err := t.cfg.Reader.Detail(ctx, s.State.Detail)
		if err != nil {
			return files, start, err
		}
		if d != nil && !d.Files.IsZero() {
			return d.Files, start, nil
		}
		if s.State.Paths != nil {
			past = s.State.Fork
			continue
		}
		if s.State.ChildThread.IsZero() {
			continue
		}
		if files, _, err = t.keptIn(ctx, s.State.ChildThread, uploaded); err != nil || !files.IsZero() {
			return files, start, err
		}
	}
	return files, start, nil
}

// gatherSides puts into the repository what the paths of a join left and what they began with, wherever they worked.
func (t *Trees) gatherSides(ctx context.Context, paths []store.Thread) error {
	for _, row := range paths {
		if !Own(row) || row.Status != store.Completed {
			continue
		}
		left, err := t.filesAt(ctx, row, row.Head)
		if err != nil {
			return err
		}
		before, err := t.filesAt(ctx, row, row.Parent.From)
		if err != nil {
			return err
		}
		if left == nil || before == nil {
			return fmt.Errorf("path %s: %w", row.Path.ID, errNotKept)
		}
		if _, err := t.gather(ctx, row, before); err != nil {
			return err
		}
		repo, err := t.gather(ctx, row, left)
		if err != nil {
			return err
		}
		asOf := ref(row.Parent.Thread, asOfFork(row))
		kept, err := treeAt(ctx, repo, asOf)
		if err == nil && kept == "" {
			head := ""
			if head, err = repo.Head(ctx); err == nil {
				err = repo.Keep(ctx, asOf, before.Tree, head)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
