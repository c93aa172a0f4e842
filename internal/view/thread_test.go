package view_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/mem"
	"github.com/plait-run/plait/internal/view"
)

// A record is put together without an engine.
type record struct {
	t     *testing.T
	store *mem.Store
	clock int64
}

// A line is one thread of it.
type line struct {
	row store.Thread
	tip thread.Tip
}

const workspace = "/w"

func newRecord(t *testing.T) (*record, *line) {
	r := &record{t: t, store: mem.New(mem.Config{}), clock: 1_800_000_000_000}
	objects, row, err := thread.Begin(thread.NewTask{
		Row:    store.Thread{ID: "01KA0000000000000000000000", CreatedAt: r.clock, Workspace: workspace},
		Prompt: "fix it", Bundle: thread.Bundle{Name: "solve",
			Flows: map[string]json.RawMessage{"solve": json.RawMessage(`{}`)}},
	})
	return r, r.begin(objects, row, err)
}

func (r *record) book() *view.Reader {
	reader := thread.NewReader(r.store)
	return &view.Reader{Store: r.store, Nodes: reader, Workspace: workspace}
}

func (r *record) begin(objects []store.Object, row store.Thread, err error) *line {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
	r.commit(store.Batch{Objects: objects, Threads: []store.ThreadChange{{Row: row}}})
	tip, err := thread.NewReader(r.store).Tip(r.t.Context(), row.Head)
	if err != nil {
		r.t.Fatal(err)
	}
	return &line{row, tip}
}

func (r *record) commit(b store.Batch) {
	r.t.Helper()
	if err := r.store.Commit(r.t.Context(), b); err != nil {
		r.t.Fatal(err)
	}
}

func (r *record) moved(l *line, ch thread.Change, err error) dag.Hash {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
	r.commit(store.Batch{Objects: ch.Objects, Threads: []store.ThreadChange{{Row: ch.Row, From: l.row.State()}}})
	l.row, l.tip = ch.Row, ch.Tip
	return ch.Row.Head
}

func (r *record) step(l *line, d thread.Draft) dag.Hash {
	r.t.Helper()
	r.clock++
	d.At = r.clock
	if d.Meta == nil {
		d.Meta = json.RawMessage(`{"$status":"done"}`)
	}
	ch, err := thread.Append(l.row, l.tip, d)
	return r.moved(l, ch, err)
}

func (r *record) end(l *line) dag.Hash {
	r.t.Helper()
	r.clock++
	ch, err := thread.End(l.row, l.tip, 0, "over", r.clock)
	return r.moved(l, ch, err)
}

func (r *record) mark(l *line, status store.Status) {
	r.t.Helper()
	row := l.row
	if row.Status = status; row.Ended() {
		row.EndedAt = r.clock
	}
	r.commit(store.Batch{Threads: []store.ThreadChange{{Row: row, From: l.row.State()}}})
	l.row = row
}

func (r *record) call(l *line, role string) *line {
	r.t.Helper()
	r.clock++
	objects, row, err := thread.Call(thread.Child{Parent: l.row, Since: r.clock, Role: role, N: 1, Flow: role + "-flow",
		Depth: 1, Prompt: "do it", Now: r.clock})
	return r.begin(objects, row, err)
}

func (r *record) path(l *line, id string) *line {
	r.t.Helper()
	row := thread.Path(l.row, r.clock, store.Path{Key: "k/" + id, ID: id, Join: "gathered"}, r.clock)
	return r.begin(nil, row, nil)
}

// joined is a thread with a call, a fork of two, a join, and steps after it; and the
// path that lost.
func joined(t *testing.T) (r *record, root, lost *line) {
	r, root = newRecord(t)
	r.step(root, thread.Draft{Role: "preparer", Text: "ready"})
	child := r.call(root, "developer")
	r.step(child, thread.Draft{Role: "planner", Text: "a plan"})
	r.step(root, thread.Draft{Role: "developer", Text: "built", ChildThread: r.end(child)})
	won, lost := r.path(root, "api"), r.path(root, "db")
	r.step(won, thread.Draft{Role: "read-api", Text: "an API"})
	r.step(won, thread.Draft{Role: "sum-up", Text: "in short"})
	r.mark(won, store.Completed)
	r.step(lost, thread.Draft{Role: "read-db", Text: "none"})
	r.mark(lost, store.Failed)
	r.clock++
	ch, err := thread.Join(root.row, won.tip, won.row.Steps, thread.JoinDraft{
		Node: "gathered", Outcome: "joined", DecidedBy: "api", At: r.clock,
		Paths: []thread.PathEnd{{Row: won.row, Text: "an API"}, {Row: lost.row, Text: "none"}},
	})
	r.moved(root, ch, err)
	for i := range 80 { // more than a state has ancestors
		r.step(root, thread.Draft{Role: "worker", Text: fmt.Sprint(i)})
	}
	return r, root, lost
}

