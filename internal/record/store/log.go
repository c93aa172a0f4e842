package store

import (
	"crypto/rand"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/merkle"
)

// A Log is the tree over the journal of a record. It grows in the transaction of the batch that files events. Batches
// in flight are not in it.
type Log struct {
	Origin string      // a ULID: no two records have the same, but a copy has that of its original
	Since  int64       // last position before the log began; up to it the events were hashed only then
	Tree   merkle.Tree // its leaves are those of the positions from 1 on
}

// A LogEntry is what is kept of one position of the journal. One with neither an event nor a leaf was lost.
type LogEntry struct {
	Pos    int64
	Event  *Event   // nil if it was removed
	Secret Secret   // of its task; zero if it was removed
	Leaf   dag.Hash // kept since the event was removed or redacted; else zero
}

// Hash returns the leaf of e in the tree, or zero if e was lost.
func (e *LogEntry) Hash() dag.Hash {
	if e.Leaf.IsZero() && e.Event != nil {
		return e.Event.Leaf(e.Secret)
	}
	return e.Leaf
}

// LostLeaf returns the leaf of a position whose event was removed before the log began.
func LostLeaf() dag.Hash { return merkle.Leaf([]byte("lost")) }

// NewOrigin returns an origin for a log that begins at the given time.
func NewOrigin(at time.Time) string {
	var id ulid.ULID
	_ = id.SetTime(uint64(max(at.UnixMilli(), 0))) // before the year 10889
	rand.Read(id[6:])
	return id.String()
}

// NewSecret returns a secret for a task.
func NewSecret() (s Secret) {
	rand.Read(s[:])
	return s
}
