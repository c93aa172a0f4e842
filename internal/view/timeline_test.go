package view_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/view"
)

func (r *record) join(l, main *line, paths ...*line) {
	r.t.Helper()
	r.clock++
	d := thread.JoinDraft{Node: "gathered", Outcome: "joined", At: r.clock}
	for _, p := range paths {
		if !p.row.Ended() {
			r.mark(p, store.Completed)
		}
		d.Paths = append(d.Paths, thread.PathEnd{Row: p.row})
	}
	ch, err := thread.Join(l.row, main.tip, main.row.Steps, d)
	r.moved(l, ch, err)
}

// fork makes a manual fork of a thread, at its head.
func (r *record) fork(l *line, id string) *line {
	r.t.Helper()
	row := l.row
	row.ID, row.Task, row.Root, row.Kind, row.Status, row.Parent,
		row.Path = id, id, id, store.KindRoot, store.Pending, nil, nil
	row.ForkedFrom, row.CreatedAt, row.EndedAt = &store.ForkedFrom{Thread: l.row.ID, Step: l.row.Head}, r.clock, 0
	return r.begin(nil, row, nil)
}

// A timed is the record of a task, with times in seconds from its beginning.
type timed struct {
	view.TimelineRecord
	heads map[string]dag.Hash
}

func newTimed(now int64, driven bool) *timed {
	root := store.Thread{ID: "R", Task: "R", Root: "R", Kind: store.KindRoot, Flow: "solve", Status: store.Running,
		Start: dag.Sum([]byte("start"))}
	return &timed{view.TimelineRecord{TaskRecord: view.TaskRecord{Root: root, Threads: []store.Thread{root},
		Driven: driven},
		Chains: map[string][]view.ChainStep{}, Now: now * 1000},
		map[string]dag.Hash{"R": root.Start}}
}

// below adds a thread below another.
func (d *timed) below(of, id string, kind store.ThreadKind, at int64) {
	row := store.Thread{ID: of + "-" + id, Task: "R", Root: "R", Kind: kind, Flow: id + "-flow", Status: store.Running,
		CreatedAt: at * 1000,
		Parent:    &store.Parent{Thread: of, From: d.heads[of]}}
	if kind != store.KindCall {
		row.Path = &store.Path{ID: id, Fork: d.heads[of]}
	}
	d.Threads, d.heads[row.ID] = append(d.Threads, row), d.heads[of]
}

// tries adds an attempt, and its step when it is done.
func (d *timed) tries(on, instance, role string, from, to int64, status store.AttemptStatus) {
	n := len(d.Attempts)
	a := store.Attempt{ID: fmt.Sprintf("%s.%d", on, n), Thread: on, Instance: instance, Role: role, From: d.heads[on],
		N: n, Status: status,
		StartedAt: from * 1000, EndedAt: to * 1000, Usage: store.Usage{InputTokens: 10}}
	if status == store.AttemptRunning {
		a.EndedAt = 0
	}
	d.Attempts = append(d.Attempts, a)
	if status == store.AttemptDone {
		d.step(on, role, view.MarkStep, to)
	}
}

func (d *timed) step(on, role, kind string, at int64, joins ...string) {
	n := len(d.Chains[on]) + 1
	h := dag.Sum(fmt.Append(nil, on, role, at))
	s := view.ChainStep{N: n, Hash: h, Before: d.heads[on], Role: role, Kind: kind, Outcome: "ok", At: at * 1000}
	for _, j := range joins {
		s.Joins = append(s.Joins, on+"-"+j)
	}
	d.Chains[on], d.heads[on] = append(d.Chains[on], s), h
}

func (d *timed) asks(on, node, attempt string, at, answered int64) {
	g := store.Gate{ID: fmt.Sprintf("g-%d", len(d.Gates)), Kind: store.GateInput, State: store.GateOpen, Thread: on,
		Node: node, Attempt: attempt,
		From: d.heads[on], OpenedAt: at * 1000, Question: "which?"}
	if answered > 0 {
		g.State, g.AnsweredAt = store.GateAnswered, answered*1000
		if attempt == "" {
			defer d.step(on, node, view.MarkStep, answered)
		}
	}
	d.Gates = append(d.Gates, g)
}

