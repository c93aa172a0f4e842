package git

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// A place holds the directories of a work tree. All paths are absolute.
type place struct {
	root   string // the work tree's top level
	gitdir string // its own git directory: HEAD, index
	common string // the repository's git directory: objects, refs, config
	linked bool   // a worktree other than the main one
}

const (
	// maxSmall limits the small files of a git directory, in bytes.
	maxSmall = 1 << 20
	// maxIndex limits an index, in bytes: some ten million files.
	maxIndex = 1 << 30
	// markFile is in the registration of each worktree made here.
	markFile = "plait"
)

// findWorkTree walks up from dir, which has no links in it, to a work tree.
func findWorkTree(dir string) (place, error) {
	for ; ; dir = filepath.Dir(dir) {
		at, err := placeAt(dir)
		if errors.Is(err, ErrNone) && isBare(dir) {
			return place{}, ErrBare
		}
		if !errors.Is(err, ErrNone) {
			return at, err
		}
		if dir == filepath.Dir(dir) {
			return place{}, ErrNone
		}
	}
}

// isBare reports whether dir is itself a git directory.
func isBare(dir string) bool {
	head, err := readSmall(filepath.Join(dir, "HEAD"))
	named := strings.HasPrefix(head, "ref: refs/") || head != "" && strings.Trim(head, "0123456789abcdef\n") == ""
	return err == nil && named && exists(dir, "objects") && exists(dir, "refs")
}

// placeAt reads the .git of dir.
func placeAt(dir string) (place, error) {
	dot := filepath.Join(dir, ".git")
	info, err := os.Lstat(dot)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return place{}, ErrNone
	case err != nil:
		return place{}, err
	case info.Mode()&fs.ModeSymlink != 0:
		return place{}, fmt.Errorf("%w: %s is a symbolic link", ErrRefused, dot)
	case info.IsDir():
		if !exists(dot, "HEAD") || !exists(dot, "objects") || !exists(dot, "refs") {
			return place{}, ErrNone // git, too, looks further up
		}
		at := place{root: dir, gitdir: dot, common: dot}
		return at, at.check()
	}
	text, err := readSmall(dot)
	if err != nil {
		return place{}, err
	}
	to, ok := strings.CutPrefix(strings.TrimRight(text, "\r\n"), "gitdir: ")
	if !ok {
		return place{}, fmt.Errorf("%w: %s is not a git file", ErrRefused, dot)
	}
	gitdir, err := resolve(dir, to)
	if err != nil {
		return place{}, fmt.Errorf("%w: %s: %v", ErrRefused, dot, err)
	}
	at := place{root: dir, gitdir: gitdir, common: gitdir}
	text, err = readSmall(filepath.Join(gitdir, "commondir"))
	if errors.Is(err, fs.ErrNotExist) {
		return at, at.check() // a submodule; adopt checks that its config leads back
	}
	if err != nil {
		return place{}, err
	}
	at.linked = true
	if at.common, err = resolve(gitdir, strings.TrimRight(text, "\r\n")); err != nil {
		return place{}, fmt.Errorf("%w: %s: %v", ErrRefused, gitdir, err)
	}
	// A file that anyone may write must not choose whose refs we write: the
	// repository must have this worktree in its list.
	back, err := readSmall(filepath.Join(gitdir, "gitdir"))
	if err != nil {
		return place{}, fmt.Errorf("%w: %s points to %s, which names no worktree", ErrRefused, dot, gitdir)
	}
	named, err := resolve(gitdir, filepath.Dir(strings.TrimRight(back, "\r\n")))
	if err != nil || named != dir || filepath.Dir(gitdir) != filepath.Join(at.common, "worktrees") {
		return place{}, fmt.Errorf("%w: %s points to %s, which does not point back", ErrRefused, dot, gitdir)
	}
	return at, at.check()
}

// check refuses a repository whose objects or refs are not directories but, for example, links.
func (at place) check() error {
	for _, name := range []string{"objects", "refs"} {
		info, err := os.Lstat(filepath.Join(at.common, name))
		if err != nil {
			return fmt.Errorf("%w: %v", ErrRefused, err)
		}
		if !info.IsDir() {
			return fmt.Errorf("%w: %s in %s is not a directory", ErrRefused, name, at.common)
		}
	}
	return nil
}

func (at place) hasMark() bool { return exists(at.gitdir, markFile) }

// registrations returns the registrations of the worktree at dir. There is more
// than one only after a crash.
func (at place) registrations(dir string) ([]string, error) {
	base := filepath.Join(at.common, "worktrees")
	list, err := os.ReadDir(base)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var found []string
	for _, d := range list {
		entry := filepath.Join(base, d.Name())
		text, err := readSmall(filepath.Join(entry, "gitdir"))
		if err == nil && d.IsDir() && strings.TrimRight(text, "\r\n") == filepath.Join(dir, ".git") {
			found = append(found, entry)
		}
	}
	return found, nil
}

func exists(dir, name string) bool {
	_, err := os.Lstat(filepath.Join(dir, name))
	return err == nil
}

// resolve returns path, relative to dir, with all links resolved.
func resolve(dir, path string) (string, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	return filepath.EvalSymlinks(path)
}

// openRegular opens a file that is neither a link nor something that blocks.
func openRegular(path string) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%w: %s is not a regular file", ErrRefused, path)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// readSmall reads one of the small files of a git directory.
func readSmall(path string) (string, error) {
	f, _, err := openRegular(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSmall+1))
	if err == nil && (len(data) > maxSmall || bytes.IndexByte(data, 0) >= 0) {
		err = fmt.Errorf("%w: %s is too large or contains NUL", ErrRefused, path)
	}
	return string(data), err
}

// copyIndex copies an index with its modification time, from which git derives which
// entries are too recent to be trusted. Without an index there is no copy.
func copyIndex(from, to string) error {
	in, info, err := openRegular(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close()
	if info.Size() > maxIndex {
		return fmt.Errorf("%w: %s is larger than %d bytes", ErrRefused, from, maxIndex)
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Close()); err == nil {
		err = os.Chtimes(to, info.ModTime(), info.ModTime())
	}
	return err
}

// writeSynced writes a file that a power cut does not empty.
func writeSynced(name, text string) error {
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		return err
	}
	return syncFile(name)
}

// syncFile makes what was written to a file, or the names in a directory, survive a power cut.
func syncFile(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
