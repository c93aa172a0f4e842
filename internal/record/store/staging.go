package store

import (
	"context"
	"io"

	"github.com/plait-run/plait/internal/record/dag"
)

// MaxInline is the largest blob, in bytes, that a Staging keeps among the objects of its batch.
const MaxInline = 64 << 10

// A Staging keeps bytes for a batch to come: small blobs among its Objects, large ones staged in Store before it. The
// batch also removes the pins that Unpin names.
type Staging struct {
	Store   Objects
	Pin     string // the pin of what is staged
	Objects []Object

	staged bool
}

// Keep keeps at most size bytes of r as a blob.
func (s *Staging) Keep(ctx context.Context, r io.Reader, size int64) (dag.Hash, error) {
	r = io.LimitReader(r, size)
	if size > MaxInline {
		h, _, err := s.Stage(ctx, r)
		return h, err
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return dag.Hash{}, err
	}
	h := dag.Sum(data)
	s.Objects = append(s.Objects, Object{Hash: h, Data: data})
	return h, nil
}

// KeepLog is like Keep, for the bytes that open returns with their number, unless there are none.
func (s *Staging) KeepLog(ctx context.Context, open func() (io.ReadCloser, int64, error)) (h dag.Hash, size int64,
	err error) {
	r, size, err := open()
	if err != nil {
		return h, 0, err
	}
	defer r.Close()
	if size > 0 {
		h, err = s.Keep(ctx, r, size)
	}
	return h, size, err
}

// Stage stages all of r.
func (s *Staging) Stage(ctx context.Context, r io.Reader) (dag.Hash, int64, error) {
	s.staged = true
	return s.Store.Stage(ctx, s.Pin, r)
}

// Unpin returns the pins that the batch removes.
func (s *Staging) Unpin() []string {
	if !s.staged {
		return nil
	}
	return []string{s.Pin}
}
