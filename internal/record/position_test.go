package record_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// roles lists the roles of steps, oldest first.
func roles(steps []flow.Step) []string {
	out := []string{}
	for _, s := range steps {
		out = append(out, s.Role)
	}
	return out
}

// TestPosition follows chains step by step. Last determines the next step, Before led to the
// last role.
func TestPosition(t *testing.T) {
	type want struct {
		Last, Before []string
		Visits       map[string]int
		Main         string
		Talk         int
	}
	for _, tt := range []struct {
		name  string
		write func(c *chain, row store.Thread) store.Thread
		want  want
	}{
		{"a start", func(_ *chain, row store.Thread) store.Thread { return row },
			want{Last: []string{}, Before: []string{}, Visits: map[string]int{}}},
		{"inputs before the first step",
			func(c *chain, row store.Thread) store.Thread { return c.input(c.input(row, "12"), "345") },
			want{Last: []string{"__input__", "__input__"}, Before: []string{}, Visits: map[string]int{}, Talk: 5}},
		{"a step", func(c *chain, row store.Thread) store.Thread {
			return c.step(c.input(row, "12"), "writer", "ready", "345")
		}, want{Last: []string{"writer"}, Before: []string{"__input__"}, Visits: map[string]int{"writer": 1},
			Main: "writer", Talk: 5}},
		{"a role that ran twice, and an input", func(c *chain, row store.Thread) store.Thread {
			row = c.step(row, "writer", "ready", "")
			row = c.step(row, "critic", "bad", "pinned: no part of the talk")
			return c.input(c.step(row, "writer", "ready", "1"), "23")
		}, want{Last: []string{"writer", "__input__"}, Before: []string{"critic"},
			Visits: map[string]int{"writer": 2, "critic": 1}, Main: "writer", Talk: 3}},
		{"a gate passes on what it was reached with", func(c *chain, row store.Thread) store.Thread {
			row = c.step(row, "writer", "asks", "")
			return c.append(row, thread.Draft{Role: "check", Meta: []byte(`{"$status":"answered","answer":"yes"}`), Text: "yes"})
		}, want{Last: []string{"writer", "check"}, Before: []string{}, Visits: map[string]int{"writer": 1},
			Main: "writer", Talk: 3}},
		{"a compaction restarts the talk and leads nowhere", func(c *chain, row store.Thread) store.Thread {
			row = c.step(row, "writer", "ready", "a long text")
			return c.append(row, thread.Draft{Role: thread.RoleCompact, Meta: []byte(`{}`), Text: "1234", Compact: true})
		}, want{Last: []string{"writer"}, Before: []string{}, Visits: map[string]int{"writer": 1}, Main: "writer", Talk: 4}},
		{"a plan is not done by a main role", func(c *chain, row store.Thread) store.Thread {
			row = c.step(row, "writer", "plans", "")
			return c.append(row, thread.Draft{Role: "boss", Meta: []byte(planOfTwo)})
		}, want{Last: []string{"boss"}, Before: []string{"writer"}, Visits: map[string]int{"writer": 1, "boss": 1},
			Main: "writer"}},
		{"a suspended role keeps what led to it", func(c *chain, row store.Thread) store.Thread {
			row = c.step(row, "writer", "ready", "")
			row = c.step(row, "critic", flow.Suspend, "")
			return c.step(row, "critic", "good", "")
		}, want{Last: []string{"critic"}, Before: []string{"writer"}, Visits: map[string]int{"writer": 1, "critic": 2},
			Main: "critic"}},
		{"a join of paths is no visit", func(c *chain, row store.Thread) store.Thread {
			row = c.step(row, "writer", "forks", "")
			return c.split(row)
		}, want{Last: []string{"gathered"}, Before: []string{"left"}, Visits: map[string]int{"writer": 1, "left": 1},
			Main: "left", Talk: len("left text") + len("## a\n\n(main path: see the step before)\n\n## b\n\nright text\n")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newChain(t)
			p := c.position(tt.write(c, c.begin("T")))
			got := want{roles(p.Last), roles(p.Before), p.Visits, p.Main, p.Talk}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("position (-want +got):\n%s", diff)
			}
		})
	}
}

