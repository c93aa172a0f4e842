package control

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/store"
)

// A path whose join timed out before the path could continue is not started again,
// however long it takes to say so.
func TestNoPathBeginsLate(t *testing.T) {
	for strategy, at := range map[string]int{"parallel": 3, "serial": 1} {
		synctest.Test(t, func(t *testing.T) {
			agents := surveyAgents()
			begun, atWork := make(chan struct{}, 9), make(chan struct{})
			for _, role := range []string{"api", "db", "ui"} {
				agents[role] = func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result,
					error) {
					begun <- struct{}{}
					return hangs(ctx, req, emit)
				}
			}
			go func() {
				for range at {
					<-begun
				}
				close(atWork)
			}()
			h := newHouse(t, agents)
			h.clock = time.Now
			row := h.begin(h.controller(), withStrategy(withJoin("joinStrategy: ALL_COMPLETED, timeout: 10m"),
				strategy))
			h.cutOff(row, atWork)
			time.Sleep(24 * time.Hour)
			h.store = noticed{Store: h.store, before: func(b store.Batch) {
				if tells(b, "join.decided") {
					time.Sleep(time.Minute) // anything that could begin meanwhile would
				}
			}}
			row = h.drive(h.controller(), row.ID, Resume{})
			wantStatus(t, row, store.Completed, "")
			if _, meta := h.joinOf(row, "seen"); meta["$status"] != "timeout" {
				t.Errorf("%s: the join came to %v", strategy, meta)
			}
			if n := h.runs["api"] + h.runs["db"] + h.runs["ui"]; n != at {
				t.Errorf("%s: agents of paths began %d times, want %d: none after the time was up", strategy, n, at)
			}
			h.noneRuns()
		})
	}
}