func (d *timed) ends(id string, status store.Status, at int64) {
	for i := range d.Threads {
		if d.Threads[i].ID == id {
			d.Threads[i].Status, d.Threads[i].EndedAt = status, at*1000
		}
	}
	if d.Root.ID == id {
		d.Root = d.Threads[0]
	}
}

// eventText returns a timeline as text: lanes, then links, then compressed waits, in seconds.
func eventText(tl view.Timeline) []string {
	var out []string
	for _, l := range tl.Lanes {
		text := strings.Repeat("  ", l.Level) + l.Name + " " + string(l.Status) + ":"
		for _, b := range l.Bars {
			text += fmt.Sprintf(" %s(%d-%d %s", b.Role, b.From/1000, b.To/1000, b.Status)
			if b.Lost {
				text += " lost"
			}
			if b.State == view.DisplayNeedsYou && !b.Lost {
				text += " asks"
			}
			if b.N > 0 {
				text += fmt.Sprintf(" #%d", b.N)
			}
			for _, w := range b.Waits {
				text += fmt.Sprintf(" waits %d-%d", w.From/1000, w.To/1000)
			}
			text += ")"
		}
		for _, m := range l.Marks {
			text += fmt.Sprintf(" %s@%d", m.Kind, m.At/1000)
			if m.Gate != "" {
				text += fmt.Sprintf("-%d %s", m.Until/1000, m.State)
			}
			if m.N > 0 {
				text += fmt.Sprintf(" #%d", m.N)
			}
		}
		out = append(out, text)
	}
	for _, l := range tl.Links {
		out = append(out, fmt.Sprintf("%s %s-%s@%d", l.Kind, tl.Lanes[l.From].Name, tl.Lanes[l.To].Name, l.At/1000))
	}
	for _, p := range tl.Axis.Pieces {
		if p.Cut {
			out = append(out, fmt.Sprintf("cut %d-%d", p.From/1000, p.To/1000))
		}
	}
	return out
}

