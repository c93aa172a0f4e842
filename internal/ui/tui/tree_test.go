package tui

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view"
)

// crowd returns a task with n agents at work.
func crowd(n int) taskRead {
	r := taskRead{id: "T", doing: map[string]string{}, driven: true, driving: true}
	r.task = view.Task{ID: "T", Short: "k7f2", Title: "Find what is slow \x1b[2J", Flow: "orchestrate",
		CreatedAt: view.Time(noon.UnixMilli())}
	r.task.Display.State = view.DisplayRunning
	r.task.Threads = []view.TaskThread{{ID: "T"}}
	r.record.Root = store.Thread{ID: "T", Task: "T", Status: store.Running, CreatedAt: noon.UnixMilli()}
	r.record.Threads, r.record.Driven = []store.Thread{r.record.Root}, true
	r.record.Attempts = []store.Attempt{{ID: "T.1", Thread: "T", Instance: "p", Status: store.AttemptDone,
		StartedAt: noon.UnixMilli(), EndedAt: noon.Add(5 * time.Second).UnixMilli()}}
	r.task.Roster = []view.Member{{Instance: "p", Role: "planner", Agent: "codex", Thread: "T", State: store.Completed,
		StartedAt: view.Time(noon.UnixMilli()), EndedAt: view.Time(noon.Add(5 * time.Second).UnixMilli()), Tokens: 1234}}
	for i := range n {
		id := fmt.Sprintf("look-at-part-%d", i)
		th := view.TaskThread{ID: id, Label: id}
		th.Display.State = view.DisplayRunning
		r.task.Threads = append(r.task.Threads, th)
		r.task.Roster = append(r.task.Roster, view.Member{Instance: id, Role: id, Agent: "codex", Thread: id, Label: id,
			State: store.Running, StartedAt: view.Time(noon.Add(time.Duration(i) * time.Second).UnixMilli()), Tokens: 2e4})
		r.record.Threads = append(r.record.Threads, store.Thread{ID: id, Task: "T", Status: store.Running,
			Parent: &store.Parent{Thread: "T"}})
		r.record.Attempts = append(r.record.Attempts, store.Attempt{ID: id + ".1", Thread: id, Instance: id,
			Status: store.AttemptRunning, StartedAt: noon.Add(time.Duration(i) * time.Second).UnixMilli()})
		r.doing[id] = "$ go test ./... \x1b]0;何" + strings.Repeat("界", 40)
	}
	return r
}

// TestTree tests the tree of a task as a person sees it.
func TestTree(t *testing.T) {
	r := crowd(2)
	r.doing = map[string]string{"look-at-part-0": "$ make test"}
	r.record.Gates = []store.Gate{{Thread: "look-at-part-1", Attempt: "look-at-part-1.1", State: store.GateOpen,
		OpenedAt: noon.Add(11 * time.Second).UnixMilli()}}
	r.task.Milestones = []view.Milestone{{ID: "mend", Action: true, State: view.MilestonePending,
		DependsOn: []string{"look-at-part-0"}}}
	var got []string
	for _, l := range treeLines(tree(r.task, r.doing), r.record.Times(noon.Add(75*time.Second)), 80) {
		got = append(got, strings.TrimRight(ansi.Strip(l), " "))
	}
	want := []string{
		"✓ planner           codex  done                                  1.2k tok   0:05",
		"├ ● look-at-part-0  codex  $ make test                            20k tok   1:15",
		"├ ● look-at-part-1  codex                                         20k tok   0:10", // then it asked
		"└ · mend                   waits for look-at-part-0",
	}
	if diff := cmp.Diff(want, got, whole); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	head := ansi.Strip(strings.Join(r.head(noon.Add(75*time.Second), 80), "\n"))
	if !strings.Contains(head, " · 1:15 elapsed · 1:15 work") {
		t.Errorf("the head says\n%s", head)
	}
}

// TestPrice checks that the tree shows dollars where they are known, otherwise tokens.
func TestPrice(t *testing.T) {
	r := crowd(1)
	r.task.Roster[0].CostMicroUSD = 1_230_000
	got := strings.Join(treeLines(tree(r.task, nil), r.record.Times(noon), 80), "\n")
	if !strings.Contains(got, "$1.23") || !strings.Contains(got, "20k tok") {
		t.Errorf("it tells\n%s", got)
	}
}

// TestSteps lists the steps of a task on a wide pane, and tells what came of agents that work no more.
func TestSteps(t *testing.T) {
	r := crowd(1)
	bar := func(attempt, role, said string, to int64) view.Bar {
		b := view.Bar{Attempt: attempt, Role: role, Said: said, To: to, Outcome: "done"}
		b.Step[0] = 1
		return b
	}
	tl := view.Timeline{Lanes: []view.TimelineLane{
		{Name: "look-at-part-0", Bars: []view.Bar{bar("look-at-part-0.1", "look-at-part-0", "found \x1b[31mit", 9000)}},
		{Name: "main", Bars: []view.Bar{bar("T.1", "planner", "planned 1 action", 5000), {Attempt: "T.2", Role: "planner"}}},
	}}
	steps, came := finished(r.record, r.task.Roster, tl)
	if diff := cmp.Diff(map[string]string{"p": "planned 1 action"}, came); diff != "" { // the other one works on
		t.Errorf("-want +got\n%s", diff)
	}
	r.steps = steps
	p := taskPane{read: &r}
	for width, want := range map[int]bool{stepsFrom: true, stepsFrom - 1: false} {
		got := ansi.Strip(strings.Join(p.lines(noon, width, 40, false), "\n"))
		first, second := strings.Index(got, "main/planner"), strings.Index(got, "found ")
		if want != (first > 0 && second > first && strings.Contains(got, "STEPS")) || strings.Contains(got, "\x1b") {
			t.Errorf("%d columns:\n%s", width, got)
		}
	}
}
