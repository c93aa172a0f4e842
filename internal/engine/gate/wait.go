package gate

import (
	"context"
	"fmt"
	"time"

	"github.com/plait-run/plait/internal/record/store"
)

// MaxNap is how long a timer is trusted: timers stop while a machine sleeps, but the clock does not.
const MaxNap = time.Minute

// Wait returns the gate once it is no longer open: any process has answered it, or it has timed out. If ctx
// ends, Wait returns ctx's error and leaves the gate unchanged. The error matches store.ErrNotFound if there is
// no such gate.
func (s *Service) Wait(ctx context.Context, id string) (store.Gate, error) {
	for pos := int64(0); ; {
		g, err := s.Gate(ctx, id)
		if err != nil || g.State != store.GateOpen {
			return g, err
		}
		if pos, err = s.news(ctx, pos, g); err != nil {
			return g, fmt.Errorf("wait for gate %s: %w", id, err)
		}
	}
}

// news waits until there are events after pos, or until it is time to look at g anyway. It returns the last
// position known.
func (s *Service) news(ctx context.Context, pos int64, g store.Gate) (int64, error) {
	if g.ExpiresAt == 0 {
		return s.cfg.Store.Wait(ctx, pos)
	}
	nap := min(time.UnixMilli(g.ExpiresAt).Sub(s.cfg.Now()), MaxNap)
	timed, cancel := context.WithTimeout(ctx, nap)
	defer cancel()
	last, err := s.cfg.Store.Wait(timed, pos)
	switch {
	case err == nil || timed.Err() == nil:
		return last, err
	case ctx.Err() != nil:
		return last, ctx.Err() // err may come from our own timer
	}
	return pos, nil
}
