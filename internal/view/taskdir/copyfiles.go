package taskdir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Files of a copy are opened component by component from the directory down, and none may be a
// link, so renaming files in the meantime cannot lead elsewhere. An os.Root would follow links
// that stay inside it, and block on a pipe in place of a directory.

// open opens a regular file in real directories.
func (c *DirReader) open(name string) (*os.File, fs.FileInfo, error) {
	in, err := c.inside(path.Dir(name))
	if err != nil {
		return nil, nil, err
	}
	defer in.Close()
	if _, err := statIn(in, name); err != nil {
		return nil, nil, err // only a regular file is opened, even to look at it
	}
	f, err := openIn(in, path.Base(name), 0)
	if err != nil {
		return nil, nil, err
	}
	// While a second link to another file is being removed, it can still be opened, and the file
	// already looks as if it had one name. Listing the directory waits for the removal: then the
	// name is gone.
	_, err = unix.ReadDirent(int(in.Fd()), make([]byte, 4<<10))
	var info fs.FileInfo
	if err == nil {
		info, err = f.Stat()
	}
	if err == nil && !plain(info) {
		err = fmt.Errorf("%s is %w", name, errNotPlain)
	}
	if err == nil {
		var named unix.Stat_t
		if named, err = statIn(in, name); err == nil && !same(info, named) {
			err = fmt.Errorf("%s is %w", name, errNotPlain)
		}
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

func same(info fs.FileInfo, named unix.Stat_t) bool {
	is, ok := info.Sys().(*syscall.Stat_t)
	return ok && is.Dev == named.Dev && is.Ino == named.Ino
}

// inside opens a directory. Neither it nor any directory above it may be a link.
func (c *DirReader) inside(dir string) (*os.File, error) {
	at, err := c.root.Open(".")
	for _, part := range strings.Split(dir, "/") {
		if err != nil || part == "." {
			return at, err
		}
		var next *os.File
		next, err = openIn(at, part, unix.O_DIRECTORY)
		at.Close()
		at = next
	}
	return at, err
}

// openIn opens a name in a directory for reading, unless it is a link.
func openIn(dir *os.File, name string, flag int) (*os.File, error) {
	for {
		fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC|flag, 0)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return nil, &fs.PathError{Op: "open", Path: name, Err: err}
		default:
			return os.NewFile(uintptr(fd), name), nil
		}
	}
}

// size returns the size of a regular file in real directories.
func (c *DirReader) size(name string) (int64, error) {
	in, err := c.inside(path.Dir(name))
	if err != nil {
		return 0, err
	}
	defer in.Close()
	is, err := statIn(in, name)
	return is.Size, err
}

// statIn stats a regular file of a directory.
func statIn(dir *os.File, name string) (is unix.Stat_t, err error) {
	if err := unix.Fstatat(int(dir.Fd()), path.Base(name), &is, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return is, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	if is.Mode&unix.S_IFMT != unix.S_IFREG || is.Nlink != 1 {
		return is, fmt.Errorf("%s is %w", name, errNotPlain)
	}
	return is, nil
}

// read reads all of a regular file.
func (c *DirReader) read(name string, most int64) ([]byte, error) {
	f, _, err := c.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s has more than %d bytes", name, most)
	}
	return data, err
}

// list returns at most most entries of a directory, by name. A missing directory has none.
func (c *DirReader) list(dir string, most int) ([]fs.DirEntry, error) {
	f, err := c.inside(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ELOOP):
		return nil, fmt.Errorf("list %s: it is not a directory", dir)
	case err != nil:
		return nil, fmt.Errorf("list %s: %w", dir, err)
	}
	defer f.Close()
	entries, err := f.ReadDir(most)
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("list %s: %w", dir, err)
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}