// split forks row at its head, lets both paths take a step and joins them.
func (c *chain) split(row store.Thread) store.Thread {
	c.Helper()
	a := c.step(c.path(row, "split", "gathered", "a", 1), "left", "done", "left text")
	b := c.step(c.path(row, "split", "gathered", "b", 1), "right", "done", "right text")
	return c.join(row, "gathered", c.end(a, store.Completed), c.end(b, store.Completed))
}

func TestAPositionHasTheStartsPromptDepthAndCaller(t *testing.T) {
	c := newChain(t)
	root := c.step(c.begin("T"), "writer", "ready", "the draft")
	p := c.position(root)
	if p.Prompt != "write a page" || p.Depth != 0 || !p.Caller.IsZero() || p.Parent != "" {
		t.Errorf("the root: prompt %q, depth %d, caller %s, %q", p.Prompt, p.Depth, p.Caller, p.Parent)
	}
	p = c.position(c.call(root))
	if p.Prompt != "help" || p.Depth != 1 || p.Caller != root.Head || p.Parent == "" {
		t.Errorf("the child: prompt %q, depth %d, caller %s, %q", p.Prompt, p.Depth, p.Caller, p.Parent)
	}
	p = c.position(c.spawn(c.planned("P"), "x", 1))
	if p.Depth != 1 || p.Parent != "" {
		t.Errorf("an action is told of its caller: depth %d, %q", p.Depth, p.Parent)
	}
}

// The ids of threads that are made from a head contain the stamp, so it must not depend on the
// caller.
func TestStampIsWhenTheHeadWasMade(t *testing.T) {
	c := newChain(t)
	root := c.begin("T")
	if got := c.position(root).Stamp; got != root.CreatedAt {
		t.Errorf("of a start %d, want %d", got, root.CreatedAt)
	}
	path := c.path(root, "split", "gathered", "a", 1)
	inner := c.path(path, "split", "gathered", "b", 1)
	for _, row := range []store.Thread{path, inner} {
		if got := c.position(row).Stamp; got != root.CreatedAt || got == row.CreatedAt {
			t.Errorf("of a path without a step %d, want that of its thread, %d", got, root.CreatedAt)
		}
	}
	stepped := c.step(root, "writer", "ready", "x")
	if got := c.position(stepped).Stamp; got != c.clock {
		t.Errorf("of a step %d, want %d", got, c.clock)
	}
}

