package verify_test

import (
	"fmt"
	"testing"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/record/verify"
)

// A chain of 100,000 steps: 200,000 nodes.
func BenchmarkAll(b *testing.B) {
	s := openSQLite(b, b.TempDir()+"/home")
	w := newWorld(b, s)
	row := w.begin("A", "x")
	tip, err := w.reader.Tip(ctx, row.Head)
	w.must(err)
	roles := []thread.Draft{{Role: "planner", Meta: status("ready")}, {Role: "coder", Meta: status("again")}}
	for i := 0; i < 100_000; {
		was := row
		var objects []store.Object
		for range 1000 {
			d := roles[i%2]
			d.Text = fmt.Sprint("text ", i)
			ch, err := thread.Append(row, tip, d)
			w.must(err)
			row, tip = ch.Row, ch.Tip
			objects = append(objects, ch.Objects...)
			i++
		}
		w.commit(store.Batch{Objects: objects, Threads: []store.ThreadChange{{Row: row, From: was.State()}}})
	}
	for b.Loop() {
		r, err := verify.All(ctx, verify.Config{Store: s})
		if err != nil || !r.OK() || r.Objects != 200_003 {
			b.Fatalf("%d objects, %+v, %v", r.Objects, r.Problems[:min(3, len(r.Problems))], err)
		}
	}
}
