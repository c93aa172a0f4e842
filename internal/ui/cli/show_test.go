package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/store/sqlite"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/view"
)

// A made record is put together without an engine: what a flow with calls and forks leaves.
type made struct {
	t     *testing.T
	home  string
	store store.Store
	clock int64
}

// A madeThread is one of its threads.
type madeThread struct {
	row store.Thread
	tip thread.Tip
}

func newMade(t *testing.T) (*made, *madeThread) {
	m := &made{t: t, home: filepath.Join(t.TempDir(), "home"), clock: 1_800_000_000_000}
	t.Chdir(t.TempDir())
	if err := os.Mkdir(".git", 0o755); err != nil {
		t.Fatal(err)
	}
	workspace, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if m.store, err = sqlite.Open(t.Context(), sqlite.Config{Dir: m.home}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.store.Close() })
	objects, row, err := thread.Begin(thread.NewTask{
		Row:    store.Thread{ID: "01KA0000000000000000000000", CreatedAt: m.clock, Workspace: workspace, Tree: workspace},
		Prompt: "fix it", Bundle: thread.Bundle{Name: "solve",
			Flows: map[string]json.RawMessage{"solve": json.RawMessage(`{}`)}},
	})
	return m, m.begin(objects, row, err)
}

func (m *made) begin(objects []store.Object, row store.Thread, err error) *madeThread {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
	m.commit(objects, row, nil)
	tip, err := thread.NewReader(m.store).Tip(m.t.Context(), row.Head)
	if err != nil {
		m.t.Fatal(err)
	}
	return &madeThread{row, tip}
}

func (m *made) commit(objects []store.Object, row store.Thread, from *store.ThreadState) {
	m.t.Helper()
	err := m.store.Commit(m.t.Context(), store.Batch{Objects: objects, Threads: []store.ThreadChange{{Row: row,
		From: from}}})
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *made) moved(g *madeThread, ch thread.Change, err error) dag.Hash {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
	m.commit(ch.Objects, ch.Row, g.row.State())
	g.row, g.tip = ch.Row, ch.Tip
	return ch.Row.Head
}

func (m *made) step(g *madeThread, d thread.Draft) dag.Hash {
	m.t.Helper()
	m.clock++
	d.At = m.clock
	if d.Meta == nil {
		d.Meta = json.RawMessage(`{"$status":"done"}`)
	}
	ch, err := thread.Append(g.row, g.tip, d)
	return m.moved(g, ch, err)
}

func (m *made) end(g *madeThread, code int) dag.Hash {
	m.t.Helper()
	m.clock++
	ch, err := thread.End(g.row, g.tip, code, "over", m.clock)
	return m.moved(g, ch, err)
}

func (m *made) mark(g *madeThread, status store.Status, reason *store.Reason) {
	m.t.Helper()
	row := g.row
	if row.Status, row.Reason = status, reason; row.Ended() {
		row.EndedAt = m.clock
	}
	m.commit(nil, row, g.row.State())
	g.row = row
}

func (m *made) call(g *madeThread, role string, depth int) *madeThread {
	m.t.Helper()
	m.clock++
	objects, row, err := thread.Call(thread.Child{Parent: g.row, Since: m.clock, Role: role, Flow: role + "-flow",
		Depth: depth, Prompt: "do it", Now: m.clock})
	return m.begin(objects, row, err)
}

func (m *made) path(g *madeThread, id string) *madeThread {
	m.t.Helper()
	row := thread.Path(g.row, m.clock, store.Path{Key: "k/" + id, ID: id, Join: "gathered"}, m.clock)
	return m.begin(nil, row, nil)
}

// plait runs a verb on the record and returns its output.
func (m *made) plait(args ...string) string {
	m.t.Helper()
	var out, errs bytes.Buffer
	a := &app{program: plait, in: strings.NewReader(""), out: &out, err: &errs,
		getenv: func(string) string { return "" }, flags: flags{home: m.home}}
	defer a.close()
	root := a.root()
	root.SetArgs(append(args, "--home", m.home))
	if err := root.ExecuteContext(m.t.Context()); err != nil {
		m.t.Fatalf("plait %s: %v", strings.Join(args, " "), err)
	}
	if !a.json && !inert(out.String()) {
		m.t.Errorf("plait %s would act on a terminal: %q", strings.Join(args, " "), out.String())
	}
	return out.String()
}

// data runs a verb with --json into v.
func (m *made) data(v any, args ...string) {
	m.t.Helper()
	text := m.plait(append(args, "--json")...)
	if err := json.Unmarshal([]byte(text), &struct{ Data any }{v}); err != nil {
		m.t.Fatalf("plait %s: %v in %s", strings.Join(args, " "), err, text)
	}
}

