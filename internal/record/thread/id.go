package thread

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// NewID returns a new id for a root thread: a ULID of the time and 80 random bits.
func NewID(at time.Time, random io.Reader) (string, error) {
	id, err := ulid.New(ulid.Timestamp(at), random)
	if err != nil {
		return "", fmt.Errorf("draw thread id: %w", err)
	}
	return id.String(), nil
}

// FirstID returns the smallest possible id of a thread begun at the given time (Unix ms).
func FirstID(at int64) string {
	var id ulid.ULID
	id.SetTime(uint64(max(at, 0)))
	return id.String()
}

// ParseID parses a thread id as a person types it, in upper or lower case.
func ParseID(s string) (string, error) {
	id, err := ulid.ParseStrict(s)
	if err != nil {
		return "", fmt.Errorf("thread id %q: want a ULID of 26 characters", s)
	}
	return id.String(), nil
}

// DerivedID returns the id of a path or child: a ULID of the time of the event that made it (Unix
// ms) and 80 bits of the hash of what identifies it. It is the same if the thread is created again
// after a crash.
func DerivedID(at int64, parent string, head dag.Hash, name string, n int) string {
	b := dag.AppendString([]byte{'['}, parent)
	b = append(b, ',')
	b = head.Append(b)
	b = append(b, ',')
	b = dag.AppendString(b, name)
	b = append(b, ',')
	b = strconv.AppendInt(b, int64(n), 10)
	sum := dag.Sum(append(b, ']'))
	var id ulid.ULID
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(at))
	copy(id[:6], ms[2:])
	copy(id[6:], sum[:10])
	return id.String()
}

// CalledBy reports whether a role called the flow of a thread. calls is how often its parent called one from there.
func CalledBy(row store.Thread, role string, calls int) bool {
	id, err := ulid.ParseStrict(row.ID)
	if err != nil || row.Kind != store.KindCall || row.Parent == nil {
		return false
	}
	for n := range calls {
		if DerivedID(int64(id.Time()), row.Parent.Thread, row.Parent.From, role, n+1) == row.ID {
			return true
		}
	}
	return false
}

// minShort is the minimum length of a short name.
const minShort = 4

// ShortID returns the short name of a root thread: the shortest suffix of its id that no other
// root thread in the index has, in lower case. Concurrent callers may get the same name; the
// store accepts it once.
func ShortID(ctx context.Context, index store.Index, id string) (string, error) {
	id = strings.ToLower(id)
	for n := minShort; n < len(id); n++ {
		short := id[len(id)-n:]
		rows, err := index.Threads(ctx, store.ThreadFilter{Short: short, Limit: 1})
		if err != nil {
			return "", fmt.Errorf("find a short name for thread %s: %w", id, err)
		}
		if len(rows) == 0 {
			return short, nil
		}
	}
	return id, nil
}

// AttemptID returns the id of the n-th attempt in a thread.
func AttemptID(thread string, n int) string {
	return thread + "." + strconv.Itoa(n)
}
