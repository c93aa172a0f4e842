package verify

import (
	"context"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
)

// redactions are what events say was redacted, each time.
type redactions struct {
	gates   map[string][]dag.Hash // by gate: the hash by which steps name its answer as it was
	kept    map[string][]dag.Hash // by object: the SHA-256 of what is kept instead
	unnamed bool                  // an older version redacted objects, and did not say which
}

// readRedactions reads them after the objects, so that those that are redacted meanwhile are among them.
func (c *check) readRedactions(ctx context.Context) error {
	events, err := c.cfg.Store.Events(ctx, 0, store.EventFilter{Types: event.Types(event.TaskRedacted{})})
	c.said = redactions{gates: map[string][]dag.Hash{}, kept: map[string][]dag.Hash{}}
	for _, e := range events {
		for what, is := range store.ReadProof(e.Proof) {
			if object, ok := strings.CutPrefix(what, store.ProofObject); ok {
				c.said.kept[object] = append(c.said.kept[object], is)
			}
		}
		p, _ := event.Read(e).(event.TaskRedacted)
		for id, answer := range p.Gates {
			c.said.gates[id] = append(c.said.gates[id], answer)
		}
		// What a redaction makes of objects is said before what it makes of tasks.
		c.said.unnamed = c.said.unnamed || p.Objects > 0 && len(c.said.kept) == 0
	}
	return c.unreadable(ctx, "events", err)
}

// checkRedacted checks that an event says what is kept of an object that was redacted: anyone can make such bytes.
func (c *check) checkRedacted(o *object) {
	c.redacted++
	switch kept := c.said.kept[o.hash.String()]; {
	case slices.Contains(kept, o.kept):
	case kept == nil && c.said.unnamed:
		c.unproven++
	default:
		c.wrong(o.hash, "its bytes were replaced, and no event says that they were redacted")
	}
}
