package briefing

import (
	"testing"
	"time"

	"github.com/plait-run/plait/internal/engine/evidence"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/housetest"
	"github.com/plait-run/plait/internal/testing/mem"
)

// A scene has a task in a store, with a working tree.
type scene struct {
	*Briefer
	store *mem.Store
	row   store.Thread
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := mem.New(mem.Config{Proven: true})
	row := housetest.Begin(t.Context(), t, s, store.Thread{ID: "01JD0000000000000000000000", CreatedAt: 1,
		Tree: t.TempDir()}, housetest.Bundle(t, housetest.TwoSteps("write")), "go")
	nodes := thread.NewReader(s)
	now := func() time.Time { return time.UnixMilli(1) }
	return &scene{store: s, row: row, Briefer: New(Config{
		Store: s, Record: record.New(nodes, s), Gates: gate.New(gate.Config{Store: s, Now: now}), Home: t.TempDir(),
		Evidence: evidence.New(evidence.Config{Store: s, Nodes: nodes, Now: now}),
		Desks:    housetest.BareDesks{},
	})}
}
