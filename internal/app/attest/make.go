package attest

import (
	"context"
	"slices"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/history"
	"github.com/plait-run/plait/internal/record/store"
)

// A Maker makes statements about the change of one task.
type Maker struct {
	Journal store.Journal
	Record  Record
	Subject []Subject // at least one
	ByHand  bool      // see [ByHand]
}

// Statement returns a statement with the head of the log, and the entries of the task in that log: all of them, or only
// its core.
func (m Maker) Statement(ctx context.Context, head history.Checkpoint, all bool) (*Statement, *Entries, error) {
	c, err := m.Record.Change(ctx)
	if err != nil {
		return nil, nil, err
	}
	e, count, err := ReadEntries(ctx, m.Journal, c.Task.ID, head, all)
	if err != nil {
		return nil, nil, err
	}
	if m.ByHand {
		c.NotKnown = append(c.NotKnown, Unknown{What: GapByHand})
	}
	e.said.tell(&c)
	c.Log = Log{Entries: count, Origin: head.Origin, Root: head.Root, Size: head.Size}
	c.Files = map[string]dag.Hash{}
	return &Statement{Type: statementType, Subject: slices.Clip(m.Subject), PredicateType: predicateType, Predicate: c}, &e,
		nil
}
