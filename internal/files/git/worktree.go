package git

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ErrHeld reports that a worktree contains something that a snapshot cannot keep.
var ErrHeld = errors.New("contains work that would be lost")

// Checkout makes dir, which must be absolute and missing or empty, a worktree of the
// repository whose files are exactly the tree (or the tree of a commit). Its HEAD
// is detached at the commit that the repository's HEAD names now, and its index
// is that commit's: git status and git diff show there what they would show in
// the work tree that the tree was taken from, with nothing staged, and a commit
// moves no branch. Files of the tree that are ignored and not in HEAD are staged,
// and submodules are those of the tree, so that a snapshot of the new worktree is
// the tree. If there is no commit yet, HEAD is a new unborn branch below plait/.
// The worktree is locked: git worktree prune does not remove it.
//
// dir appears complete or not at all.
func (r *Repo) Checkout(ctx context.Context, dir, tree string) error {
	if err := r.checkout(ctx, dir, tree); err != nil {
		return fmt.Errorf("check out %s: %w", dir, err)
	}
	return nil
}

func (r *Repo) checkout(ctx context.Context, dir, tree string) (err error) {
	if !filepath.IsAbs(dir) {
		return errors.New("not an absolute path")
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	if dir, err = resolveParent(dir); err != nil {
		return err
	}
	if rel, err := filepath.Rel(r.common, dir); err == nil && filepath.IsLocal(rel) {
		return fmt.Errorf("lies inside the git directory %s", r.common)
	}
	list, err := os.ReadDir(dir)
	if ignoreNotExist(err) != nil {
		return err
	}
	if len(list) > 0 {
		return fmt.Errorf("directory not empty: %w", fs.ErrExist)
	}
	if err := r.forget(dir); err != nil {
		return err
	}
	half := sibling(dir, "new")
	if err := RemoveAll(half); err != nil {
		return err
	}
	if err := os.Mkdir(half, 0o755); err != nil {
		return err
	}
	s, err := r.begin(half)
	if err != nil {
		return errors.Join(err, RemoveAll(half))
	}
	defer s.end()
	head, err := s.fill(ctx, tree)
	var entry string
	if err == nil {
		entry, err = s.register(dir, head)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(half, ".git"), []byte("gitdir: "+entry+"\n"), 0o644)
	}
	if err == nil {
		err = errors.Join(ignoreNotExist(os.Remove(dir)), os.Rename(half, dir))
	}
	if err != nil {
		if entry != "" {
			err = errors.Join(err, os.RemoveAll(entry))
		}
		return errors.Join(err, RemoveAll(half))
	}
	return nil
}

