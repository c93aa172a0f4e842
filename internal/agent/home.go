package agent

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/plait-run/plait/internal/sys/atomicfile"
)

// ReplaceIn writes a file below root, and its directories. What has that name is replaced, never opened or followed:
// programs behind a wall can write in an agent's home, and may have put a link or a FIFO there.
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
