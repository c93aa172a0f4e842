package sqlite

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// loose returns the path of the file of a large blob.
func (s *Store) loose(h dag.Hash) string {
	name := h.String()
	return filepath.Join(s.cfg.Dir, "objects", name[:2], name)
}

func (s *Store) temps() string { return filepath.Join(s.cfg.Dir, "objects", "tmp") }

func (s *Store) openLoose(h dag.Hash) (io.ReadCloser, error) {
	path := s.loose(h)
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return &checked{s: s, r: f, h: h, where: "in " + path}, nil
}

// checked passes bytes on and, where they end, reports whether they match the hash.
type checked struct {
	s     *Store
	r     io.Reader
	h     dag.Hash
	where string
	sum   *store.Sum
	err   error
}

func (c *checked) Read(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	if c.sum == nil {
		c.sum = store.NewSum()
	}
	n, err := c.r.Read(p)
	c.sum.Write(p[:n])
	switch {
	case err == nil:
	case err == io.EOF:
		if !c.sum.Is(c.h) {
			err = fmt.Errorf("object %s %s: %w", c.h, c.where, store.ErrCorrupt)
		}
	default:
		err = fmt.Errorf("read object %s %s: %w", c.h, c.where, err)
		if errors.Is(err, syscall.EIO) {
			c.s.halt(fmt.Errorf("%w: %w", err, store.ErrBroken))
		}
	}
	c.err = err
	return n, err
}

func (c *checked) Close() error {
	if f, ok := c.r.(io.Closer); ok {
		return f.Close()
	}
	return nil
}

// temp creates a file to stage into. The lock tells Compact, in any process,
// that it is still being written.
func (s *Store) temp() (*os.File, error) {
	f, err := os.CreateTemp(s.temps(), "stage-")
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		os.Remove(f.Name())
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return f, nil
}

// publish gives a synced temporary file its name, durably. A file already there
// had the same bytes, or was damaged.
func (s *Store) publish(temp string, h dag.Hash) error {
	path := s.loose(h)
	dir := filepath.Dir(path)
	switch err := os.Mkdir(dir, 0o700); {
	case err == nil:
		if err := s.syncDir(filepath.Dir(dir)); err != nil {
			return err
		}
	case !errors.Is(err, os.ErrExist):
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	return s.syncDir(dir)
}

// syncDir makes the names in dir durable. A failure breaks the store.
func (s *Store) syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return s.synced(f)
}

// syncDir is for directories created before there is a store to break.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