// contains checks that text contains each of want, in that order.
func contains(t *testing.T, text string, want ...string) {
	t.Helper()
	rest := text
	for _, w := range want {
		_, after, ok := strings.Cut(rest, w)
		if !ok {
			t.Errorf("no %q, or not in its place, in\n%s", w, text)
			return
		}
		rest = after
	}
}

// solved is a task with a call, a fork of two inside which one called, and a join.
func solved(t *testing.T) (m *made, root, child, won, lost *madeThread, join dag.Hash) {
	m, root = newMade(t)
	m.step(root, thread.Draft{Role: "preparer", Text: "ready \x1b[31m"})
	child = m.call(root, "developer", 1)
	m.step(child, thread.Draft{Role: "planner", Text: "a plan"})
	m.step(root, thread.Draft{Role: "developer", Text: "built", ChildThread: m.end(child, 0)})
	won, lost = m.path(root, "api"), m.path(root, "db")
	m.step(won, thread.Draft{Role: "read-api", Text: "an API"})
	m.step(won, thread.Draft{Role: "sum-up", Text: "in short"})
	m.mark(won, store.Completed, nil)
	m.step(lost, thread.Draft{Role: "read-db", Text: "no\u202e database"})
	m.mark(lost, store.Failed, &store.Reason{Kind: "failed", Message: "the table \x07is locked"})
	m.clock++
	ch, err := thread.Join(root.row, won.tip, won.row.Steps, thread.JoinDraft{
		Node: "gathered", Outcome: "joined", DecidedBy: "api", At: m.clock,
		Paths: []thread.PathEnd{{Row: won.row, Text: "an API"}, {Row: lost.row, Text: "none"}},
	})
	join = m.moved(root, ch, err)
	m.end(root, 0)
	return m, root, child, won, lost, join
}

func TestShowStackAndTree(t *testing.T) {
	m, root, child, won, lost, join := solved(t)
	var up struct{ Stack []view.Frame }
	m.data(&up, "thread", "show", child.row.ID, "--stack")
	got := []string{}
	for _, f := range up.Stack {
		got = append(got, fmt.Sprint(f.Type, " ", f.Role, " ", f.Flow, " ", f.Depth, " ", f.Thread))
	}
	want := []string{
		"state __end__ developer-flow 1 " + child.row.ID, "start  developer-flow 1 " + child.row.ID,
		"state preparer solve 0 " + root.row.ID, "start  solve 0 " + root.row.ID,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the stack is %q, want %q", got, want)
	}
	// By a step's hash, and of a path: it is on the chain that it is a path of.
	m.data(&up, "thread", "show", child.row.Head.String(), "--stack")
	if len(up.Stack) != 4 || up.Stack[2].Thread != root.row.ID {
		t.Errorf("the stack of a step: %+v", up.Stack)
	}
	m.data(&up, "thread", "show", lost.row.ID, "--stack")
	if len(up.Stack) != 2 || up.Stack[0].Role != "read-db" || up.Stack[0].Thread != lost.row.ID ||
		up.Stack[1].Thread != root.row.ID {
		t.Errorf("the stack of a path: %+v", up.Stack)
	}

	contains(t, m.plait("thread", "show", root.row.ID, "--tree"),
		"solve  done  "+root.row.ID,
		"\n├─ 1  preparer  done", "\n├─ 2  developer  done",
		"\n│  └─ developer-flow  done  "+child.row.ID,
		"\n│     ├─ 1  planner  done", "\n│     └─ 2  __end__  code 0",
		"\n├─ 3  read-api [api]  done", "\n├─ 4  sum-up [api]  done", "\n├─ 5  gathered  joined",
		"\n│  ├─ path api  done  "+won.row.ID+"  main: its steps are above",
		"\n│  └─ path db  failed  the table \\x07is locked  "+lost.row.ID,
		"\n│     └─ 3  read-db  done", "\n└─ 6  __end__  code 0")
	var tree view.Tree
	m.data(&tree, "thread", "show", root.row.ID, "--tree")
	paths := tree.Steps[4].Paths
	if tree.Steps[1].Child.ID != child.row.ID || len(paths) != 2 || !paths[0].Main || len(paths[0].Steps) != 0 ||
		paths[1].Thread != lost.row.ID || paths[1].Status != store.Failed || paths[1].Steps[0].Role != "read-db" {
		t.Errorf("the tree is %+v", tree)
	}
	m.data(&tree, "thread", "show", root.row.ID, "--tree", "--depth", "0")
	if !tree.Cut || tree.Steps[1].Child != nil {
		t.Errorf("--depth 0 goes down: %+v", tree)
	}
	contains(t, m.plait("thread", "show", join.Short(), "--tree"), "solve", "1  preparer", "developer-flow",
		"path db  failed  "+lost.row.ID)
}

