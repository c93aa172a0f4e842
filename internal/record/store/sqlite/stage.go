package sqlite

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// inline is the size up to which a staged blob is kept in the database.
const inline = 256 << 10

// Stage keeps r's bytes as a blob under a pin, in memory that does not grow with
// them. A small blob and its pin are one transaction. A large one takes steps,
// ordered so that a crash, or a sweep by another process, may come anywhere:
//
//  1. The bytes go to a temporary file, which is synced. Crash: a file in tmp,
//     which Compact removes once no process has it open and it is old enough.
//  2. A transaction records the pin. Crash: a pin of nothing, which ends like
//     any other pin. From here on no sweeper deletes the row or the file.
//  3. The file gets its name and the directory is synced. Crash: a file without
//     a row, which is invisible. It stays while the pin does; then Compact
//     removes it.
//  4. A transaction adds the row. Now the object exists.
//
// If the pin were recorded last, a sweeper that is just removing the file of a
// deleted twin could remove the new one between 3 and 4, and leave a row without
// bytes.
func (s *Store) Stage(ctx context.Context, pin string, r io.Reader) (dag.Hash, int64, error) {
	h, size, err := s.stage(ctx, pin, r)
	if err != nil {
		return dag.Hash{}, 0, fmt.Errorf("stage a blob: %w", s.explain(ctx, err))
	}
	return h, size, nil
}

func (s *Store) stage(ctx context.Context, pin string, r io.Reader) (h dag.Hash, size int64, err error) {
	switch {
	case pin == "" || !store.IsText(pin):
		return h, 0, fmt.Errorf("pin %q: %w", pin, store.ErrInvalid)
	case s.cfg.ReadOnly:
		return h, 0, s.readOnly()
	}
	if err := s.alive(ctx); err != nil {
		return h, 0, err
	}
	r = untilDone{ctx, r}
	head, err := io.ReadAll(io.LimitReader(r, inline+1))
	if err != nil {
		return h, 0, err
	}
	if len(head) <= inline {
		h = dag.Sum(head)
		return h, int64(len(head)), s.submit(ctx, grouped, func(t *tx) error {
			if err := t.put(store.Object{Hash: h, Data: head}, head); err != nil {
				return err
			}
			return t.pin(pin, h)
		})
	}

	f, err := s.temp()
	if err != nil {
		return h, 0, err
	}
	defer os.Remove(f.Name()) // has no effect once it has its name
	defer f.Close()
	sum := sha256.New()
	size, err = io.Copy(io.MultiWriter(f, sum), io.MultiReader(bytes.NewReader(head), r))
	if err == nil {
		err = s.synced(f)
	}
	if err != nil {
		return h, 0, err
	}
	h = dag.Hash(sum.Sum(nil))

	var inlined bool
	err = s.submit(ctx, grouped, func(t *tx) error {
		// This may run twice.
		var err error
		if inlined, err = t.renew(h, store.Blob); err != nil {
			return err
		}
		if !inlined {
			const q = "SELECT body IS NOT NULL FROM objects WHERE hash = ?"
			if _, err := first(t.Conn, q, func(r *row) { inlined = r.int() != 0 }, h); err != nil {
				return err
			}
			if err := t.refresh(h, store.Blob); err != nil {
				return err
			}
		}
		return t.pin(pin, h)
	})
	if err != nil || inlined {
		return h, size, err
	}
	if err := s.publish(f.Name(), h); err != nil {
		return h, 0, err
	}
	return h, size, s.submit(ctx, grouped, func(t *tx) error {
		if found, err := t.renew(h, store.Blob); found || err != nil {
			return err
		}
		if err := t.refresh(h, store.Blob); err != nil || t.Changes() > 0 {
			return err
		}
		return exec(t.Conn, "INSERT INTO objects (hash, kind, size, put, body) VALUES (?,?,?,?,NULL)",
			h, int(store.Blob), size, t.now)
	})
}

func (t *tx) pin(pin string, h dag.Hash) error {
	return exec(t.Conn, "INSERT INTO pins (pin, hash) VALUES (?,?) ON CONFLICT DO NOTHING", pin, h)
}

// untilDone reads until a context ends.
type untilDone struct {
	ctx context.Context
	r   io.Reader
}

func (u untilDone) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(p)
}
