package evidence

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/thread"
)

// maxAnchorRead is how many bytes of files are read for the evidence of one answer.
const maxAnchorRead = 512 << 20

// files reads an attempt's working tree. It opens everything through its os.Root, since the agent may have made
// links in the tree.
type files struct {
	tree     string
	location string // of the agent in the tree, with slashes, "." for its root
	root     *os.Root
	err      error
	left     int64
	sums     map[string]dag.Hash
}

// openFiles opens a working tree. If that fails, each use reports it.
func openFiles(tree, location string) *files {
	w := &files{tree: tree, location: filepath.ToSlash(filepath.Clean(filepath.FromSlash(location))),
		left: maxAnchorRead, sums: make(map[string]dag.Hash)}
	w.root, w.err = os.OpenRoot(tree)
	return w
}

func (w *files) close() {
	if w.root != nil {
		w.root.Close()
	}
}

// place returns the path in the tree that an agent means, and whether it is in the tree.
func (w *files) place(path string) (string, bool) {
	if path == "" || strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return path, false
	}
	name := filepath.FromSlash(path)
	if filepath.IsAbs(name) {
		trees := []string{w.tree}
		if real, err := filepath.EvalSymlinks(w.tree); err == nil {
			trees = append(trees, real)
		}
		for _, tree := range trees {
			if rel, err := filepath.Rel(tree, name); err == nil && filepath.IsLocal(rel) {
				return filepath.ToSlash(rel), true
			}
		}
		return path, false
	}
	if !filepath.IsLocal(name) {
		return path, false
	}
	return filepath.ToSlash(filepath.Join(filepath.FromSlash(w.location), name)), true
}

// anchor reads lines of a file. The error matches thread.ErrAnchor if the file is too large.
func (w *files) anchor(path string, start, end int) (thread.Anchored, error) {
	if w.err != nil {
		return thread.Anchored{}, errors.New("the working tree cannot be read")
	}
	f, err := w.root.OpenFile(filepath.FromSlash(path), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		var p *os.PathError
		if errors.As(err, &p) {
			err = p.Err
		}
		return thread.Anchored{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	if err == nil && (info.Size() > thread.MaxAnchored || info.Size() > w.left) {
		err = thread.ErrAnchor
	}
	if err != nil {
		return thread.Anchored{}, err
	}
	w.left -= info.Size()
	return thread.Anchor(f, start, end)
}

// hash returns the current hash of a file, zero if it cannot be read.
func (w *files) hash(path string) dag.Hash {
	h, ok := w.sums[path]
	if !ok {
		found, _ := w.anchor(path, 0, 0) // zero if the file does not exist or is too large
		h = found.Hash
		w.sums[path] = h
	}
	return h
}
