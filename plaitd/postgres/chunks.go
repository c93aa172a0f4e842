package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/jackc/pgx/v5"
)

// chunkSize is the size of a piece of a large blob in the database.
const chunkSize = 1 << 20

// chunkPrefix begins the keys of bytes in the database. A bucket's keys begin with a hash.
const chunkPrefix = "chunks/"

// chunks is the bucket that always exists: table chunks.
type chunks struct{ reads }

var _ Bucket = chunks{}

// Put stores r's bytes in pieces, each in its own transaction: none is visible before a row
// names the key.
func (c chunks) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	left := size
	for n := 0; left > 0; n++ {
		data := make([]byte, min(left, chunkSize))
		if _, err := io.ReadFull(r, data); err != nil {
			return fmt.Errorf("put %s: %w", key, err)
		}
		left -= int64(len(data))
		err := c.with(ctx, func(ctx context.Context, conn *pgx.Conn) error {
			const q = "INSERT INTO plait.chunks (loc, n, data) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING"
			_, err := conn.Exec(ctx, q, key, n, data)
			return err
		})
		if err != nil {
			return fmt.Errorf("put %s: %w", key, err)
		}
	}
	switch n, err := io.ReadFull(r, make([]byte, 1)); {
	case n > 0:
		return fmt.Errorf("put %s: the reader has more than %d bytes", key, size)
	case !errors.Is(err, io.EOF):
		return fmt.Errorf("put %s: %w", key, err)
	}
	return nil
}

// Get reads the pieces one by one.
func (c chunks) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	r := &pieces{ctx: ctx, c: c, key: key}
	if err := r.next(); err != nil {
		if errors.Is(err, io.EOF) {
			err = ErrNoKey
		}
		return nil, fmt.Errorf("get %s: %w", key, err)
	}
	return r, nil
}

// pieces reads the pieces of a blob.
type pieces struct {
	ctx  context.Context
	c    chunks
	key  string
	n    int
	left bytes.Reader
}

func (p *pieces) next() error {
	q := query{sql: "SELECT data FROM plait.chunks"}
	q.and("loc = ? AND n = ?", p.key, p.n)
	found, err := many(p.ctx, p.c.reads, p.key, q, parsed(func(b []byte) ([]byte, error) { return b, nil }))
	if err == nil && len(found) == 0 {
		err = io.EOF
	}
	if err != nil {
		return err
	}
	p.n++
	p.left.Reset(found[0])
	return nil
}

func (p *pieces) Read(b []byte) (int, error) {
	for p.left.Len() == 0 {
		if err := p.next(); err != nil {
			return 0, err
		}
	}
	return p.left.Read(b)
}

func (p *pieces) Close() error { return nil }

// Delete removes keys one at a time: each may have thousands of pieces.
func (c chunks) Delete(ctx context.Context, keys ...string) error {
	var errs []error
	for _, key := range keys {
		err := c.with(ctx, func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, "DELETE FROM plait.chunks WHERE loc = $1", key)
			return err
		})
		if err != nil {
			errs = append(errs, fmt.Errorf("delete %s: %w", key, err))
		}
	}
	return errors.Join(errs...)
}

// List yields the keys, reading them in pages.
func (c chunks) List(ctx context.Context, after string) iter.Seq2[Kept, error] {
	return func(yield func(Kept, error) bool) {
		for {
			q := query{sql: "SELECT loc, sum(length(data)) FROM plait.chunks"}
			q.and("loc > ?", after)
			q.end(" GROUP BY loc ORDER BY loc", listPage)
			page, err := many(ctx, c.reads, "keys", q, func(rows pgx.Rows) (k Kept, err error) {
				err = rows.Scan(&k.Key, &k.Size)
				return k, err
			})
			if err != nil {
				yield(Kept{}, err)
				return
			}
			for _, k := range page {
				if !yield(k, nil) {
					return
				}
			}
			if len(page) < listPage {
				return
			}
			after = page[len(page)-1].Key
		}
	}
}
