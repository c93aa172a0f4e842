package taskdir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
	"time"

	"github.com/plait-run/plait/internal/sys/atomicfile"
)

// errNotPlain is the error for a link, a pipe, or a file with several links in place of a file
// that Plait writes. Since it may lead elsewhere it is never written through, only replaced.
var errNotPlain = errors.New("not a plain file with a single name")

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

// A Stamp identifies the state of a file. It includes the change time, which programs cannot set. The zero Stamp means
// that there is no file.
type Stamp struct {
	dev, ino     uint64
	size         int64
	mtime, ctime syscall.Timespec
}

// Age returns how long ago the file was last changed, by the system's clock.
func (s Stamp) Age(now time.Time) time.Duration { return now.Sub(time.Unix(s.ctime.Unix())) }

func stampOf(info fs.FileInfo) Stamp {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return Stamp{}
	}
	mtime, ctime := times(st)
	return Stamp{uint64(st.Dev), st.Ino, st.Size, mtime, ctime}
}

// readPlain reads a regular file of at most most bytes; a longer one is an error.
func readPlain(root *os.Root, name string, most int64) ([]byte, Stamp, error) {
	f, info, err := openPlain(root, name, os.O_RDONLY)
	if err != nil {
		return nil, Stamp{}, err
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

// replace writes a file as a whole. It is not synced, since it can be drawn again.
func replace(root *os.Root, name string, data []byte) error {
	return replaceBy(root, name, func(f *os.File) error { _, err := f.Write(data); return err })
}

// replaceBy is like replace, for data that write writes.
func replaceBy(root *os.Root, name string, write func(*os.File) error) error {
	if err := atomicfile.ReplaceIn(root, name, 0o644, write); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// drawJSON draws v as indented JSON.
func drawJSON(root *os.Root, name string, v any) error {
	data, err := pretty(v)
	if err != nil {
		return err
	}
	return draw(root, name, data)
}

// pretty returns v as indented JSON.
func pretty(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(v)
	return buf.Bytes(), err
}

// sweep removes temporary files that a crash left behind.
func sweep(root *os.Root, dir string) {
	entries, err := fs.ReadDir(root.FS(), dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if atomicfile.IsTemp(e.Name()) {
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
