package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Restore resets the work tree to exactly the tree: changed and missing files
// are written, others removed, including nested repositories and what only a changed
// .gitignore had hidden. What the tree's own .gitignore ignores stays, and so
// does .plait/. HEAD stays; the index becomes as Checkout makes it; a lock that a
// killed git left is removed. Restore refuses a work tree that Checkout did not make.
// No other process may be working in it.
func (r *Repo) Restore(ctx context.Context, tree string) error {
	if err := r.restore(ctx, tree); err != nil {
		return fmt.Errorf("restore %s: %w", r.root, err)
	}
	return nil
}

func (r *Repo) restore(ctx context.Context, tree string) error {
	if !r.Made() {
		return fmt.Errorf("%w: not a worktree made by plait", ErrRefused)
	}
	s, err := r.begin(r.root)
	if err != nil {
		return err
	}
	defer s.end()
	if tree, err = s.treeOf(ctx, tree); err != nil {
		return err
	}
	root, err := os.OpenRoot(r.root)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := s.markSuspect(ctx); err != nil {
		return err
	}
	_, seen, err := s.stageAll(ctx)
	if err != nil {
		return err
	}
	for _, path := range seen.nested {
		if err := drop(root, path); err != nil {
			return err
		}
	}
	if err := s.writeFiles(ctx, tree); err != nil {
		return err
	}
	// The files are now the tree's. Its own .gitignore rules apply once all others
	// are removed.
	if err := s.dropRules(ctx, root); err != nil {
		return err
	}
	others, err := s.differing(ctx, "--exclude-standard", "--others")
	if err != nil {
		return err
	}
	for _, path := range others {
		if err := drop(root, path); err != nil {
			return err
		}
	}
	left, err := s.differing(ctx, "--exclude-standard", "--others", "--modified", "--deleted")
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("still not as the tree: %q", left[:min(len(left), 5)])
	}
	head, err := s.head(ctx)
	if err != nil {
		return err
	}
	if err := s.resetIndex(ctx, head); err != nil {
		return err
	}
	return s.install()
}

