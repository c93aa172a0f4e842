package view_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
	"github.com/plait-run/plait/internal/view"
)

// sound holds what every drawing owes: each mark stands on its lane, lanes that are there
// at the same time have places of their own, and each step of the window has its row.
func sound(l *view.Lanes, from, n int) error {
	rows := len(l.Rows)
	next := min(max(from, 1), l.Steps+1)
	last := l.Steps
	if n > 0 {
		last = min(last, next+n-1)
	}
	for i, r := range l.Rows {
		if r.Lane < 0 || r.Lane >= l.Width {
			return fmt.Errorf("row %d stands in lane %d of %d", i, r.Lane, l.Width)
		}
		if r.Lane == 0 && r.N > 0 {
			if r.N != next {
				return fmt.Errorf("row %d is step %d, want %d", i, r.N, next)
			}
			next++
		}
		on := 0
		for _, lane := range l.Lanes {
			if lane.Lane == r.Lane && lane.From <= i && i <= lane.To && (lane.Lane == 0 || lane.From < i && (!lane.Meets || i < lane.To)) {
				on++
			}
		}
		if on != 1 {
			return fmt.Errorf("row %d (%s %s) stands on %d lanes", i, r.Kind, r.Name, on)
		}
	}
	if next != last+1 {
		return fmt.Errorf("steps up to %d are drawn, want %d", next-1, last)
	}
	for i, a := range l.Lanes {
		if a.Lane < 0 || a.Lane >= l.Width || a.From < -1 || a.To > rows || a.From > a.To || l.Width > view.MaxLanes {
			return fmt.Errorf("lane %d is %+v of %d lanes and %d rows", i, a, l.Width, rows)
		}
		if i > 0 && a.Of >= a.Lane {
			return fmt.Errorf("lane %d parts to the left: %+v", i, a)
		}
		for _, b := range l.Lanes[:i] {
			if a.Lane == b.Lane && a.From < b.To && b.From < a.To {
				return fmt.Errorf("two lanes lie on each other: %+v and %+v", a, b)
			}
		}
	}
	return nil
}

// drawn is a drawing as people read it: each row behind as many dots as its lane.
func drawn(l *view.Lanes) []string {
	var out []string
	for _, r := range l.Rows {
		text := strings.Repeat(". ", r.Lane) + r.Kind
		if r.N > 0 {
			text += fmt.Sprintf(" %d", r.N)
		}
		for _, part := range []string{r.Role, r.Name} {
			if part != "" {
				text += " " + part
			}
		}
		if r.Main {
			text += " main"
		}
		if r.Kind != view.RowStep && r.Count > 0 {
			text += fmt.Sprintf(" x%d", r.Count)
		}
		if r.Back > 0 {
			text += fmt.Sprintf(" back to %d", r.Back)
		}
		out = append(out, text)
	}
	return out
}

func (r *record) lanes(l *line, from, n int) *view.Lanes {
	r.t.Helper()
	v, err := r.book().Lanes(r.t.Context(), l.row, from, n)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := sound(v, from, n); err != nil {
		r.t.Fatalf("%v\n%s\n%+v", err, strings.Join(drawn(v), "\n"), v.Lanes)
	}
	return v
}

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

// fork forks a thread by hand, at its head.
func (r *record) fork(l *line, id string) *line {
	r.t.Helper()
	row := l.row
	row.ID, row.Task, row.Root, row.Kind, row.Status, row.Parent, row.Path = id, id, id, store.KindRoot, store.Pending, nil, nil
	row.ForkedFrom, row.CreatedAt, row.EndedAt = &store.ForkedFrom{Thread: l.row.ID, Step: l.row.Head}, r.clock, 0
	return r.begin(nil, row, nil)
}

