package tui

import (
	"testing"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/housetest"
	"github.com/plait-run/plait/internal/testing/mem"
	"github.com/plait-run/plait/internal/view"
)

// TestScreenHasTheResult checks that the screen shows the result as every other view does.
func TestScreenHasTheResult(t *testing.T) {
	for end, want := range map[string]string{`{role: $END, prompt: "It is over."}`: "It is over.",
		`{role: $END}`: "One.\nTwo."} {
		s := mem.New(mem.Config{})
		row := housetest.Begin(t.Context(), t, s, store.Thread{ID: "01K00000000000000000000000", CreatedAt: 1},
			housetest.Bundle(t, `version: 1
name: test
roles: {work: {description: works}}
graph:
  $START: {new: {role: work, prompt: go}}
  work: {done: `+end+`}
`), "go")
		row = housetest.Append(t.Context(), t, s, row, thread.Draft{Role: "work", Meta: []byte(`{"$status":"done"}`),
			Text: "One.\nTwo."})
		c := control.New(control.Config{Store: s, Settings: housetest.Settings("fake"), Home: t.TempDir()})
		tip, err := c.Reader().Tip(t.Context(), row.Head)
		if err != nil {
			t.Fatal(err)
		}
		summary := "One."
		if want != "One.\nTwo." {
			summary = want
		}
		ch, err := thread.End(row, tip, thread.CodeDone, summary, 9)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Commit(t.Context(), store.Batch{Objects: ch.Objects,
			Threads: []store.ThreadChange{{Row: ch.Row, From: row.State()}}}); err != nil {
			t.Fatal(err)
		}
		d := newDesk(Config{Store: s, Control: c, Views: &view.Reader{Store: s, Nodes: c.Reader()}}, row.ID)
		d.ctx = t.Context()
		r := taskRead{id: row.ID}
		if err := d.read(&r); err != nil || r.result != want {
			t.Errorf("%s: the result is %q, want %q: %v", end, r.result, want, err)
		}
	}
}
