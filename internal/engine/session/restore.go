package session

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// openArchive reads the sizes at the beginning of a session's bytes.
func openArchive(r io.Reader) (*tar.Reader, map[string]int64, error) {
	t := tar.NewReader(r)
	h, err := t.Next()
	if err != nil || h.Name != sizesName || h.Size > 1<<20 {
		return nil, nil, fmt.Errorf("a session's bytes do not begin with the sizes of its files: %w",
			errors.Join(err, store.ErrCorrupt))
	}
	var sizes map[string]int64
	if err := json.NewDecoder(t).Decode(&sizes); err != nil {
		return nil, nil, fmt.Errorf("sizes of a session's files: %w: %w", err, store.ErrCorrupt)
	}
	return t, sizes, nil
}

// restore puts the recorded files of a session where its agent looks for them. The session began in
// another home, or was lost from this one.
func (k *Keeper) restore(ctx context.Context, h dag.Hash, home string) error {
	fail := func(err error) error { return fmt.Errorf("restore session %s: %w", h.Short(), err) }
	var chain []dag.Hash
	for next := h; !next.IsZero(); {
		s, err := k.cfg.Nodes.Session(ctx, next)
		if err != nil {
			return fail(err)
		}
		chain, next = append(chain, s.Bytes), s.Prev
	}
	if err := os.MkdirAll(home, 0o700); err != nil {
		return fail(err)
	}
	root, err := os.OpenRoot(home)
	if err != nil {
		return fail(err)
	}
	defer root.Close()
	files := map[string][]byte{}
	for _, blob := range slices.Backward(chain) {
		if err := k.read(ctx, blob, files); err != nil {
			return fail(err)
		}
	}
	for name, data := range files {
		if err := writeBelow(root, name, data); err != nil {
			return fail(err)
		}
	}
	return nil
}

// read adds a blob's content to a session's files.
func (k *Keeper) read(ctx context.Context, blob dag.Hash, files map[string][]byte) error {
	r, _, err := k.cfg.Store.Open(ctx, blob)
	if err != nil {
		return err
	}
	defer r.Close()
	t, sizes, err := openArchive(r)
	if err != nil {
		return err
	}
	for {
		h, err := t.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return fmt.Errorf("%w: %w", err, store.ErrCorrupt)
		}
		name := filepath.FromSlash(h.Name)
		if !filepath.IsLocal(name) || h.Typeflag != tar.TypeReg || sizes[h.Name] > maxSession || h.Size > sizes[h.Name] {
			return fmt.Errorf("entry %q: %w", h.Name, store.ErrCorrupt)
		}
		old := files[name]
		if h.Size == sizes[h.Name] {
			old = nil // the part has the whole file
		}
		b := bytes.NewBuffer(old)
		if _, err := io.Copy(b, t); err != nil {
			return fmt.Errorf("%w: %w", err, store.ErrCorrupt)
		}
		if files[name] = b.Bytes(); int64(b.Len()) != sizes[h.Name] {
			return fmt.Errorf("file %q has %d bytes, not %d: %w", name, b.Len(), sizes[h.Name], store.ErrCorrupt)
		}
	}
	_, err = io.Copy(io.Discard, r) // read to the end, where the hash is checked
	return err
}

// writeBelow writes a new file, and its directories. It leaves an existing file unchanged.
func writeBelow(root *os.Root, name string, data []byte) error {
	if _, err := root.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return agent.ReplaceIn(root, name, bytes.NewReader(data))
}
