package engine

import (
	"testing"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/mem"
)

// TestGatesEndWithTheirTask: when a task ends, the open gates of all its threads are withdrawn; when a path ends, only
// its own.
func TestGatesEndWithTheirTask(t *testing.T) {
	for _, tt := range []struct {
		ends string
		want map[string]store.GateState
	}{
		{"path", map[string]store.GateState{"g-root": store.GateOpen, "g-path": store.GateWithdrawn}},
		{"root", map[string]store.GateState{"g-root": store.GateWithdrawn, "g-path": store.GateWithdrawn}},
	} {
		s, ctx := mem.New(mem.Config{Proven: true}), t.Context()
		var batch store.Batch
		for _, id := range []string{"root", "path"} {
			batch.Threads = append(batch.Threads, store.ThreadChange{Row: store.Thread{ID: id, Task: "root", Root: "root",
				Status: store.Running}})
			batch.Gates = append(batch.Gates, store.GateChange{Row: store.Gate{ID: "g-" + id, Task: "root", Thread: id,
				Kind: store.GateInput, State: store.GateOpen, OpenedAt: 1}})
		}
		if err := s.Forge(ctx, batch); err != nil {
			t.Fatal(err)
		}
		row, err := s.Thread(ctx, tt.ends)
		if err != nil {
			t.Fatal(err)
		}
		if err := New(shared(s.Share(), nil)).withdrawAtEnd(ctx, row); err != nil {
			t.Fatal(err)
		}
		for id, want := range tt.want {
			if g, err := s.Gate(ctx, id); err != nil || g.State != want {
				t.Errorf("%s ends: gate %s is %s, %v; want %s", tt.ends, id, g.State, err, want)
			}
		}
	}
}
