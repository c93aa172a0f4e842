package postgres

import (
	"context"
	"errors"
	"io"
	"iter"
)

// ErrNoKey says that a bucket has nothing under a key.
var ErrNoKey = errors.New("no such key")

// A Bucket keeps what is too large for a row: bytes under keys. A key is written once,
// by one process, under a name that no other process can choose, and never again after
// it was deleted; so a bucket needs no conditional writes, no versions, and no order
// between keys. Methods may be called concurrently.
type Bucket interface {
	// Put stores the size bytes of r under key. When it returns nil they are durable and
	// every process can read them. It fails if r has more or fewer bytes. After an error
	// the key may exist or not.
	Put(ctx context.Context, key string, r io.Reader, size int64) error

	// Get returns a reader for the bytes under key, or ErrNoKey. A reader that ends early
	// returns an error other than io.EOF.
	Get(ctx context.Context, key string) (io.ReadCloser, error)

	// Delete removes keys. A missing key is not an error. It tries them all, and fails
	// if any fails.
	Delete(ctx context.Context, keys ...string) error

	// List yields the keys after a key, in order of name, or all of them after "". It
	// may omit keys that are written or deleted meanwhile.
	List(ctx context.Context, after string) iter.Seq2[Kept, error]
}

// Probes is the prefix of the keys of objects with which a bucket is tried. One that is left over is harmless.
const Probes = "check/"

// A Kept is a key of a bucket.
type Kept struct {
	Key  string
	Size int64 // bytes
}
