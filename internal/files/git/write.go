package git

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// A pathState is what is at a path.
type pathState struct {
	info    fs.FileInfo // nil if there is nothing
	through string      // the part of the path that exists and is not a directory, or ""
	nested  bool        // the path leads into a nested repository
}

// look returns the state of a path without following a link.
func (p *plan) look(at string) (pathState, error) {
	dir, through, err := p.enter(path.Dir(at), false)
	if errors.Is(err, fs.ErrNotExist) {
		return pathState{}, nil
	}
	if err != nil {
		if through != "" {
			return pathState{through: through}, nil
		}
		if errors.Is(err, errNested) {
			return pathState{nested: true}, nil
		}
		return pathState{}, err
	}
	defer dir.Close()
	info, err := dir.Lstat(path.Base(at))
	return pathState{info: info}, ignoreNotExist(err)
}

// errNested reports that a directory is a nested repository.
var errNested = fmt.Errorf("%w: it is in a nested repository", ErrChanged)

// enter opens a directory of the work tree without following a link, and creates it if
// make is set. If a part of the path is not a directory, through is that part.
func (p *plan) enter(at string, make bool) (dir *os.Root, through string, err error) {
	if dir, err = p.root.OpenRoot("."); err != nil || at == "." {
		return dir, "", err
	}
	parts := strings.Split(at, "/")
	for i, part := range parts {
		next, err := openDir(dir, part, make)
		dir.Close()
		if errors.Is(err, syscall.ENOTDIR) {
			return nil, strings.Join(parts[:i+1], "/"), err
		}
		if err != nil {
			return nil, "", err
		}
		dir = next
		if _, err := dir.Lstat(".git"); !errors.Is(err, fs.ErrNotExist) {
			dir.Close()
			return nil, "", errors.Join(errNested, err)
		}
	}
	return dir, "", nil
}

// openDir opens a directory in dir. It checks that it opened the directory it had looked at:
// a link put there in between would be followed.
func openDir(dir *os.Root, name string, make bool) (*os.Root, error) {
	info, err := dir.Lstat(name)
	if make && errors.Is(err, fs.ErrNotExist) {
		if err = dir.Mkdir(name, 0o777); err != nil {
			return nil, err
		}
		info, err = dir.Lstat(name)
	}
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, &fs.PathError{Op: "enter", Path: name, Err: syscall.ENOTDIR}
	}
	next, err := dir.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	opened, err := next.Stat(".")
	if err == nil && !os.SameFile(info, opened) {
		err = ErrChanged
	}
	if err != nil {
		next.Close()
		return nil, err
	}
	return next, nil
}

// stagedName returns the name of the file next to a path that will replace it. It is always
// the same for a path, so that what a crash left is found and removed.
func stagedName(at string) string {
	sum := sha256.Sum256([]byte(at))
	return path.Join(path.Dir(at), ".plait-new-"+hex.EncodeToString(sum[:12]))
}

// write puts the staged file of a move in its place: a copy next to it, then a rename.
func (p *plan) write(m *move) error {
	dir, _, err := p.enter(path.Dir(m.path), true)
	if err != nil {
		return err
	}
	defer dir.Close()
	name, half := path.Base(m.path), path.Base(stagedName(m.path))
	if err := ignoreNotExist(dir.Remove(half)); err != nil {
		return err
	}
	if err := p.copyStaged(dir, half, m); err != nil {
		return errors.Join(err, ignoreNotExist(dir.Remove(half)))
	}
	if m.seen.info != nil && m.seen.info.IsDir() {
		err = clearDirs(dir, name)
	} else {
		err = checkUnchanged(dir, name, m.seen.info)
	}
	if err == nil {
		err = dir.Rename(half, name)
	}
	if err != nil {
		return errors.Join(err, ignoreNotExist(dir.Remove(half)))
	}
	return nil
}

// copyStaged makes a file like the staged one. It keeps the read and write permissions of
// the old file.
func (p *plan) copyStaged(dir *os.Root, name string, m *move) error {
	info, err := p.staged.Lstat(m.path)
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		to, err := p.staged.Readlink(m.path)
		if err != nil {
			return err
		}
		return dir.Symlink(to, name)
	}
	in, err := p.staged.Open(m.path)
	if err != nil {
		return err
	}
	defer in.Close()
	perm := fs.FileMode(0o666)
	if isExecutable(info) {
		perm = 0o777
	}
	out, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if old := m.seen.info; err == nil && old != nil && old.Mode().IsRegular() {
		perm = old.Mode().Perm() &^ 0o111
		if isExecutable(info) {
			perm |= perm & 0o444 >> 2
		}
		err = out.Chmod(perm)
	}
	if err == nil {
		err = out.Sync() // a crash must not leave an empty file under the name
	}
	return errors.Join(err, out.Close())
}