// spelled returns v as its readers receive it.
func spelled(t *testing.T, v any) string {
	t.Helper()
	data, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestStepsAreAWindowOfTheThread(t *testing.T) {
	r, root, lost := joined(t)
	for _, l := range []*line{root, lost} {
		b := r.book()
		whole, err := b.Thread(t.Context(), l.row, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(whole.Steps) != l.row.Steps {
			t.Fatalf("%d steps, want %d", len(whole.Steps), l.row.Steps)
		}
		total := len(whole.Steps)
		for _, n := range []int{0, 1, 3, total + 1} {
			for _, from := range []int{0, 1, 2, 3, 4, 5, 6, total / 2, total, total + 1} {
				got, err := b.Steps(t.Context(), l.row, from, n)
				if err != nil {
					t.Fatal(err)
				}
				first := min(max(from, 1)-1, total)
				want := whole.Steps[first:]
				if n > 0 && n < len(want) {
					want = want[:n]
				}
				if diff := cmp.Diff(spelled(t, want), spelled(t, got)); diff != "" {
					t.Fatalf("%s from %d, %d of %d: -want +got\n%s", l.row.ID, from, n, total, diff)
				}
			}
		}
	}
}

func TestThread(t *testing.T) {
	r, root, lost := joined(t)
	v, err := r.book().Thread(t.Context(), root.row, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	type place struct{ Role, Path, Main string }
	var got []place
	for _, s := range v.Steps[:6] {
		got = append(got, place{s.Role, s.Path, s.Main})
	}
	want := []place{{"preparer", "", ""}, {"developer", "", ""}, {"read-api", "api", ""}, {"sum-up", "api", ""},
		{"gathered", "", "api"}, {"worker", "", ""}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if v.Steps[1].Child == "" || v.Own != 0 || v.Prompt != "fix it" {
		t.Errorf("the thread is %+v", v)
	}
	p, err := r.book().Thread(t.Context(), lost.row, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if p.Own != 3 || p.Steps[p.Own-1].Role != "read-db" {
		t.Errorf("the path's own steps begin at %d", p.Own)
	}
	about, err := r.book().About(t.Context(), root.row)
	if err != nil {
		t.Fatal(err)
	}
	v.Steps = []view.Step{}
	if diff := cmp.Diff(spelled(t, v), spelled(t, about)); diff != "" { // nothing was used up
		t.Errorf("-thread +about\n%s", diff)
	}
}

func TestLists(t *testing.T) {
	r, root := newRecord(t)
	r.path(root, "api")
	r.mark(root, store.Running)
	b := r.book()
	for name, tt := range map[string]struct {
		f    view.ThreadFilter
		want []store.Status
	}{
		"roots":       {view.ThreadFilter{}, []store.Status{view.Interrupted}},
		"parts":       {view.ThreadFilter{Parts: true}, []store.Status{store.Pending, view.Interrupted}},
		"interrupted": {view.ThreadFilter{Parts: true, Status: string(view.Interrupted)}, []store.Status{view.Interrupted}},
		"pending":     {view.ThreadFilter{Status: string(store.Pending)}, nil},
	} {
		rows, _, err := b.Threads(t.Context(), tt.f)
		if err != nil {
			t.Fatal(err)
		}
		var got []store.Status
		for _, row := range rows {
			got = append(got, row.Status)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
	lease, err := r.store.Share().Acquire(t.Context(), root.row.ID)
	if err != nil {
		t.Fatal(err)
	}
	rows, _, err := b.Threads(t.Context(), view.ThreadFilter{})
	if err != nil || len(rows) != 1 || rows[0].Status != store.Running || !b.Driven(t.Context(), root.row.ID) {
		t.Errorf("of one that is driven: %+v, %v", rows, err)
	}
	lease.Release()
	if tasks, err := b.Tasks(t.Context(), view.TaskFilter{Title: "no such"}); err != nil || len(tasks) != 0 {
		t.Errorf("by a title that none has: %v, %v", tasks, err)
	}
	if tasks, err := b.Tasks(t.Context(), view.TaskFilter{Title: "FIX"}); err != nil || len(tasks) != 1 {
		t.Errorf("by a title: %v, %v", tasks, err)
	}
	if tasks, err := b.Tasks(t.Context(), view.TaskFilter{State: view.Working}); err != nil || len(tasks) != 1 ||
		tasks[0].Status != view.Interrupted {
		t.Errorf("tasks: %+v, %v", tasks, err)
	}
	was := root.row.State()
	root.row.Intent = store.IntentDismiss
	r.commit(store.Batch{Threads: []store.ThreadChange{{Row: root.row, From: was}}})
	if tasks, err := b.Tasks(t.Context(), view.TaskFilter{Told: true}); err != nil || len(tasks) != 0 {
		t.Errorf("one that was dismissed is told: %+v, %v", tasks, err)
	}
	b.Workspace = "/elsewhere"
	for _, all := range []bool{false, true} {
		rows, _, err := b.Threads(t.Context(), view.ThreadFilter{All: all})
		if err != nil || (len(rows) == 1) != all {
			t.Errorf("all %t: %+v, %v", all, rows, err)
		}
	}
}

func TestSummarized(t *testing.T) {
	r, root := newRecord(t)
	for _, d := range []thread.Draft{{Role: "one", Text: "1"}, {Role: "one", Text: "2"},
		{Role: thread.RoleCompact, Text: "in short", Compact: true}, {Role: "one", Text: "3"},
		{Role: thread.RoleCompact, Text: "shorter", Compact: true}, {Role: "one", Text: "4"}} {
		r.step(root, d)
	}
	for _, x := range []struct{ before, n, want, next int }{{0, 0, 4, 0}, {0, 2, 0, 5}, {3, 0, 0, 0}} {
		v, err := r.book().Thread(t.Context(), root.row, x.before, x.n)
		if err != nil {
			t.Fatal(err)
		}
		if v.Summarized != x.want || v.Next != x.next {
			t.Errorf("%+v: %d are summarized, the page before ends at %d", x, v.Summarized, v.Next)
		}
	}
}
