package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"zombiezen.com/go/sqlite"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/store/pack"
)

// redact replaces what is kept. The bytes of a large blob become a row's: their file is removed afterwards (erase).
func (t *tx) redact(r store.Redaction) error {
	for _, o := range r.Objects {
		var e store.Entry
		var body int64
		const inRecent, inObjects = entries + "recent WHERE id = ? AND hash = ?",
			"SELECT " + entryColumns + ", body FROM objects WHERE hash = ?"
		id, recent := t.row(o.Hash)
		found, err := false, error(nil)
		if recent {
			found, err = first(t.Conn, inRecent, func(r *row) { e, body = scanEntry(r), id }, id, o.Hash)
		}
		if err == nil && !found {
			recent = false
			found, err = first(t.Conn, inObjects, func(r *row) { e, body = scanEntry(r), r.int() }, o.Hash)
		}
		switch {
		case err != nil:
			return err
		case !found:
			continue
		}
		table := "objects"
		if recent {
			table = "recent"
		}
		data := pack.Pack(store.Object{Kind: e.Kind, Data: o.Data})
		if body == 0 { // NULL
			t.body++
			body = t.body
			err = exec(t.Conn, "INSERT INTO bodies (id, data) VALUES (?,?)", body, data)
			if err == nil {
				err = exec(t.Conn, "UPDATE objects SET body = ? WHERE hash = ?", body, o.Hash)
			}
		} else {
			err = exec(t.Conn, "UPDATE bodies SET data = ? WHERE id = ?", data, body)
		}
		if err == nil {
			err = exec(t.Conn, "UPDATE "+table+" SET size = ? WHERE hash = ?", len(o.Data), o.Hash)
		}
		if err != nil {
			return err
		}
	}
	for _, w := range r.Requests {
		if err := exec(t.Conn, "UPDATE wishes SET text = ?, options = ? WHERE id = ?", w.Text, w.Options, w.ID); err != nil {
			return err
		}
	}
	for _, e := range r.Events {
		if err := t.keepLeaves("pos = ?", e.Pos); err != nil {
			return err
		}
		if err := exec(t.Conn, "UPDATE events SET payload = ? WHERE pos = ?", e.Payload, e.Pos); err != nil {
			return err
		}
	}
	return nil
}

// erase removes what a redaction replaced from files: those of large blobs, the free space of the database, and the
// log.
func (s *Store) erase(ctx context.Context, objects []store.Object) error {
	return s.submit(ctx, bare, func(t *tx) error {
		for _, o := range objects {
			if err := s.eraseFile(t.Conn, o.Hash); err != nil {
				return err
			}
		}
		if err := s.lock(ctx, "VACUUM"); err != nil {
			return err
		}
		return truncateLog(t.Conn)
	})
}

// eraseFile removes the file of a blob whose bytes are in a row.
func (s *Store) eraseFile(c *sqlite.Conn, h dag.Hash) error {
	inRow, err := first(c, "SELECT 1 FROM objects WHERE hash = ? AND body IS NOT NULL", func(*row) {}, h)
	if err != nil || !inRow {
		return err
	}
	if err := os.Remove(s.loose(h)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// truncateLog empties the write-ahead log. Active readers may prevent it; a later call will do it.
func truncateLog(c *sqlite.Conn) error {
	err := each(c, "PRAGMA wal_checkpoint(TRUNCATE)", func(*row) {})
	if sqlite.ErrCode(err).ToPrimary() == sqlite.ResultBusy {
		err = nil
	}
	return err
}
