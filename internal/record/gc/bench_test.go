package gc_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/gc"
	"github.com/plait-run/plait/internal/record/store"
)

// BenchmarkRun marks 200,000 nodes, half of them garbage, and then deletes the garbage.
func BenchmarkRun(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		s := openSQLite(b, b.TempDir()+"/home", time.Now)
		chain(b, s, "live", 50_000)
		dead := chain(b, s, "dead", 50_000)
		commit(b, s, store.Batch{Remove: []string{dead}})
		b.StartTimer()
		r, err := gc.Run(ctx, gc.Config{Store: s})
		if err != nil || r.Deleted < 100_000 {
			b.Fatalf("%+v, %v", r, err)
		}
	}
}

// chain commits a thread of n steps.
func chain(b *testing.B, s store.Store, id string, n int) string {
	row, _ := begin(b, s, id)
	ancestors := []dag.Hash{row.Head}
	for i := 0; i < n; {
		was := row
		var objects []store.Object
		for range 1000 {
			c := content(b, fmt.Sprint(id, " text ", i))
			step := state(b, "planner", row.Start, c.Hash, ancestors...)
			objects = append(objects, c, step)
			ancestors = append([]dag.Hash{step.Hash}, ancestors[:min(len(ancestors), 10)]...)
			i++
		}
		row.Head = ancestors[0]
		commit(b, s, store.Batch{Objects: objects, Threads: []store.ThreadChange{{Row: row, From: was.State()}}})
	}
	return id
}
