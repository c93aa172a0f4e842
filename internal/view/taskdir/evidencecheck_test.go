package taskdir

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/thread"
)

// TestCheckEvidence tests what the check of a task's evidence decides: which state an entry has, and whether the whole is
// damaged or outdated.
func TestCheckEvidence(t *testing.T) {
	w := newWorld(t)
	w.draw(w.board())
	if err := os.WriteFile(filepath.Join(w.row.Workspace, "f.txt"), []byte("a\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	anchor := func(path, text string) thread.EvidenceSource {
		s := source(path)
		s.Hash = dag.Sum([]byte(text))
		return s
	}
	entry := func(sources ...thread.EvidenceSource) Entry {
		return Entry{ID: "plan.e", By: "plan", Thread: taskID, Sources: sources}
	}
	fresh, stale, gone := anchor("f.txt", "a\n"), anchor("f.txt", "b\n"), anchor("g.txt", "a\n")
	lost := fresh
	lost.Blob = dag.Sum([]byte("never kept"))
	declined := entry(fresh)
	declined.Unfinished = true
	for name, tt := range map[string]struct {
		entry             Entry
		report            string
		state             string
		damaged, outdated bool
	}{
		"unchanged":                 {entry(fresh), "", Fresh, false, false},
		"no source":                 {entry(), "", Unknown, false, false},
		"the worst source counts":   {entry(fresh, gone, stale), "", Gone, false, true},
		"changed":                   {entry(stale), "", Stale, false, true},
		"content is missing":        {entry(lost), "", Fresh, true, false},
		"cited":                     {entry(fresh), "evidence:plan.e", Fresh, false, false},
		"cited, and not there":      {entry(fresh), "evidence:plan.x", Fresh, true, false},
		"cited, but proves nothing": {declined, "evidence:plan.e", Fresh, true, false},
	} {
		w.write("shared/reports/r.md", tt.report)
		c, err := w.board().CheckEvidence(t.Context(), w.row, []Entry{tt.entry})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Evidence[0].State; got != tt.state || c.Damaged() != tt.damaged || c.Outdated() != tt.outdated {
			t.Errorf("%s: %s, damaged %t, outdated %t: %+v", name, got, c.Damaged(), c.Outdated(), c)
		}
	}
}