func TestTimeline(t *testing.T) {
	for _, c := range []struct {
		name string
		make func() *timed
		want []string
	}{
		{"nothing has begun", func() *timed { return newTimed(5, true) }, []string{"solve running:"}},
		{"serial", func() *timed {
			d := newTimed(60, true)
			d.tries("R", "plan", "plan", 0, 10, store.AttemptDone)
			d.tries("R", "work", "work", 10, 30, store.AttemptDone)
			d.tries("R", "plan", "plan", 30, 35, store.AttemptDone)
			d.step("R", thread.RoleEnd, view.MarkEnd, 35)
			d.ends("R", store.Completed, 35)
			return d
		}, []string{"solve completed: end@35 #4", "  plan completed: plan(0-10 done #1) plan(30-35 done #3)",
			"  work completed: work(10-30 done #2)",
			"next solve-plan@0", "next plan-work@10", "next work-plan@30"}},
		{"one agent has the lane of its thread", func() *timed {
			d := newTimed(9, true)
			d.tries("R", "assistant", "chat", 0, 4, store.AttemptDone)
			d.tries("R", "assistant", "chat", 5, 0, store.AttemptRunning)
			return d
		}, []string{"assistant running: chat(0-4 done #1) chat(5-9 running)"}},
		{"retries", func() *timed {
			d := newTimed(9, true)
			d.tries("R", "work", "work", 0, 2, store.AttemptFailed)
			d.tries("R", "work", "work", 2, 4, store.AttemptInterrupted)
			d.tries("R", "work", "work", 4, 8, store.AttemptDone)
			return d
		}, []string{"work running: work(0-2 failed) work(2-4 interrupted) work(4-8 done #1)"}},
		{"a fork in a fork", func() *timed {
			d := newTimed(60, true)
			d.tries("R", "scope", "scope", 0, 5, store.AttemptDone)
			d.below("R", "api", store.KindPath, 5)
			d.below("R", "db", store.KindPath, 5)
			d.tries("R-db", "db", "read", 5, 20, store.AttemptDone)
			d.below("R-api", "in", store.KindPath, 6)
			d.below("R-api", "out", store.KindPath, 6)
			d.tries("R-api-out", "out", "look", 7, 9, store.AttemptDone)
			d.tries("R-api-in", "in", "look", 6, 8, store.AttemptDone)
			d.step("R-api", "met", view.MarkJoin, 9, "in", "out")
			d.step("R", "met", view.MarkJoin, 20, "api", "db")
			return d
		}, []string{"scope running: scope(0-5 done #1) join@20 #2", "  api running: join@9 #1",
			"    in running: look(6-8 done #1)", "    out running: look(7-9 done #1)",
			"  db running: read(5-20 done #1)", "join scope-api@20", "join scope-db@20", "fork scope-api@5", "fork scope-db@5",
			"join api-in@9",
			"join api-out@9", "fork api-in@6", "fork api-out@6", "cut 20-60"}},
		{"a plan, an action of which is begun anew", func() *timed {
			d := newTimed(40, true)
			d.tries("R", "planner", "planner", 0, 5, store.AttemptDone)
			d.below("R", "mend", store.KindWorker, 6)
			d.tries("R-mend", "mend", "mend", 6, 20, store.AttemptDone)
			d.below("R", "mend2", store.KindWorker, 22)
			d.Threads[2].Path.ID, d.Threads[2].Path.N = "mend", 2
			d.tries("R-mend2", "mend", "mend", 22, 30, store.AttemptDone)
			d.step("R", thread.RoleJoin, view.MarkJoin, 30, "mend2")
			d.tries("R", "planner", "planner", 30, 0, store.AttemptRunning)
			return d
		}, []string{"planner running: planner(0-5 done #1) planner(30-40 running) join@30 #2",
			"  mend running: mend(6-20 done #1)",
			"  mend#2 running: mend(22-30 done #1)", "join planner-mend#2@30", "fork planner-mend@6", "fork planner-mend#2@22"}},
		{"gates, and a night", func() *timed {
			d := newTimed(30_000, true)
			d.tries("R", "plan", "plan", 0, 8, store.AttemptDone)
			d.asks("R", "go-ahead", "", 8, 28_808)
			d.tries("R", "work", "work", 28_808, 0, store.AttemptRunning)
			d.asks("R", "", "R.1", 28_816, 0)
			return d
		}, []string{"solve running: question@8-28808 answered #2", "  plan running: plan(0-8 done #1)",
			"  work running: work(28808-30000 running asks waits 28816-30000) question@28816-30000 open",
			"next solve-plan@0", "next plan-work@28808", "cut 8-28808", "cut 28816-30000"}},
		{"interrupted", func() *timed {
			d := newTimed(500, false)
			d.tries("R", "work", "work", 0, 0, store.AttemptRunning)
			d.asks("R", "", "R.0", 7, 0)
			return d
		}, []string{"work interrupted: work(0-7 running lost) question@7-500 open"}},
		{"rows in a circle", func() *timed {
			d := newTimed(5, true)
			d.below("R", "a", store.KindPath, 1)
			d.Threads[1].Parent.Thread = d.Threads[1].ID
			return d
		}, []string{"solve running:"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, eventText(view.NewTimeline(c.make().TimelineRecord))); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// TestAxis checks that time runs in one direction and fills the axis, and that waits take at most half as much as work.
func TestAxis(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newTimed(rapid.Int64Range(0, 100_000).Draw(t, "now"), true)
		for range rapid.IntRange(0, 12).Draw(t, "attempts") {
			from := rapid.Int64Range(0, 90_000).Draw(t, "from")
			d.tries("R", "a", "a", from, from+rapid.Int64Range(0, 3000).Draw(t, "took"), store.AttemptFailed)
		}
		tl := view.NewTimeline(d.TimelineRecord)
		sum, cut, at := 0.0, 0.0, 0.0
		for i, p := range tl.Axis.Pieces {
			if p.From >= p.To || i > 0 && p.From != tl.Axis.Pieces[i-1].To || math.Abs(p.At-at) > 1e-9 {
				t.Fatalf("piece %d: %+v", i, tl.Axis.Pieces)
			}
			if sum, at = sum+p.Width, p.At+p.Width; p.Cut {
				cut += p.Width
			}
		}
		if math.Abs(sum-1) > 1e-9 || cut > 0.34 {
			t.Fatalf("widths are %v together, %v of it cut", sum, cut)
		}
		last := -1.0
		for _, b := range tl.Lanes[0].Bars {
			if x := tl.Axis.Place(b.From); x < last || x > 1 {
				t.Fatalf("%d stands at %v after %v", b.From, x, last)
			} else {
				last = x
			}
		}
		for i, tick := range tl.Axis.Ticks(7) {
			if i > 40 || tick.At < 0 || tick.At > 1 {
				t.Fatalf("tick %d: %+v", i, tick)
			}
		}
	})
}

// TestTimelineOfARecord checks what is read of chains: each step once, on the thread that made it.
func TestTimelineOfARecord(t *testing.T) {
	r, root := newRecord(t)
	r.step(root, thread.Draft{Role: "plan"})
	child := r.call(root, "develop")
	r.step(child, thread.Draft{Role: "code"})
	r.step(root, thread.Draft{Role: "develop", ChildThread: r.end(child)})
	a, b := r.path(root, "api"), r.path(root, "db")
	r.step(a, thread.Draft{Role: "read"})
	in, out := r.path(b, "in"), r.path(b, "out")
	r.step(in, thread.Draft{Role: "look"})
	r.step(out, thread.Draft{Role: "look"})
	r.join(b, in, in, out)
	r.step(b, thread.Draft{Role: "sum"})
	r.join(root, a, a, b)
	r.step(root, thread.Draft{Role: thread.RoleCompact, Text: "in short", Meta: json.RawMessage(`{"bytes":9,"steps":4}`),
		Compact: true})
	forked := r.fork(root, "01KB0000000000000000000000")
	r.step(forked, thread.Draft{Role: "plan"})
	for l, want := range map[*line][]string{
		root: {"solve step #1 call #2 join #4 summary #5", "  develop-flow step #1 end #2", "  api step #3",
			"  db join #4 step #5", "    in step #3", "    out step #3"},
		// What came before a manual fork belongs to another task.
		forked: {"solve step #6"},
	} {
		task, err := r.book().Record(t.Context(), l.row)
		if err != nil {
			t.Fatal(err)
		}
		tl, err := r.book().Timeline(t.Context(), task, time.UnixMilli(r.clock))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, lane := range tl.Lanes {
			text := strings.Repeat("  ", lane.Level) + lane.Name
			for _, m := range lane.Marks {
				text += fmt.Sprintf(" %s #%d", m.Kind, m.N)
			}
			got = append(got, text)
		}
		if diff := cmp.Diff(want, got); diff != "" || tl.Cut {
			t.Errorf("-want +got\n%s", diff)
		}
	}
}

func TestAllowances(t *testing.T) {
	r, root := newRecord(t)
	task, err := r.book().Record(t.Context(), root.row)
	if err != nil {
		t.Fatal(err)
	}
	if got := task.Allowances(time.UnixMilli(r.clock)); got != (view.Allowances{}) {
		t.Errorf("without limits: %+v", got)
	}
	task.Root.Options = json.RawMessage(`{"limits":{"maxTokens":500}}`)
	if got := task.Allowances(time.UnixMilli(r.clock)); got.Tokens != (view.Allowance{Max: 500}) {
		t.Errorf("%+v", got)
	}
}
