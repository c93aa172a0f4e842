package agent

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/plait-run/plait/internal/sys/atomicfile"
)

// OpenHome makes and opens the directory of an agent's own files. It must not be a link: programs in a sandbox may have
// replaced it by one.
func OpenHome(dir string) (*os.Root, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	named, namedErr := os.Lstat(dir)
	opened, openedErr := root.Stat(".")
	err = errors.Join(namedErr, openedErr)
	if err == nil && !os.SameFile(named, opened) {
		err = fmt.Errorf("%s is not a directory", dir)
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return root, nil
}

// LinkIn makes name below root a link to a file elsewhere, such as a login: renewing it there renews it for all.
func LinkIn(root *os.Root, to, name string) error {
	if now, err := root.Readlink(name); err == nil && now == to {
		return nil
	}
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := root.Symlink(to, name); err != nil && !errors.Is(err, fs.ErrExist) { // another attempt was faster
		return err
	}
	return nil
}

// ReplaceIn writes a file below root, and its directories. What has that name is replaced, never opened or followed:
// programs in a sandbox can write in an agent's home, and may have put a link or a FIFO there.
func ReplaceIn(root *os.Root, name string, from io.Reader) error {
	if err := root.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	if info, err := root.Lstat(name); err == nil && info.IsDir() {
		if err := root.RemoveAll(name); err != nil {
			return err
		}
	}
	return atomicfile.ReplaceIn(root, name, 0o600, func(f *os.File) error {
		_, err := io.Copy(f, from)
		return err
	})
}

// OpenIn opens a regular file below root for reading, see [ReplaceIn]. It does not wait for the writer of a FIFO.
func OpenIn(root *os.Root, name string) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", name)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
