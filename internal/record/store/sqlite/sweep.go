package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// A view reads on the writer's connection, inside the sweep's transaction.
type view struct{ reads }

func (view) Stage(context.Context, string, io.Reader) (dag.Hash, int64, error) {
	return dag.Hash{}, 0, errors.New("stage a blob: the store is being swept")
}

// Sweep deletes the objects that choose returns, unless they are pinned or were put
// within grace. choose runs while this process and all others are kept from
// writing: it must not write, and should be quick.
//
// Rows go first, in one transaction. Their files go once it is durable: a crash in
// between leaves files that no row names, for Compact.
func (s *Store) Sweep(
	ctx context.Context, grace time.Duration, choose func(store.View) ([]dag.Hash, error),
) ([]store.Entry, error) {
	var gone []store.Entry
	var files []dag.Hash
	err := s.submit(ctx, alone, func(t *tx) error {
		// Before anything is read: a reader that looks for new rows must not see uncommitted ones.
		if err := t.fold(); err != nil {
			return err
		}
		with := func(ctx context.Context, f func(*sqlite.Conn) error) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return f(t.Conn)
		}
		chosen, err := choose(view{reads{store: s, with: with, soon: with}})
		if err != nil {
			return err
		}
		gone, files, err = t.sweep(chosen, s.cfg.Now().Add(-grace))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	if err := s.unlink(ctx, files); err != nil {
		return gone, fmt.Errorf("sweep: %w", err)
	}
	return gone, nil
}

// sweep deletes those of hs that may go. It returns them in the order of hs, and which of them have
// files. Rows and bodies are deleted in storage order.
func (t *tx) sweep(hs []dag.Hash, before time.Time) (gone []store.Entry, files []dag.Hash, err error) {
	const q = "DELETE FROM objects WHERE hash = ? AND put <= ?" +
		" AND NOT EXISTS (SELECT 1 FROM pins WHERE pins.hash = objects.hash) RETURNING " + entryColumns + ", body"
	entries := make(map[dag.Hash]store.Entry, len(hs))
	var bodies []int64
	for _, h := range slices.SortedFunc(slices.Values(hs), compare) {
		_, err := first(t.Conn, q, func(r *row) {
			e, body := scanEntry(r), r.int()
			entries[e.Hash] = e
			if body == 0 { // NULL
				files = append(files, e.Hash)
			} else {
				bodies = append(bodies, body)
			}
		}, h, before.UnixMilli())
		if err != nil {
			return nil, nil, err
		}
	}
	slices.Sort(bodies)
	for _, id := range bodies {
		if err := exec(t.Conn, "DELETE FROM bodies WHERE id = ?", id); err != nil {
			return nil, nil, err
		}
	}
	for _, h := range hs {
		if e, ok := entries[h]; ok {
			gone = append(gone, e)
			delete(entries, h)
		}
	}
	return gone, files, nil
}

func compare(a, b dag.Hash) int { return bytes.Compare(a[:], b[:]) }

// unlink removes the files of hashes that have neither row nor pin. It looks
// under the write lock: a process that stages the same bytes again records the
// pin before the file gets its name, so either we see the pin, or the new file
// appears after we are done.
func (s *Store) unlink(ctx context.Context, hs []dag.Hash) error {
	const q = "SELECT 1 FROM objects WHERE hash = ?1 AND body IS NULL UNION ALL SELECT 1 FROM pins WHERE hash = ?1"
	for part := range slices.Chunk(hs, 200) {
		err := s.submit(ctx, alone, func(t *tx) error {
			for _, h := range part {
				wanted, err := first(t.Conn, q, func(*row) {}, h)
				if err != nil {
					return err
				}
				if wanted {
					continue
				}
				if err := os.Remove(s.loose(h)); err != nil && !errors.Is(err, fs.ErrNotExist) {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Compact gives back space: files that no row names and temporary files that are
// not being written, both if last written at least grace ago; free pages; the log.
func (s *Store) Compact(ctx context.Context, grace time.Duration) error {
	before := s.cfg.Now().Add(-grace)
	err := s.alive(ctx)
	if err == nil && s.cfg.ReadOnly {
		err = s.readOnly()
	}
	for _, step := range []func(context.Context, time.Time) error{s.dropOrphans, s.dropTemps, s.vacuum} {
		if err == nil {
			err = step(ctx, before)
		}
	}
	if err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	return nil
}

func (s *Store) dropOrphans(ctx context.Context, before time.Time) error {
	var orphans []dag.Hash
	err := filepath.WalkDir(filepath.Join(s.cfg.Dir, "objects"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		h, err := dag.ParseHash(d.Name())
		if err != nil || s.loose(h) != path {
			return nil // not ours; Check reports it
		}
		if info, err := d.Info(); err != nil || info.ModTime().After(before) {
			return nil
		}
		_, _, loose, err := s.reads.look(ctx, h)
		if err == nil && !loose || errors.Is(err, store.ErrNotFound) {
			orphans, err = append(orphans, h), nil
		}
		return err
	})
	if err != nil {
		return err
	}
	return s.unlink(ctx, orphans)
}

func (s *Store) dropTemps(ctx context.Context, before time.Time) error {
	entries, err := os.ReadDir(s.temps())
	if err != nil {
		return err
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || !info.Mode().IsRegular() || info.ModTime().After(before) {
			continue
		}
		path := filepath.Join(s.temps(), e.Name())
		f, err := os.Open(path)
		if err != nil {
			continue // just published, or removed
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			os.Remove(path)
		}
		f.Close()
	}
	return ctx.Err()
}

// vacuumPages is how many pages one transaction gives back, so that commits get
// their turn in between.
const vacuumPages = 2000

func (s *Store) vacuum(ctx context.Context, _ time.Time) error {
	for free := int64(-1); ; {
		left := int64(0)
		err := s.submit(ctx, alone, func(t *tx) (err error) {
			err = each(t.Conn, fmt.Sprintf("PRAGMA incremental_vacuum(%d)", vacuumPages), func(*row) {})
			if err != nil {
				return err
			}
			left, err = number(t.Conn, "PRAGMA freelist_count")
			return err
		})
		if err != nil {
			return err
		}
		if left == 0 || left == free {
			break
		}
		free = left
	}
	return s.submit(ctx, bare, func(t *tx) error { return truncateLog(t.Conn) })
}