// dropRules removes every .gitignore that is not in the index, except in a directory that
// the rules above it ignore.
func (s *session) dropRules(ctx context.Context, root *os.Root) error {
	others, err := s.differing(ctx, "--others")
	if err != nil {
		return err
	}
	byDepth := make(map[int][]string)
	for _, path := range others {
		if filepath.Base(path) == ".gitignore" {
			n := strings.Count(path, "/")
			byDepth[n] = append(byDepth[n], path)
		}
	}
	// From the top down, so that only the rules that remain apply to the deeper ones.
	for _, depth := range slices.Sorted(maps.Keys(byDepth)) {
		var in strings.Builder
		for _, path := range byDepth[depth] {
			in.WriteString("./" + filepath.Dir(path) + "\x00") // "./" so that no name is taken for a pattern
		}
		out, err := s.run(ctx, strings.NewReader(in.String()), "check-ignore", "-z", "--no-index", "--stdin")
		var f *failure
		if err != nil && !(errors.As(err, &f) && f.exit == 1) { // 1: none is
			return err
		}
		ignored := make(map[string]bool)
		for dir := range records(out) {
			ignored[dir] = true
		}
		for _, path := range byDepth[depth] {
			// For the root git would report whether everything in it is ignored.
			if depth == 0 || !ignored["./"+filepath.Dir(path)] {
				if err := drop(root, path); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// differing returns the paths of the given kinds that ls-files lists, except Plait's own and
// submodules.
func (s *session) differing(ctx context.Context, kinds ...string) ([]string, error) {
	out, err := s.look(ctx, kinds...)
	if err != nil {
		return nil, err
	}
	links, err := s.submodules(ctx)
	if err != nil {
		return nil, err
	}
	var paths []string
	for path := range records(out) {
		if clean := strings.TrimSuffix(path, "/"); !isPlaits(clean) && links[clean] == "" {
			paths = append(paths, path)
		}
	}
	return paths, nil
}

// submodules returns the commits of the submodules in the session's index, by their paths.
func (s *session) submodules(ctx context.Context) (map[string]string, error) {
	out, err := s.run(ctx, nil, "ls-files", "-z", "--stage")
	if err != nil {
		return nil, err
	}
	links := make(map[string]string)
	for entry := range records(out) {
		what, path, _ := strings.Cut(entry, "\t")
		if f := strings.Fields(what); len(f) == 3 && f[0] == gitlink {
			links[path] = f[1]
		}
	}
	return links, nil
}

// drop removes a path and the directories that it leaves empty.
func drop(root *os.Root, path string) error {
	path = strings.TrimSuffix(path, "/")
	err := root.RemoveAll(path)
	if errors.Is(err, fs.ErrPermission) {
		if err = RemoveAll(filepath.Join(root.Name(), path)); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	for dir := filepath.Dir(path); dir != "."; dir = filepath.Dir(dir) {
		if root.Remove(dir) != nil {
			break // not empty
		}
	}
	return nil
}

// install makes the session's index that of the worktree, and repairs the worktree's .git file.
func (s *session) install() error {
	r := s.repo
	fresh := filepath.Join(r.gitdir, "index.plait")
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	if err := copyIndex(s.index(), fresh); err != nil {
		return err
	}
	if err := syncFile(fresh); err != nil {
		return err
	}
	index := filepath.Join(r.gitdir, "index")
	if info, err := os.Lstat(index); err == nil && info.IsDir() {
		if err := RemoveAll(index); err != nil {
			return err
		}
	}
	if err := os.Rename(fresh, index); err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(r.gitdir, "index.lock")); err != nil {
		return err
	}
	dot := filepath.Join(r.root, ".git")
	want := "gitdir: " + r.gitdir + "\n"
	if text, err := readSmall(dot); err == nil && text == want {
		return nil
	}
	if err := RemoveAll(dot); err != nil {
		return err
	}
	return os.WriteFile(dot, []byte(want), 0o644)
}

// Remove keeps a snapshot of the worktree at dir under ref and then removes the
// worktree, including the ignored files that may be lost. It returns the snapshot's
// tree. It removes nothing if the snapshot could not be kept, and nothing that
// Checkout did not make; the error matches ErrHeld if there is something that the
// snapshot does not have. If dir is gone, Remove cleans up what a crash left and
// returns the tree that ref keeps, or "" if it keeps none. No other process may be
// working in dir.
func (r *Repo) Remove(ctx context.Context, dir, ref string, lose Caches) (tree string, err error) {
	tree, err = r.remove(ctx, dir, ref, lose)
	if err != nil {
		return "", fmt.Errorf("remove worktree %s: %w", dir, err)
	}
	return tree, nil
}

func (r *Repo) remove(ctx context.Context, dir, ref string, lose Caches) (tree string, err error) {
	if err := checkRef(ref); err != nil {
		return "", err
	}
	at, err := placeToRemove(dir)
	if err != nil {
		return "", err
	}
	if _, err = os.Lstat(at); errors.Is(err, fs.ErrNotExist) {
		if tree, err = r.keptTree(ctx, ref); err != nil {
			return "", err
		}
		return tree, r.clear(at)
	}
	w, err := r.worktree(ctx, at)
	if err != nil {
		return "", err
	}
	if tree, err = w.archive(ctx, ref, lose); err != nil {
		return "", err
	}
	return tree, r.delete(at)
}

// Discard removes the worktree at dir with everything in it, including repositories, and
// keeps nothing. It removes nothing that Checkout did not make. If dir is gone, Discard
// cleans up what a crash left. No other process may be working in dir.
func (r *Repo) Discard(dir string) error {
	at, err := placeToRemove(dir)
	if err == nil {
		_, err = r.made(at)
	}
	switch {
	case err == nil:
		err = r.delete(at)
	case errors.Is(err, fs.ErrNotExist):
		err = r.clear(at)
	}
	if err != nil {
		return fmt.Errorf("discard worktree %s: %w", dir, err)
	}
	return nil
}

// placeToRemove is resolveParent for a directory whose parent may be gone too.
func placeToRemove(dir string) (string, error) {
	at, err := resolveParent(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return filepath.Clean(dir), nil
	}
	return at, err
}

// delete removes a worktree that Checkout made.
func (r *Repo) delete(at string) error {
	// Rename first, so that a crash cannot leave half a worktree that the next Remove would
	// take for a complete one.
	gone := sibling(at, "gone")
	if err := RemoveAll(gone); err != nil {
		return err
	}
	if err := os.Rename(at, gone); err != nil {
		return err
	}
	return r.clear(at)
}

// archive keeps a snapshot of the work tree under ref, unless that would miss something.
// The index is not trusted.
func (r *Repo) archive(ctx context.Context, ref string, lose Caches) (tree string, err error) {
	s, err := r.begin(r.root)
	if err != nil {
		return "", err
	}
	defer s.end()
	if err := s.markSuspect(ctx); err != nil {
		return "", err
	}
	tree, _, err = s.stageAll(ctx)
	if err != nil {
		return "", err
	}
	var l Leftovers
	if err := s.leftovers(ctx, "", lose, &l); err != nil {
		return "", fmt.Errorf("%w: %w", ErrHeld, err)
	}
	if n := len(l.Left); n > 0 {
		return "", fmt.Errorf("%w: %d things, such as %q (%s)", ErrHeld, n, l.Left[0].Path, l.Left[0].Why)
	}
	return tree, s.commitTree(ctx, tree, ref)
}

// keptTree returns the tree that ref keeps, or "".
func (r *Repo) keptTree(ctx context.Context, ref string) (string, error) {
	s, err := r.begin(noTree)
	if err != nil {
		return "", err
	}
	defer s.end()
	return s.resolveRev(ctx, ref+"^{tree}")
}

// clear removes what is left of a worktree whose directory is gone.
func (r *Repo) clear(dir string) error {
	if err := r.forget(dir); err != nil {
		return err
	}
	return RemoveAll(sibling(dir, "gone"))
}