func TestShowThreadsOfAFork(t *testing.T) {
	m, root, child, won, lost, join := solved(t)
	contains(t, m.plait("thread", "show", root.row.ID),
		"ready \\x1b[31m", "developer ", "called     "+child.row.ID+"  ended at "+child.row.Head.Short(),
		"3  read-api [api]", "5  gathered",
		"path api          done       "+won.row.ID+"  main: it continues the conversation",
		"path db           failed     "+lost.row.ID, "decided by api")
	var v view.Thread
	m.data(&v, "thread", "show", root.row.ID)
	j := v.Steps[4]
	if j.Hash != join || j.Ancestors[0] != won.row.Head || len(j.Paths) != 2 || j.Paths[0].ID != "api" ||
		j.Paths[1].ID != "db" || j.Main != "api" {
		t.Errorf("the join is %+v", j)
	}
	if v.Steps[1].Child != child.row.ID || v.Steps[2].Path != "api" || v.Steps[0].Path != "" {
		t.Errorf("the steps are %+v", v.Steps)
	}
	var step view.WholeStep
	if m.data(&step, "thread", "show", v.Steps[1].Hash.String()); step.Child != child.row.ID || step.N != 2 {
		t.Errorf("the calling step is %+v", step)
	}
	contains(t, m.plait("thread", "show", join.Short()), "path api", "main", "path db")
	contains(t, m.plait("thread", "show", lost.row.ID),
		lost.row.ID+"  solve  failed", "the table \\x07is locked",
		"path       db, of the fork at "+lost.row.Path.Fork.Short()+", until gathered",
		"parent     "+root.row.ID, "1  preparer", "2  developer", "── the path db begins here ──", "3  read-db",
		"no\\u202e database")
	var p view.Thread
	m.data(&p, "thread", "show", lost.row.ID)
	if p.Kind != store.KindPath || p.Path.ID != "db" || p.Path.Join != "gathered" || p.Parent.Thread != root.row.ID ||
		p.Reason.Message == "" {
		t.Errorf("the path is %+v", p)
	}
	contains(t, m.plait("thread", "diff", root.row.ID, lost.row.ID), "2 steps in common", "read-api → read-db",
		"+no\\u202e database", "-", "gathered")
}

func TestShowWhatRuns(t *testing.T) {
	m, root := newMade(t)
	a, b := m.path(root, "a"), m.path(root, "b")
	m.step(a, thread.Draft{Role: "read", Text: "x"})
	m.mark(a, store.Completed, nil)
	contains(t, m.plait("thread", "show", root.row.ID), "…  path b           queued  "+b.row.ID)
	contains(t, m.plait("thread", "show", root.row.ID, "--tree"),
		"├─ …  path b  queued  "+b.row.ID, "└─ …  path a  done  "+a.row.ID, "   └─ 1  read")
	contains(t, m.plait("thread", "show", a.row.ID), "── the path a begins here ──", "1  read")
	var v view.Thread
	m.data(&v, "thread", "show", root.row.ID)
	if len(v.WaitsFor) != 1 || v.WaitsFor[0].ID != b.row.ID || v.WaitsFor[0].Path.ID != "b" {
		t.Errorf("it waits for %+v", v.WaitsFor)
	}
}

func TestShowWhatASummaryStandsFor(t *testing.T) {
	m, root := newMade(t)
	m.step(root, thread.Draft{Role: "one", Text: "the first text"})
	m.step(root, thread.Draft{Role: "two", Text: "the second text"})
	summary := m.step(root, thread.Draft{Role: thread.RoleCompact, Text: "in short", Compact: true,
		Meta: json.RawMessage(`{"bytes":29,"steps":2}`)})
	m.step(root, thread.Draft{Role: "three", Text: "the third text"})
	folded := m.plait("thread", "show", root.row.ID)
	contains(t, folded, "2 steps, summarized", "3  __compact__", "in short", "4  three", "the third text")
	if strings.Contains(folded, "the first text") {
		t.Errorf("what is summarized is shown:\n%s", folded)
	}
	contains(t, m.plait("thread", "show", root.row.ID, "--expand"), "the first text", "the second text", "in short",
		"the third text")
	var v view.Thread
	if m.data(&v, "thread", "show", root.row.ID); len(v.Steps) != 4 {
		t.Errorf("--json has %d steps, want all", len(v.Steps))
	}
	contains(t, m.plait("thread", "show", summary.Short()), "in short", "summarizes 2 steps before it")
	contains(t, m.plait("thread", "show", summary.Short(), "--expand"), "1  one", "2  two", "3  __compact__")
	var w view.WholeStep
	if m.data(&w, "thread", "show", summary.String(), "--expand"); len(w.Covers) != 2 || w.Covers[1].Role != "two" ||
		w.N != 3 {
		t.Errorf("the summary covers %+v", w.Covers)
	}
}
