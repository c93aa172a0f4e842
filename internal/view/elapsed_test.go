package view_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/view"
)

// TestTimes checks how long a task took: two agents that work at once count once, and not while both wait.
func TestTimes(t *testing.T) {
	asked := func(driven bool) *timed {
		d := newTimed(100, driven)
		d.tries("R", "a", "a", 0, 10, store.AttemptDone)
		d.tries("R", "b", "b", 5, 0, store.AttemptRunning)
		d.tries("R", "c", "c", 15, 20, store.AttemptFailed)
		d.asks("R", "", "R.1", 30, 0)
		return d
	}
	ended := asked(true)
	ended.Attempts[1].Status, ended.Attempts[1].EndedAt = store.AttemptDone, 50_000
	ended.Gates[0].State, ended.Gates[0].AnsweredAt = store.GateApproved, 40_000
	ended.step("R", thread.RoleEnd, view.MarkEnd, 50)
	ended.ends("R", store.Completed, 50)
	work := func(b int64) map[string]int64 { return map[string]int64{"a": 10_000, "b": b, "c": 5_000} }
	for name, x := range map[string]struct {
		of   *timed
		want view.Times
	}{
		"one waits":  {asked(true), view.Times{Elapsed: 100_000, Work: 30_000, Agents: work(25_000)}},
		"not driven": {asked(false), view.Times{Elapsed: 30_000, Work: 30_000, Agents: work(25_000)}},
		"ended":      {ended, view.Times{Elapsed: 50_000, Work: 40_000, Agents: work(35_000)}},
	} {
		r := view.TaskRecord{Root: x.of.Root, Threads: x.of.Threads, Attempts: x.of.Attempts, Gates: x.of.Gates,
			Driven: x.of.Driven}
		if diff := cmp.Diff(x.want, r.Times(time.UnixMilli(x.of.Now))); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}