// ignoreNotExist returns err, or nil if it says that a file does not exist.
func ignoreNotExist(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// sibling returns the hidden directory next to dir in which dir is created, or to which it is
// renamed before it is removed.
func sibling(dir, what string) string {
	return filepath.Join(filepath.Dir(dir), "."+filepath.Base(dir)+"."+what)
}

// fill writes the tree's files into the empty work tree and returns HEAD.
func (s *session) fill(ctx context.Context, tree string) (head string, err error) {
	if tree, err = s.treeOf(ctx, tree); err != nil {
		return "", err
	}
	if head, err = s.head(ctx); err != nil {
		return "", err
	}
	if err := s.writeFiles(ctx, tree); err != nil {
		return "", err
	}
	return head, s.resetIndex(ctx, head)
}

// resetIndex turns the session's index from that of a tree and its files into that of HEAD,
// as users expect in a worktree. A snapshot with it still yields the tree: ignored files and
// submodules could not be found by looking at the files, so the tree's entries for those
// stay.
func (s *session) resetIndex(ctx context.Context, head string) error {
	ofTree, err := s.list(ctx)
	if err != nil {
		return err
	}
	ignored, err := s.run(ctx, nil, "ls-files", "-z", "--cached", "--ignored", "--exclude-standard")
	if err != nil {
		return err
	}
	want := make(map[string]string) // entries that no survey of the files would find
	var edit, skip strings.Builder
	for path := range records(ignored) {
		want[path] = ""
	}
	for rec := range records(ofTree) {
		tag, entry, _ := strings.Cut(rec, " ")
		_, path, _ := strings.Cut(entry, "\t")
		if _, ok := want[path]; ok || tag == "S" || strings.HasPrefix(entry, gitlink) {
			want[path] = entry
		}
		if tag == "S" {
			skip.WriteString(path + "\x00")
		}
	}
	// Not with -m, which fails on ignored files. Both keep the file times of unchanged
	// entries.
	if err := s.readTree(ctx, head); err != nil {
		return err
	}
	ofHead, err := s.run(ctx, nil, "ls-files", "-z", "--stage")
	if err != nil {
		return err
	}
	for entry := range records(ofHead) {
		_, path, _ := strings.Cut(entry, "\t")
		link := strings.HasPrefix(entry, gitlink)
		switch {
		case isPlaits(path):
			skip.WriteString(path + "\x00")
		case link && want[path] == "":
			edit.WriteString("0 " + strings.Repeat("0", s.repo.hexLen()) + "\t" + path + "\x00")
		case !link && !strings.HasPrefix(want[path], gitlink), want[path] == entry:
			delete(want, path)
		}
	}
	for _, entry := range want {
		if entry != "" {
			edit.WriteString(entry + "\x00")
		}
	}
	if edit.Len() > 0 {
		if _, err := s.run(ctx, strings.NewReader(edit.String()), "update-index", "-z", "--index-info"); err != nil {
			return err
		}
	}
	if skip.Len() > 0 {
		// The absence of Plait's own and of what is left out is not a change.
		if _, err := s.run(ctx, strings.NewReader(skip.String()), "update-index", "-z", "--skip-worktree",
			"--stdin"); err != nil {
			return err
		}
	}
	return nil
}

// readTree reads the tree of a commit into the session's index, or an empty one for "".
func (s *session) readTree(ctx context.Context, commit string) error {
	args := []string{"read-tree", "--reset", commit}
	if commit == "" {
		args = []string{"read-tree", "--empty"}
	}
	_, err := s.run(ctx, nil, args...)
	return err
}

// register adds a worktree at dir to the repository's list and returns its entry there,
// which appears atomically: it is created outside the list and renamed.
func (s *session) register(dir, head string) (entry string, err error) {
	r := s.repo
	list := filepath.Join(r.common, "worktrees")
	if err := os.Mkdir(list, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	if info, err := os.Lstat(list); err != nil || !info.IsDir() {
		return "", fmt.Errorf("%w: %s is not a directory", ErrRefused, list)
	}
	id := strings.ToLower("plait-" + rand.Text()[:12])
	if head == "" {
		head = "ref: refs/heads/plait/" + id
	}
	half, err := os.MkdirTemp(r.common, "plait-new-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(half)
	if err := os.Chmod(half, 0o755); err != nil {
		return "", err
	}
	for name, text := range map[string]string{
		"HEAD": head, "commondir": "../..", "gitdir": filepath.Join(dir, ".git"),
		"locked": "made by plait, which removes it when its work is kept", markFile: dir,
	} {
		if err := writeSynced(filepath.Join(half, name), text+"\n"); err != nil {
			return "", err
		}
	}
	if err := copyIndex(s.index(), filepath.Join(half, "index")); err != nil {
		return "", err
	}
	if err := syncFile(filepath.Join(half, "index")); err != nil {
		return "", err
	}
	entry = filepath.Join(list, id)
	return entry, os.Rename(half, entry)
}

// forget removes the entry of a worktree whose directory is gone. An entry that was not made
// here is left for its owner to prune.
func (r *Repo) forget(dir string) error {
	entries, err := r.registrations(dir)
	for _, entry := range entries {
		if !exists(entry, markFile) {
			return fmt.Errorf("registered as a worktree already, in %s: %w", entry, fs.ErrExist)
		}
		err = errors.Join(err, os.RemoveAll(entry))
	}
	return err
}

// RemoveAll is like os.RemoveAll, but makes directories writable if that is needed.
func RemoveAll(path string) error {
	err := os.RemoveAll(path)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			os.Chmod(p, 0o700) // before it is read
		}
		return nil
	})
	return os.RemoveAll(path)
}
