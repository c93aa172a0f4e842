package verify

import (
	"context"
	"errors"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// checkCalls rebuilds every recorded request to a model: its parts must yield what was sent.
func (c *check) checkCalls(ctx context.Context, reached []*object) error {
	continued := map[dag.Hash]bool{}
	for _, o := range reached {
		if o.calls != nil {
			continued[o.calls.Prev] = true
		}
	}
	r := thread.NewReader(c.cfg.Store)
	for _, o := range reached {
		if o.calls == nil || continued[o.hash] {
			continue
		}
		for _, err := range r.Exchanges(ctx, o.hash) {
			switch {
			case err == nil:
			case errors.Is(err, dag.ErrMalformed):
				c.wrong(o.hash, "calls: %v", err)
			case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrCorrupt): // already reported for the part
			default:
				return err
			}
		}
	}
	return nil
}
