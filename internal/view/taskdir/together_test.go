package taskdir

import (
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/plait-run/plait/internal/agent"
)

// TestDrawnWhileAgentsWork draws continuously while one attempt follows another:
// every desk can be opened, nothing drawn is among an attempt's artifacts, and no
// attempt's stretch of the logs is lost.
func TestDrawnWhileAgentsWork(t *testing.T) {
	w := newWorld(t)
	w.draw(w.board())
	stop := make(chan struct{})
	var drawing sync.WaitGroup
	for range 2 {
		drawing.Go(func() {
			for b := w.board(); ; b.Forget(taskID) {
				select {
				case <-stop:
					return
				default:
				}
				// Two concurrent drawings may interfere with each other, but do no harm.
				b.Draw(t.Context(), taskID, true)
			}
		})
	}
	const tries = 60
	for n := 1; n <= tries; n++ {
		a := w.attempt(n)
		desk, err := openDesk(w.dir, "plan", a.ID, agent.Vendor{})
		if err != nil {
			t.Fatalf("attempt %d: %v", n, err)
		}
		desk.Raw.WriteString("said")
		if err := os.WriteFile(filepath.Join(desk.ArtifactsDir(), "left"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if left, err := os.ReadDir(desk.ArtifactsDir()); err != nil || len(left) != 1 {
			t.Errorf("attempt %d: artifacts are %v, %v", n, left, err)
		}
		w.step(a, `{"$status":"again"}`, "x")
		if err := desk.Close("vendor"); err != nil {
			t.Fatalf("attempt %d: %v", n, err)
		}
	}
	close(stop)
	drawing.Wait()
	w.draw(w.board())
	var s Session
	if err := json.Unmarshal([]byte(w.file("agents/plan/session.json")), &s); err != nil {
		t.Fatal(err)
	}
	told := stretches(t, w.dir, "plan")
	if len(told) != 2*tries || s.Adapter != "codex" {
		t.Fatalf("attempts.jsonl has %d lines of %q", len(told), s.Adapter)
	}
	for i, a := range told {
		if want := [2]int64{int64(4 * (i / 2)), int64(4 * ((i + 1) / 2))}; a.Events != want {
			t.Errorf("attempt %s has the bytes %v, want %v", a.ID, a.Events, want)
		}
	}
	if w.file(eventsFile) != normal(t, w.journal()) {
		t.Error("events.jsonl does not say what the journal says")
	}
	for _, dir := range []string{".", "shared", "agents/plan"} {
		names, err := filepath.Glob(filepath.Join(w.path(dir), ".*.new"))
		if err != nil || len(names) > 0 {
			t.Errorf("left over: %v, %v", names, err)
		}
	}
}
