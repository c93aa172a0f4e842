package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// refBase is the prefix of all our refs.
const refBase = "refs/plait/"

// maxRef is the maximum length of a ref, in bytes: each of its parts is a file
// name.
const maxRef = 200

// A Ref is a name under which a snapshot is kept.
type Ref struct {
	Name string // the whole name, refs/plait/…
	Tree string
}

// Refs returns the refs below a prefix, which ends in a slash, sorted by name.
func (r *Repo) Refs(ctx context.Context, prefix string) ([]Ref, error) {
	refs, err := r.refs(ctx, prefix)
	if err != nil {
		return nil, fmt.Errorf("list refs %s: %w", prefix, err)
	}
	return refs, nil
}

func (r *Repo) refs(ctx context.Context, prefix string) ([]Ref, error) {
	if prefix != refBase {
		if err := checkPrefix(prefix); err != nil {
			return nil, err
		}
	}
	s, err := r.begin(noTree)
	if err != nil {
		return nil, err
	}
	defer s.end()
	out, err := s.run(ctx, nil, "for-each-ref", "--format=%(refname) %(tree)", prefix)
	if err != nil {
		return nil, err
	}
	var refs []Ref
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) == 2 {
			refs = append(refs, Ref{Name: f[0], Tree: f[1]})
		}
	}
	return refs, nil
}

// DropRefs removes all refs below a prefix such as refs/plait/<thread>/. Git may
// then collect what they kept. It is not an error if there are none.
func (r *Repo) DropRefs(ctx context.Context, prefix string) error {
	if err := r.dropRefs(ctx, prefix); err != nil {
		return fmt.Errorf("drop refs %s: %w", prefix, err)
	}
	return nil
}

func (r *Repo) dropRefs(ctx context.Context, prefix string) error {
	if err := checkPrefix(prefix); err != nil {
		return err
	}
	if err := r.refsInside(prefix); err != nil {
		return err
	}
	s, err := r.begin(noTree)
	if err != nil {
		return err
	}
	defer s.end()
	out, err := s.run(ctx, nil, "for-each-ref", "--format=%(refname) %(objectname)", prefix)
	if err != nil || len(out) == 0 {
		return err
	}
	var in bytes.Buffer
	for line := range strings.Lines(string(out)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		fmt.Fprintf(&in, "delete %s\x00%s\x00", name, value)
	}
	_, err = s.run(ctx, &in, "update-ref", "--no-deref", "--stdin", "-z")
	return err
}

func (s *session) setRef(ctx context.Context, ref, commit string) error {
	if err := s.repo.refsInside(ref); err != nil {
		return err
	}
	return s.updateRef(ctx, ref, ref, commit)
}

// staleLock is the age at which the lock of one of Plait's refs counts as stale: git holds it for milliseconds.
const staleLock = 2 * time.Second

// updateRef changes one of Plait's refs. A git that was killed, or whose disk failed, may have left the ref's lock
// behind; then no process could ever change it again. Such a lock is removed, and the change is tried once more.
func (s *session) updateRef(ctx context.Context, ref string, args ...string) error {
	update := func() error {
		_, err := s.run(ctx, nil, append([]string{"update-ref", "--no-deref"}, args...)...)
		return err
	}
	err := update()
	if err == nil || !removeStale(ctx, filepath.Join(s.repo.common, filepath.FromSlash(ref)+".lock")) {
		return err
	}
	return update()
}

// removeStale waits until a lock is stale, removes it if it has not changed, and reports whether it did.
func removeStale(ctx context.Context, lock string) bool {
	before, err := os.Lstat(lock)
	if err != nil || !before.Mode().IsRegular() {
		return false
	}
	select {
	case <-time.After(min(staleLock, staleLock-time.Since(before.ModTime()))): // immediately if it is old
	case <-ctx.Done():
		return false
	}
	now, err := os.Lstat(lock)
	return err == nil && os.SameFile(before, now) && now.ModTime().Equal(before.ModTime()) && os.Remove(lock) == nil
}

// refsInside refuses a ref with a symbolic link in its path: a write would follow the link.
func (r *Repo) refsInside(ref string) error {
	path := r.common
	for part := range strings.SplitSeq(strings.TrimSuffix(ref, "/"), "/") {
		path = filepath.Join(path, part)
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if errors.Is(err, syscall.ENOTDIR) {
			return fmt.Errorf("%w: %s is not a directory", ErrRefused, filepath.Dir(path))
		}
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return fmt.Errorf("%w: %s is a symbolic link", ErrRefused, path)
		}
	}
	return nil
}

// checkRef checks that ref is below refBase and valid for git.
func checkRef(ref string) error {
	rest, ok := strings.CutPrefix(ref, refBase)
	if !ok || len(ref) > maxRef {
		return fmt.Errorf("ref %q: want at most %d bytes below %s", ref, maxRef, refBase)
	}
	for part := range strings.SplitSeq(rest, "/") {
		if part == "" || part[0] == '.' || part[0] == '-' || strings.HasSuffix(part, ".") ||
			strings.HasSuffix(part, ".lock") || strings.Contains(part, "..") || strings.Trim(part, refChars) != "" {
			return fmt.Errorf("ref %q: %q cannot be part of it", ref, part)
		}
	}
	return nil
}

const refChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

func checkPrefix(prefix string) error {
	name, ok := strings.CutSuffix(prefix, "/")
	if !ok {
		return fmt.Errorf("prefix %q does not end in a slash", prefix)
	}
	return checkRef(name)
}

func (r *Repo) hexLen() int {
	if r.format == "sha256" {
		return 64
	}
	return 40
}

// checkHex checks that hex is the full name of an object, not something that git would take
// for an option or a revision.
func (r *Repo) checkHex(hex string) error {
	if len(hex) != r.hexLen() || strings.Trim(hex, "0123456789abcdef") != "" {
		return fmt.Errorf("object %q: want %d hex digits", hex, r.hexLen())
	}
	return nil
}