func isExecutable(info fs.FileInfo) bool { return info.Mode()&0o100 != 0 }

// checkUnchanged returns ErrChanged unless the file is still the one that was seen.
func checkUnchanged(dir *os.Root, name string, seen fs.FileInfo) error {
	info, err := dir.Lstat(name)
	if ignoreNotExist(err) != nil {
		return err
	}
	if (info == nil) != (seen == nil) || info != nil &&
		(!os.SameFile(info, seen) || info.Size() != seen.Size() || !info.ModTime().Equal(seen.ModTime()) ||
			info.Mode() != seen.Mode()) {
		return ErrChanged
	}
	return nil
}

// clearDirs removes a directory that contains nothing but directories.
func clearDirs(dir *os.Root, name string) error {
	info, err := dir.Lstat(name)
	if err != nil || !info.IsDir() {
		return ignoreNotExist(err)
	}
	inside, err := openDir(dir, name, false)
	if err != nil {
		return err
	}
	defer inside.Close()
	list, err := fs.ReadDir(inside.FS(), ".")
	if err != nil {
		return err
	}
	for _, d := range list {
		if !d.IsDir() {
			return ErrChanged
		}
		if err := clearDirs(inside, d.Name()); err != nil {
			return err
		}
	}
	return dir.Remove(name)
}

// remove removes a file, unless it is already removed, and the directories that this leaves empty.
func (p *plan) remove(m *move) error {
	at := path.Dir(m.path)
	if !m.done {
		dir, _, err := p.enter(at, false)
		if err != nil {
			return err
		}
		name := path.Base(m.path)
		if err = checkUnchanged(dir, name, m.seen.info); err == nil {
			err = dir.Remove(name)
		}
		dir.Close()
		if err != nil {
			return err
		}
	}
	for ; at != "."; at = path.Dir(at) {
		dir, _, err := p.enter(path.Dir(at), false)
		if err != nil {
			continue // gone already, or not ours
		}
		info, err := dir.Lstat(path.Base(at))
		if err == nil && info.IsDir() {
			err = dir.Remove(path.Base(at))
		}
		dir.Close()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil // not empty
		}
	}
	return nil
}

// isWritten reports whether the file at the path is already exactly what would be written.
func (p *plan) isWritten(m *move) (bool, error) {
	there := m.seen.info
	if there == nil || m.seen.through != "" {
		return false, nil
	}
	info, err := p.staged.Lstat(m.path)
	if err != nil {
		return false, err
	}
	if info.Mode().Type() != there.Mode().Type() {
		return false, nil
	}
	dir, _, err := p.enter(path.Dir(m.path), false)
	if err != nil {
		return false, err
	}
	defer dir.Close()
	if info.Mode()&fs.ModeSymlink != 0 {
		want, err := p.staged.Readlink(m.path)
		if err != nil {
			return false, err
		}
		got, err := dir.Readlink(path.Base(m.path))
		return got == want, err
	}
	if !info.Mode().IsRegular() || info.Size() != there.Size() || isExecutable(info) != isExecutable(there) {
		return false, nil
	}
	f, err := dir.OpenFile(path.Base(m.path), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false, err
	}
	defer f.Close()
	if opened, err := f.Stat(); err != nil || !os.SameFile(opened, there) {
		return false, errors.Join(err, ErrChanged)
	}
	want, err := p.staged.Open(m.path)
	if err != nil {
		return false, err
	}
	defer want.Close()
	return sameBytes(f, want)
}

func sameBytes(a, b io.Reader) (bool, error) {
	x, y := make([]byte, 1<<16), make([]byte, 1<<16)
	for {
		n, errA := io.ReadFull(a, x)
		k, errB := io.ReadFull(b, y)
		if !bytes.Equal(x[:n], y[:k]) {
			return false, nil
		}
		for _, err := range []error{errA, errB} {
			if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
				return false, err
			}
		}
		if errA != nil || errB != nil {
			return true, nil
		}
	}
}
