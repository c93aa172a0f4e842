package taskdir

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// errNotPlain is the error for a link, a pipe, or a file with several links in place of a file
// that Plait writes. Since it may lead elsewhere it is never written through, only replaced.
var errNotPlain = errors.New("not a plain file")

// openPlain opens a regular file with a single link, and follows no symbolic link. The error
// matches fs.ErrNotExist or errNotPlain if there is no such file.
func openPlain(root *os.Root, name string, flag int) (*os.File, fs.FileInfo, error) {
	// os.Root follows links that stay inside it, so the name is checked before and after.
	if info, err := root.Lstat(name); err == nil && !plain(info) {
		return nil, nil, fmt.Errorf("%s is %w", name, errNotPlain)
	}
	f, err := root.OpenFile(name, flag|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o644)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil {
		var named fs.FileInfo
		if named, err = root.Lstat(name); err == nil && (!plain(info) || !os.SameFile(info, named)) {
			err = fmt.Errorf("%s is %w", name, errNotPlain)
		}
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// plain reports whether info is that of a regular file with a single link.
func plain(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return info.Mode().IsRegular() && ok && st.Nlink == 1
}

// A stamp identifies the state of a file. It includes the change time, which programs cannot set.
type stamp struct {
	dev, ino     uint64
	size         int64
	mtime, ctime syscall.Timespec
}

func stampOf(info fs.FileInfo) stamp {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return stamp{}
	}
	mtime, ctime := times(st)
	return stamp{uint64(st.Dev), st.Ino, st.Size, mtime, ctime}
}

// readPlain reads a regular file of at most most bytes; a longer one is an error.
func readPlain(root *os.Root, name string, most int64) ([]byte, stamp, error) {
	f, info, err := openPlain(root, name, os.O_RDONLY)
	if err != nil {
		return nil, stamp{}, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s has more than %d bytes", name, most)
	}
	return data, stampOf(info), err
}

// maxView limits what is read back of a view, in bytes.
const maxView = 16 << 20

// draw replaces a view unless it is up to date.
func draw(root *os.Root, name string, data []byte) error {
	if old, _, err := readPlain(root, name, maxView); err == nil && bytes.Equal(old, data) {
		return nil
	}
	return replace(root, name, data)
}

// newSuffix ends the names of temporary files.
const newSuffix = ".new"

// replace writes a file through a temporary one and a rename. The temporary name is random, so
// that no two processes write the same file and no other program can create it first.
func replace(root *os.Root, name string, data []byte) error {
	return replaceBy(root, name, func(w io.Writer) error { _, err := w.Write(data); return err })
}

// replaceBy is like replace, for data that write writes.
func replaceBy(root *os.Root, name string, write func(io.Writer) error) error {
	return replaceWhen(root, name, write, func() bool { return true })
}

// replaceWhen is like replaceBy, but renames only if still reports true just before.
func replaceWhen(root *os.Root, name string, write func(io.Writer) error, still func() bool) error {
	tmp := path.Join(path.Dir(name), "."+path.Base(name)+"-"+strings.ToLower(rand.Text()[:10])+newSuffix)
	f, err := root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	err = write(f)
	if err = errors.Join(err, f.Close()); err == nil && still() {
		if err = root.Rename(tmp, name); err == nil {
			return nil
		}
	}
	root.Remove(tmp)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// sweep removes temporary files that a crash left behind.
func sweep(root *os.Root, dir string) {
	entries, err := fs.ReadDir(root.FS(), dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") && strings.HasSuffix(e.Name(), newSuffix) {
			root.Remove(path.Join(dir, e.Name()))
		}
	}
}

// createOnce creates a file unless it exists: people may have changed it.
func createOnce(root *os.Root, name, text string) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		if _, look := root.Lstat(name); look == nil {
			return nil
		}
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// makeDir makes sure that name, and each directory above it, is a real directory in root. A link
// is removed; its target is left alone.
func makeDir(root *os.Root, name string) error {
	if dir := path.Dir(name); dir != "." {
		if err := makeDir(root, dir); err != nil {
			return err
		}
	}
	info, err := root.Lstat(name)
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		if err := root.Remove(name); err != nil {
			return err
		}
		err = fs.ErrNotExist
	}
	if errors.Is(err, fs.ErrNotExist) {
		if err = root.Mkdir(name, 0o755); errors.Is(err, fs.ErrExist) {
			err = nil // another process was faster
		}
		return err
	}
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory; move it away", name)
	}
	return err
}