func TestLanes(t *testing.T) {
	r, root := newRecord(t)
	r.step(root, thread.Draft{Role: "plan"})
	child := r.call(root, "develop")
	r.step(child, thread.Draft{Role: "code"})
	r.step(root, thread.Draft{Role: "develop", ChildThread: r.end(child)})
	r.fork(root, "01KB0000000000000000000000")
	a, b := r.path(root, "api"), r.path(root, "db")
	r.step(a, thread.Draft{Role: "read"})
	in, out := r.path(b, "in"), r.path(b, "out")
	r.step(in, thread.Draft{Role: "look"})
	r.step(out, thread.Draft{Role: "look"})
	r.join(b, in, in, out)
	r.step(b, thread.Draft{Role: "sum"})
	r.join(root, a, a, b)
	r.step(root, thread.Draft{Role: "plan"})
	open := r.path(root, "late")
	r.step(open, thread.Draft{Role: "read"})
	want := []string{
		"start", "step 1 plan", ". child develop-flow x2", "call 2 develop", ". branch 01KB0000000000000000000000 x2",
		"path api main x1", "step 3 read",
		". . path db x3", ". . step 3 look", ". . . path out x1", ". . . step 3 look", ". . join 4 gathered", ". . step 5 sum",
		"join 4 gathered", "step 5 plan back to 1", ". path late x1", ". step 6 read",
	}
	if diff := cmp.Diff(want, drawn(r.lanes(root, 1, 0))); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	// A window below the fork and above the join: both lie outside.
	l := r.lanes(root, 3, 1)
	if len(l.Lanes) != 2 || l.Lanes[1].Name != "db" || l.Lanes[1].To != len(l.Rows) || l.Lanes[0].From != -1 || l.Lanes[0].To != len(l.Rows) {
		t.Errorf("in the middle of a fork: %+v", l.Lanes)
	}
	if l := r.lanes(root, 99, 5); len(l.Rows) != 0 && l.Rows[0].N != 0 {
		t.Errorf("after the end: %v", drawn(l))
	}
	data, err := json.Marshal(r.lanes(root, 1, 0))
	var again view.Lanes
	if err == nil {
		err = json.Unmarshal(data, &again)
	}
	if err != nil || cmp.Diff(drawn(r.lanes(root, 1, 0)), drawn(&again)) != "" {
		t.Errorf("as JSON: %v", err)
	}
}

func TestLanesOfManyPaths(t *testing.T) {
	for _, many := range []int{20, 60} {
		r, root := newRecord(t)
		r.step(root, thread.Draft{Role: "plan"})
		var paths []*line
		for i := range many {
			paths = append(paths, r.path(root, fmt.Sprintf("p%02d", i)))
		}
		for _, p := range paths {
			r.step(p, thread.Draft{Role: "read"})
		}
		running := r.lanes(root, 1, 0)
		r.join(root, paths[0], paths...)
		l := r.lanes(root, 1, 0)
		for _, v := range []*view.Lanes{running, l} {
			seen, rest := 0, 0
			for _, row := range v.Rows {
				switch row.Kind {
				case view.RowPath:
					seen++
				case view.RowRest:
					rest += row.Count
				}
			}
			if seen+rest != many || many == 20 && rest != 0 || many == 60 && rest == 0 {
				t.Errorf("of %d paths %d are drawn and %d counted", many, seen, rest)
			}
		}
		if many == 20 && l.Width != 20 {
			t.Errorf("20 paths take %d lanes", l.Width)
		}
	}
}

func TestLanesOfCallsInALoop(t *testing.T) {
	r, root := newRecord(t)
	for range 5 {
		child := r.call(root, "develop")
		r.step(child, thread.Draft{Role: "code"})
		r.step(root, thread.Draft{Role: "develop", ChildThread: r.end(child)})
		r.step(root, thread.Draft{Role: "check"})
	}
	sum := r.step(root, thread.Draft{Role: thread.RoleCompact, Text: "in short", Meta: json.RawMessage(`{"bytes":9,"steps":10}`), Compact: true})
	l := r.lanes(root, 1, 0)
	if l.Width != 2 || len(l.Lanes) != 6 {
		t.Errorf("%d lanes, %d wide", len(l.Lanes), l.Width)
	}
	last := l.Rows[len(l.Rows)-1]
	if last.Kind != view.RowCompact || last.Count != 10 || len(last.Covers) != 10 || last.Hash != sum {
		t.Errorf("the summary: %+v", last)
	}
	var back []string
	for _, row := range l.Rows {
		if row.Back > 0 {
			back = append(back, fmt.Sprintf("%d to %d", row.N, row.Back))
		}
	}
	if diff := cmp.Diff([]string{"3 to 1", "5 to 3", "7 to 5", "9 to 7"}, back); diff != "" {
		t.Errorf("the loop: -want +got\n%s", diff)
	}
	if w := r.lanes(root, 3, 2); w.Rows[len(w.Rows)-1].Back != 0 {
		t.Errorf("it leads back out of the window: %v", drawn(w))
	}
}

// counting counts what is read of a store.
type counting struct {
	store.Store
	n int
}

