package postgres

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// inline is the size up to which a staged blob is kept in its row.
const inline = 256 << 10

// endWait limits how long a failed upload tries to end.
const endWait = 5 * time.Second

var (
	errNoBucket = errors.New("it is stored in a bucket, but none is configured")
	// errGivenUp says that an upload was mistaken for a dead process's.
	errGivenUp = errors.New("the upload took too long and was given up")
)

// Stage stores r's bytes as a blob under a pin. A small blob and its pin are one batch. A
// large one takes several steps, ordered so that a crash, or a sweep by another process, may
// come at any point:
//
//  1. The bytes go to an unnamed temporary file, so that their hash is known. If the store has
//     the blob already, a batch refreshes and pins it, and that is all.
//  2. A row of uploads names the key that the bytes will have.
//  3. The bytes are stored there. A crash leaves bytes that no object names and the upload of a
//     dead process: Compact removes both.
//  4. A batch adds the object and its pin and ends the upload; it fails if Compact has given up
//     the upload meanwhile. If another process stored the same blob first, its key stays and ours
//     is removed.
func (s *Store) Stage(ctx context.Context, pin string, r io.Reader) (dag.Hash, int64, error) {
	h, size, err := s.stage(ctx, pin, r)
	if err != nil {
		return dag.Hash{}, 0, fmt.Errorf("stage a blob: %w", err)
	}
	return h, size, nil
}

func (s *Store) stage(ctx context.Context, pin string, r io.Reader) (h dag.Hash, size int64, err error) {
	switch {
	case pin == "":
		return h, 0, errors.New("a pin needs a name")
	case !store.IsText(pin):
		return h, 0, fmt.Errorf("pin %q is not UTF-8 text without NUL: %w", pin, store.ErrInvalid)
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
		return h, int64(len(head)), s.submit(ctx, &change{
			Batch:  store.Batch{Objects: []store.Object{{Hash: h, Data: head}}},
			bodies: [][]byte{head}, bytes: len(head), pins: []pinned{{pin, h}},
		})
	}

	f, err := os.CreateTemp("", "plait-stage-*")
	if err != nil {
		return h, 0, err
	}
	defer f.Close()
	if err := os.Remove(f.Name()); err != nil {
		return h, 0, err
	}
	sum := sha256.New()
	if size, err = io.Copy(io.MultiWriter(f, sum), io.MultiReader(bytes.NewReader(head), r)); err != nil {
		return h, 0, err
	}
	h = dag.Hash(sum.Sum(nil))
	for try := 0; ; try++ {
		if err = s.stageLarge(ctx, pin, h, f, size); !errors.Is(err, errGivenUp) || try == 2 {
			return h, size, err
		}
	}
}

func (s *Store) stageLarge(ctx context.Context, pin string, h dag.Hash, f *os.File, size int64) error {
	kept, err := s.Has(ctx, h)
	if err == nil && kept {
		err = s.submit(ctx, &change{touched: []dag.Hash{h}, pins: []pinned{{pin, h}}})
		if !errors.Is(err, store.ErrNotFound) { // it has just been swept
			return err
		}
		err = nil
	}
	if err != nil {
		return err
	}
	loc := s.place(h)
	err = s.read(ctx, func(ctx context.Context, c *pgx.Conn) error {
		const q = "INSERT INTO plait.uploads (loc, handle) VALUES ($1, $2) ON CONFLICT DO NOTHING"
		_, err := c.Exec(ctx, q, loc, s.me.id)
		return err
	})
	if err != nil {
		return err
	}
	if _, err = f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	b, err := s.bucket(loc)
	if err == nil {
		err = b.Put(ctx, loc, f, size)
	}
	if err == nil {
		err = s.submit(ctx, &change{
			Batch:  store.Batch{Objects: []store.Object{{Hash: h}}},
			bodies: [][]byte{nil}, locs: []string{loc}, sizes: []int64{size},
			pins: []pinned{{pin, h}}, ended: []string{loc},
		})
	}
	if err != nil {
		// A row may name the bytes or not: Compact finds out once the upload is over. If it cannot be ended here, it
		// is over when this process ends.
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWait)
		defer cancel()
		_ = s.read(end, func(ctx context.Context, c *pgx.Conn) error {
			_, err := c.Exec(ctx, "DELETE FROM plait.uploads WHERE loc = $1", loc)
			return err
		})
		return err
	}
	rows, err := s.look(ctx, []dag.Hash{h})
	if err == nil && len(rows) == 1 && rows[0].loc == loc {
		return nil
	}
	if err == nil {
		err = s.erase(ctx, loc)
	}
	if err != nil && ctx.Err() == nil {
		err = nil // the blob is kept; Compact removes what is left over
	}
	return err
}

// place returns a key for the bytes of h that will never be used again.
func (s *Store) place(h dag.Hash) string {
	var random [8]byte
	rand.Read(random[:])
	key := fmt.Sprintf("%s/%013d-%s", h, s.Now().UnixMilli(), hex.EncodeToString(random[:]))
	if s.cfg.Bucket == nil {
		return chunkPrefix + key
	}
	return key
}

// placed parses a key into its hash and the time it was made.
func placed(loc string) (h dag.Hash, at time.Time, ok bool) {
	name, rest, ok := strings.Cut(strings.TrimPrefix(loc, chunkPrefix), "/")
	if !ok {
		return h, at, false
	}
	ms, random, ok := strings.Cut(rest, "-")
	n, err := strconv.ParseInt(ms, 10, 64)
	if !ok || err != nil || len(random) != 16 {
		return h, at, false
	}
	h, err = dag.ParseHash(name)
	return h, time.UnixMilli(n), err == nil
}

// bucket returns the bucket that holds loc.
func (s *Store) bucket(loc string) (Bucket, error) {
	switch {
	case strings.HasPrefix(loc, chunkPrefix):
		return chunks{s.reads}, nil
	case s.cfg.Bucket == nil:
		return nil, fmt.Errorf("%s: %w", loc, errNoBucket)
	}
	return s.cfg.Bucket, nil
}

// erase removes bytes that nothing names any more.
func (s *Store) erase(ctx context.Context, locs ...string) error {
	var here, there []string
	for _, loc := range locs {
		if strings.HasPrefix(loc, chunkPrefix) {
			here = append(here, loc)
		} else {
			there = append(there, loc)
		}
	}
	err := chunks{s.reads}.Delete(ctx, here...)
	if len(there) > 0 && s.cfg.Bucket != nil {
		err = errors.Join(err, s.cfg.Bucket.Delete(ctx, there...))
	}
	return err
}

// untilDone reads from r until ctx is done.
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
