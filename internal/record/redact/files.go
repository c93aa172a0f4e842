package redact

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/plait-run/plait/internal/sys/secret"
)

// Files puts as many asterisks in the place of text in regular files below dir, at any depth, and returns how many
// files had it. Files keep their lengths and owners, so logs that are being written and databases of agents stay
// readable. It follows no links, and passes over what skip reports. A missing dir has no files.
func Files(ctx context.Context, dir, text string, skip func(path string) bool) (n int, err error) {
	var set secret.Set
	set.Add(text)
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("redact files: %w", err)
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // removed meanwhile
		case err != nil:
			return err
		case skip(filepath.Join(dir, path)) && d.IsDir():
			return fs.SkipDir
		case !d.Type().IsRegular() || skip(filepath.Join(dir, path)):
			return ctx.Err()
		}
		had, err := inFile(root, path, &set)
		if had {
			n++
		}
		return err
	})
	if err != nil {
		return n, fmt.Errorf("redact files below %s: %w", dir, err)
	}
	return n, nil
}

// inFile redacts one file, if it has the text.
func inFile(root *os.Root, path string, set *secret.Set) (had bool, err error) {
	in, err := root.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer in.Close()
	out := &changed{path: path, root: root}
	w := set.Even(out)
	// What comes out is compared with what went in, a part at a time.
	_, err = io.Copy(w, io.TeeReader(in, &out.was))
	if err == nil {
		err = w.Flush()
	}
	if out.file != nil {
		err = errors.Join(err, out.file.Sync(), out.file.Close())
	}
	return out.file != nil, err
}

// changed writes the parts of a file that differ from what it had.
type changed struct {
	root *os.Root
	path string
	file *os.File // nil: nothing differed yet
	at   int64
	was  bytes.Buffer
}

func (c *changed) Write(is []byte) (int, error) {
	was := c.was.Next(len(is))
	if !bytes.Equal(was, is) {
		if c.file == nil {
			var err error
			if c.file, err = c.root.OpenFile(c.path, os.O_WRONLY, 0); err != nil {
				return 0, err
			}
		}
		if _, err := c.file.WriteAt(is, c.at); err != nil {
			return 0, err
		}
	}
	c.at += int64(len(is))
	return len(is), nil
}