// TestWhereAfterASuspension checks that a suspended role stays in its directory when it continues.
func TestWhereAfterASuspension(t *testing.T) {
	c := newChain(t)
	first := c.begin("T")
	ready := c.step(first, "writer", "ready", "x")
	for _, tt := range []struct {
		name string
		row  store.Thread
		want string
	}{
		{"a role that was not suspended", ready, "given"},
		{"the first role, suspended", c.input(c.step(c.begin("A"), "writer", flow.Suspend, "?"), "go on"), "docs"},
		{"a later role, suspended", c.input(c.step(ready, "critic", flow.Suspend, "?"), "go on"), "review"},
		{"a role that was suspended twice", c.input(c.step(c.input(
			c.step(c.begin("B"), "writer", flow.Suspend, "?"), "go on"), "writer", flow.Suspend, "?"), "on"), "docs"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := c.position(tt.row).Where("given"); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestNextGoesByThePathOfTheRow(t *testing.T) {
	c := newChain(t)
	row := c.step(c.begin("T"), "writer", "forks", "x")
	if d, ok := c.position(row).Next().(flow.Fork); !ok || d.Node != "split" {
		t.Errorf("after the writer: %+v", d)
	}
	path := c.path(row, "split", "gathered", "b", 1)
	if d, ok := c.position(path).Next().(flow.Run); !ok || d.Role != "right" {
		t.Errorf("at the beginning of path b: %+v", d)
	}
	if at := c.position(c.spawn(c.planned("P"), "x", 1)).At(); at.Path != "" {
		t.Errorf("a spawned action is in path %q of its own flow", at.Path)
	}
	path = c.step(path, "right", "done", "y")
	if d, ok := c.position(path).Next().(flow.AtJoin); !ok || d.Join != "gathered" {
		t.Errorf("at the end of path b: %+v", d)
	}
	if d, ok := c.position(c.split(c.step(c.begin("S"), "writer", "forks", "x"))).Next().(flow.Run); !ok ||
		d.Role != "critic" || d.Prompt != "right text" {
		t.Errorf("after the join: %+v", d)
	}
}

// The decision is computed once, although a planner whose many actions end one by one asks for it each time.
// A new step changes it, and a path that begins there has a different one.
func TestNextIsDecidedOnce(t *testing.T) {
	c := newChain(t)
	row := c.planned("T")
	p := c.position(row)
	first, again := p.Next().(flow.Fork), p.Next().(flow.Fork)
	if first.Plan == nil || first.Plan != again.Plan {
		t.Error("a plan is read anew each time")
	}
	path := p.Clone()
	path.Row = c.path(row, "boss", thread.RoleJoin, "y", 1)
	if path.At().Path != "y" {
		t.Fatalf("at %+v", path.At())
	}
	if d, ok := path.Next().(flow.Fork); ok && d.Plan == first.Plan {
		t.Error("a path goes by what its parent has decided")
	}
	next := c.input(row, "no")
	s, err := c.nodes.State(t.Context(), next.Head)
	c.must(err)
	c.must(c.record.Advance(t.Context(), p, thread.Step{Hash: next.Head, State: s}))
	if d, ok := p.Next().(flow.Run); !ok || d.Role != "boss" {
		t.Errorf("after a person said something: %+v", p.Next())
	}
}

// TestAfterAPlansJoin checks that routing sees the plan again, and the results of its actions.
func TestAfterAPlansJoin(t *testing.T) {
	c := newChain(t)
	root := c.planned("T")
	x := c.by(c.spawn(root, "x", 1), "x", "x-2", `{"$status":"success","summary":"see evidence:cmd-1"}`, "all of x")
	y := c.by(c.path(root, "boss", thread.RoleJoin, "y", 1), "y", "y", `{"$status":"success","summary":"Y is done."}`, "z")
	row := c.join(root, thread.RoleJoin, c.end(y, store.Completed), c.end(x, store.Completed))
	p := c.position(row)
	if diff := cmp.Diff([]string{"boss", thread.RoleJoin}, roles(p.Last)); diff != "" || len(p.Before) > 0 {
		t.Errorf("before %v; last (-want +got):\n%s", roles(p.Before), diff)
	}
	want := map[string]string{"x": "see evidence:x-2.cmd-1", "y": "Y is done."}
	got := map[string]string{}
	for id, r := range p.Last[1].Paths {
		got[id] = r.Text
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("texts of the actions (-want +got):\n%s", diff)
	}
	s, err := c.nodes.State(t.Context(), row.Head)
	c.must(err)
	if p.Gathered != s.Detail || p.Gathered.IsZero() {
		t.Errorf("gathered %s, want %s", p.Gathered, s.Detail)
	}
}

func TestACloneFollowsStepsOfItsOwn(t *testing.T) {
	c := newChain(t)
	row := c.input(c.step(c.begin("T"), "writer", "ready", "x"), "y")
	p := c.position(row)
	clone := p.Clone()
	next := c.step(row, "critic", "bad", "no")
	s, err := c.nodes.State(t.Context(), next.Head)
	c.must(err)
	c.must(c.record.Advance(t.Context(), &clone, thread.Step{Hash: next.Head, State: s}))
	if p.Visits["critic"] != 0 || p.Main != "writer" || len(p.Last) != 2 {
		t.Errorf("the original moved: %v, %q, %v", p.Visits, p.Main, roles(p.Last))
	}
	if clone.Visits["critic"] != 1 || clone.Main != "critic" {
		t.Errorf("the clone did not: %v, %q", clone.Visits, clone.Main)
	}
}

// A call that ended in a join of before schema 9 repeats its pointer, whose step is not the caller's.
func TestRoutesSeeTheWordsOfOlderJoins(t *testing.T) {
	c := newChain(t)
	c.pointing = true
	fork := c.step(c.begin("C"), "writer", "forks", "x")
	left := c.step(c.path(fork, "split", "gathered", "a", 1), "left", "done", "left words")
	right := c.step(c.path(fork, "split", "gathered", "b", 1), "right", "done", "right words")
	child := c.join(fork, "gathered", left, right)
	s, err := c.nodes.State(t.Context(), child.Head)
	c.must(err)
	text, err := c.nodes.Text(t.Context(), s.Content)
	c.must(err)
	calls := func(row store.Thread) store.Thread {
		return c.append(row, thread.Draft{Role: "writer", Meta: json.RawMessage(`{"$status":"done"}`), Text: text,
			ChildThread: child.Head})
	}
	called := calls(c.begin("T"))
	outer := c.step(c.begin("U"), "writer", "forks", "x")
	joined := c.join(outer, "gathered", c.step(c.path(outer, "split", "gathered", "a", 1), "left", "done", "main"),
		calls(c.path(outer, "split", "gathered", "b", 1)))
	for _, asRecorded := range []bool{false, true} {
		c.record.AsRecorded = asRecorded
		last := c.position(joined).Last[0]
		for name, got := range map[string]string{"call": c.position(called).Last[0].Body, "join": last.Body,
			"path": last.Paths["b"].Text} {
			if strings.Contains(got, "left words") == asRecorded {
				t.Errorf("as recorded %t: the %s says %q", asRecorded, name, got)
			}
		}
	}
}

func TestPathEnd(t *testing.T) {
	c := newChain(t)
	fork := c.step(c.begin("T"), "writer", "forks", "x")
	empty := c.path(fork, "split", "gathered", "a", 1)
	said := c.step(c.path(fork, "split", "gathered", "b", 1), "right", "again", "half of b")
	said = c.input(c.step(said, "right", "done", "all of b"), "thanks")
	plan := c.planned("P")
	action := c.by(c.spawn(plan, "x", 1), "x", "", `{"$status":"success","summary":"X, evidence:cmd-1"}`, "all of x")
	for _, tt := range []struct {
		name  string
		row   store.Thread
		meta  string
		text  string
		steps []string
	}{
		{"a path without a step", empty, "", "", nil},
		{"the last routed step counts", said, `{"$status":"done"}`, "all of b", []string{"right", "right", "__input__"}},
		{"of an action, what its agent handed back", action, `{"$status":"success","summary":"X, evidence:cmd-1"}`,
			"X, evidence:x.cmd-1", []string{"x"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			end, own, err := c.record.PathEnd(t.Context(), tt.row)
			if err != nil {
				t.Fatal(err)
			}
			if string(end.Meta) != tt.meta || end.Text != tt.text || end.Row.ID != tt.row.ID {
				t.Errorf("got %s, %q of %s", end.Meta, end.Text, end.Row.ID)
			}
			var got []string
			for _, s := range own {
				got = append(got, s.State.Role)
			}
			if diff := cmp.Diff(tt.steps, got); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
		})
	}
	empty.Head = dag.Sum([]byte("nothing"))
	if _, _, err := c.record.PathEnd(t.Context(), empty); err == nil {
		t.Error("a head that is not there ends a path")
	}
}