func (c *counting) Get(ctx context.Context, h dag.Hash) (store.Object, error) {
	c.n++
	return c.Store.Get(ctx, h)
}

// TestLanesAreAWindow holds that the newest steps of a long thread cost no more than
// those of a short one.
func TestLanesAreAWindow(t *testing.T) {
	r, root := newRecord(t)
	for i := range 10_000 {
		r.step(root, thread.Draft{Role: fmt.Sprint("r", i%7)})
	}
	b := r.book()
	c := &counting{Store: r.store}
	b.Store, b.Nodes = c, thread.NewReader(c)
	l, err := b.Lanes(t.Context(), root.row, 9_901, 100)
	if err == nil {
		err = sound(l, 9_901, 100)
	}
	if err != nil {
		t.Fatal(err)
	}
	// The length is measured in strides of eleven steps, the rest is the window.
	if most := 10_000/thread.Window + 5*100; len(l.Rows) != 100 || c.n > most {
		t.Errorf("%d rows took %d reads, more than %d", len(l.Rows), c.n, most)
	}
}

// TestLanesProperty draws windows of threads that anything may have happened to.
func TestLanesProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r, root := newRecord(t)
		forks := 0
		var grow func(l *line, depth, most int)
		grow = func(l *line, depth, most int) {
			for range rapid.IntRange(0, most).Draw(rt, "steps") {
				switch rapid.IntRange(0, 9).Draw(rt, "what") {
				case 0, 1:
					if depth > 3 {
						continue
					}
					var paths []*line
					for i := range rapid.IntRange(2, 5).Draw(rt, "paths") {
						paths = append(paths, r.path(l, fmt.Sprintf("p%d", i)))
					}
					for _, p := range paths {
						grow(p, depth+1, 4)
					}
					if rapid.IntRange(0, 5).Draw(rt, "left") == 0 {
						return // they run
					}
					main := paths[rapid.IntRange(0, len(paths)-1).Draw(rt, "main")]
					if rapid.Bool().Draw(rt, "none") {
						main = l
					}
					r.join(l, main, paths...)
				case 2, 3:
					child := r.call(l, "develop")
					grow(child, depth+2, 2)
					if rapid.IntRange(0, 5).Draw(rt, "left") == 0 {
						return
					}
					r.step(l, thread.Draft{Role: "develop", ChildThread: r.end(child)})
				case 4:
					if forks++; depth == 0 {
						r.fork(l, fmt.Sprintf("01KB00000000000000000%05d", forks))
					}
				case 5:
					r.step(l, thread.Draft{Role: thread.RoleCompact, Text: "in short", Meta: json.RawMessage(`{"bytes":1,"steps":1}`), Compact: true})
				default:
					r.step(l, thread.Draft{Role: rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "role")})
				}
			}
		}
		grow(root, 0, 14)
		for range 4 {
			from, n := rapid.IntRange(1, root.row.Steps+2).Draw(rt, "from"), rapid.IntRange(0, 12).Draw(rt, "n")
			l, err := r.book().Lanes(t.Context(), root.row, from, n)
			if err == nil {
				err = sound(l, from, n)
			}
			if err != nil {
				rt.Fatalf("from %d, %d: %v\n%s\n%+v", from, n, err, strings.Join(drawn(l), "\n"), l.Lanes)
			}
		}
	})
}

func TestBranches(t *testing.T) {
	r, root := newRecord(t)
	r.step(root, thread.Draft{Role: "plan"})
	a := r.path(root, "api")
	r.step(a, thread.Draft{Role: "read"})
	child := r.call(a, "develop")
	b := r.path(root, "db")
	r.mark(root, store.Running)
	list, err := r.book().Branches(t.Context(), root.row)
	if err != nil {
		t.Fatal(err)
	}
	type place struct {
		Level, At int
		Status    store.Status
	}
	got := map[string]place{}
	for i, l := range list {
		got[l.ID] = place{l.Level, l.At, l.Status}
		if l.ID == child.row.ID && list[i-1].ID != a.row.ID {
			t.Errorf("what a path called stands behind %s", list[i-1].ID)
		}
	}
	want := map[string]place{root.row.ID: {0, 0, "interrupted"}, a.row.ID: {1, 1, store.Pending}, b.row.ID: {1, 1, store.Pending}, child.row.ID: {2, 2, store.Pending}}
	if diff := cmp.Diff(want, got); diff != "" || list[0].ID != root.row.ID {
		t.Errorf("-want +got\n%s", diff)
	}
}
