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
// by one process, under a name that nobody else can have, and never again after it was
// deleted; so a bucket needs no conditions, no versions, and no order between keys.
// Methods may be called concurrently.
type Bucket interface {
	// Put keeps r's bytes, size of them, under key. They are durable when Put returns nil,
	// and can be read by everybody. An error if r has more or fewer bytes. After an error
	// the key may be there or not.
	Put(ctx context.Context, key string, r io.Reader, size int64) error

	// Get reads what is kept under key. ErrNoKey. A reader that ends early returns an error
	// that is not io.EOF.
	Get(ctx context.Context, key string) (io.ReadCloser, error)

	// Delete removes keys. A key that is not there is no error. It tries them all and
	// returns the first error.
	Delete(ctx context.Context, keys ...string) error

	// List yields what there is after a key, by name, or all of it after "". It may
	// leave out what is written or deleted meanwhile.
	List(ctx context.Context, after string) iter.Seq2[Kept, error]
}

// A Kept is a key of a bucket.
type Kept struct {
	Key  string
	Size int64 // bytes
}
