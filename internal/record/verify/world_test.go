package verify_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/store/sqlite"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/housetest"
	"github.com/plait-run/plait/internal/testing/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ctx = context.Background()

const flowFile = `version: 1
name: work
roles:
  planner: {description: plans}
  coder: {description: codes}
  caller: {flow: work}
  left: {description: goes left}
  right: {description: goes right}
  orchestrator: {plan: true}
forks:
  split:
    forkPaths:
      - {pathId: a, childNodeId: left}
      - {pathId: b, childNodeId: right}
joins:
  gathered: {forkPathIds: [a, b]}
graph:
  $START: {new: {role: planner, prompt: "{{ prompt }}"}}
  planner:
    ready: {role: coder, prompt: "{{ _body }}"}
    calls: {role: caller, prompt: called}
    forks: {role: split, prompt: look}
    plans: {role: orchestrator, prompt: plan}
  coder:
    again: {role: planner, prompt: "once more: {{ _body }}"}
    done: {role: $END, prompt: "{{ _body }}"}
    broken: {role: $END, code: 1, prompt: "gave up"}
  caller: {done: {role: planner, prompt: on}, failed: {role: planner, prompt: on}}
  orchestrator: {finished: {role: $END, prompt: "{{ summary }}"}}
  left: {done: {role: gathered}}
  right: {done: {role: gathered}}
  gathered: {joined: {role: planner, prompt: "{{ paths.b.text }}"}}
`

// A tester is a test, either of the standard library or of a property.
type tester interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// A world writes threads the way the engine does.
type world struct {
	tester
	s      store.Store
	reader *thread.Reader
	bundle thread.Bundle
	at     int64
}

func newWorld(t tester, s store.Store) *world {
	return &world{tester: t, s: s, reader: thread.NewReader(s), bundle: housetest.Bundle(t, flowFile),
		at: 1_700_000_000_000}
}

func memWorld(t tester) (*world, *mem.Store) {
	s := mem.New(mem.Config{})
	return newWorld(t, s), s
}

func openSQLite(t testing.TB, dir string) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(ctx, sqlite.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) now() int64 { w.at++; return w.at }

// commit commits b with an event for each row that it changes.
func (w *world) commit(b store.Batch) {
	w.Helper()
	add := func(task, thread, attempt string) {
		b.Events = append(b.Events, event.OfAttempt(store.Thread{ID: thread, Task: task}, store.Attempt{ID: attempt}, w.at,
			event.ArtifactWritten{}))
	}
	for _, t := range b.Threads {
		add(t.Row.Task, t.Row.ID, "")
	}
	for _, a := range b.Attempts {
		of, _ := w.s.Thread(ctx, a.Row.Thread)
		add(of.Task, a.Row.Thread, a.Row.ID)
	}
	for range b.Flows {
		add("", "", "")
	}
	for _, g := range b.Gates {
		add(g.Row.Task, g.Row.Thread, "")
	}
	for _, task := range b.Remove {
		b.Events = append(b.Events, w.removal(task))
	}
	w.must(w.s.Commit(ctx, b))
}

// removal returns the event that says that a task is removed.
func (w *world) removal(task string) store.Event {
	w.Helper()
	events, err := w.s.Events(ctx, 0, store.EventFilter{Task: task})
	w.must(err)
	p := event.ThreadRemoved{Count: len(events)}
	if p.Count > 0 {
		p.First, p.Last = events[0].Pos, events[p.Count-1].Pos
	}
	return event.New(store.Thread{ID: task}, w.at, p)
}

func (w *world) begin(id, prompt string) store.Thread {
	w.Helper()
	objects, row, err := thread.Begin(
		thread.NewTask{Row: store.Thread{ID: id, CreatedAt: w.now()}, Bundle: w.bundle, Prompt: prompt})
	w.must(err)
	row.Status = store.Running
	w.commit(store.Batch{Objects: objects, Threads: []store.ThreadChange{{Row: row}}})
	return row
}

func status(s string) json.RawMessage { return json.RawMessage(`{"$status":"` + s + `"}`) }

// add commits a step without prompt, logs or artifacts.
func (w *world) add(row store.Thread, d thread.Draft) store.Thread {
	w.Helper()
	d.At = w.now()
	return housetest.Append(ctx, w, w.s, row, d)
}

// step commits a step as an attempt makes it: with a prompt, logs and artifact.
func (w *world) step(row store.Thread, role, stat, text string) store.Thread {
	w.Helper()
	return w.take(row, role, status(stat), text)
}

func (w *world) take(row store.Thread, role string, meta json.RawMessage, text string) store.Thread {
	w.Helper()
	prompt, err := thread.NewContent("prompt for "+text, nil)
	w.must(err)
	a := store.Attempt{
		ID: thread.AttemptID(row.ID, row.Steps+1), Thread: row.ID, From: row.Head, Role: role, N: row.Steps + 1,
		Prompt: prompt.Hash, Status: store.AttemptDone,
	}
	if a.Transcript, _, err = w.s.Stage(ctx, a.ID, strings.NewReader("transcript of "+text)); err != nil {
		w.Fatal(err)
	}
	file := "file of " + text
	blob, size, err := w.s.Stage(ctx, a.ID, strings.NewReader(file))
	w.must(err)
	artifact, err := thread.NewNode(dag.TypeArtifact,
		thread.Artifact{Name: "file", MediaType: "text/plain", Size: size, Blob: blob})
	w.must(err)
	var asked thread.CallRecorder
	call, traffic := asked.Request(thread.ModelCall{}, []byte(`{"messages":["`+text+`"]}`))
	traffic = append(traffic, asked.Response(call, []byte("said of "+text))...)
	var nodes []store.Object
	a.Calls, nodes, err = asked.Nodes()
	w.must(err)
	tip, err := w.reader.Tip(ctx, row.Head)
	w.must(err)
	ch, err := thread.Append(row, tip, thread.Draft{
		Role: role, Meta: meta, Text: text, Artifacts: []dag.Hash{artifact.Hash}, At: w.now(),
		Detail: &thread.Detail{
			Agent: "test", Attempt: a.ID, Attempts: []thread.EarlierAttempt{}, Context: []thread.ContextUse{},
			Prompt: a.Prompt, Transcript: a.Transcript, Calls: a.Calls,
		},
	})
	w.must(err)
	w.commit(store.Batch{
		Objects:  slices.Concat(ch.Objects, traffic, nodes, []store.Object{prompt, artifact}),
		Threads:  []store.ThreadChange{{Row: ch.Row, From: row.State()}},
		Attempts: []store.AttemptChange{{Row: a}},
		Unpin:    []string{a.ID},
	})
	return ch.Row
}

func (w *world) end(row store.Thread, code int, summary string) store.Thread {
	w.Helper()
	tip, err := w.reader.Tip(ctx, row.Head)
	w.must(err)
	ch, err := thread.End(row, tip, code, summary, w.now())
	w.must(err)
	w.commit(store.Batch{Objects: ch.Objects, Threads: []store.ThreadChange{{Row: ch.Row, From: row.State()}}})
	return ch.Row
}

// put commits a node that nothing refers to yet.
func (w *world) put(typ string, payload any) dag.Hash {
	w.Helper()
	o, err := thread.NewNode(typ, payload)
	w.must(err)
	w.commit(store.Batch{Objects: []store.Object{o}})
	return o.Hash
}

func (w *world) content(text string, artifacts ...dag.Hash) dag.Hash {
	w.Helper()
	o, err := thread.NewContent(text, artifacts)
	w.must(err)
	w.commit(store.Batch{Objects: []store.Object{o}})
	return o.Hash
}

// next returns a correct step after row, for a test to make wrong.
func (w *world) next(row store.Thread, role, stat, text string) *thread.State {
	w.Helper()
	tip, err := w.reader.Tip(ctx, row.Head)
	w.must(err)
	s := &thread.State{
		Role: role, Meta: status(stat), Start: tip.Start, Content: w.content(text),
		Ancestors: []dag.Hash{}, Timestamp: w.now(), Path: thread.Named(thread.PathOf(row)),
	}
	if !tip.IsStart {
		s.Ancestors = append(s.Ancestors, tip.Head)
		s.Ancestors = append(s.Ancestors, tip.Ancestors[:min(len(tip.Ancestors), thread.Window-1)]...)
	}
	return s
}

// force commits a step without checking it, and moves row to it.
func (w *world) force(row store.Thread, s *thread.State) store.Thread {
	w.Helper()
	o, err := thread.NewNode(dag.TypeState, s)
	w.must(err)
	was := row
	row.Head = o.Hash
	row.Steps++
	w.commit(store.Batch{Objects: []store.Object{o}, Threads: []store.ThreadChange{{Row: row, From: was.State()}}})
	return row
}

// change commits a row without checking it.
func (w *world) change(was, row store.Thread) {
	w.Helper()
	w.commit(store.Batch{Threads: []store.ThreadChange{{Row: row, From: was.State()}}})
}

// call runs a child below row's head and commits the parent's step.
func (w *world) call(row store.Thread) (parent, child store.Thread) {
	w.Helper()
	child = w.child(row)
	return w.back(row, child), child
}

// back commits the step of a caller whose child has ended.
func (w *world) back(row, child store.Thread) store.Thread {
	w.Helper()
	return w.add(row, thread.Draft{
		Role: "caller", Meta: json.RawMessage(`{"$status":"done","returnCode":0,"summary":"child is done"}`),
		Text: "child is done", Artifacts: w.artifacts("child is done"), ChildThread: child.Head,
	})
}

// artifacts returns the artifacts that step makes for a text.
func (w *world) artifacts(text string) []dag.Hash {
	w.Helper()
	file := "file of " + text
	artifact, err := thread.NewNode(dag.TypeArtifact,
		thread.Artifact{Name: "file", MediaType: "text/plain", Size: int64(len(file)), Blob: dag.Sum([]byte(file))})
	w.must(err)
	return []dag.Hash{artifact.Hash}
}

// stamp returns the time at which row's head was made.
func (w *world) stamp(row store.Thread) int64 {
	w.Helper()
	if row.Head == row.Start {
		return row.CreatedAt
	}
	s, err := w.reader.State(ctx, row.Head)
	w.must(err)
	return s.Timestamp
}

// child runs a thread that row calls to its end.
func (w *world) child(row store.Thread) store.Thread {
	w.Helper()
	objects, child, err := thread.Call(thread.Child{
		Parent: row, Since: w.stamp(row), Role: "caller", N: 1, Flow: "work", Depth: 1, Prompt: "called", Now: w.now(),
	})
	w.must(err)
	child.Status = store.Running
	w.commit(store.Batch{Objects: objects, Threads: []store.ThreadChange{{Row: child}}})
	return w.over(child)
}

func (w *world) over(child store.Thread) store.Thread {
	w.Helper()
	child = w.step(child, "planner", "ready", "child plans")
	child = w.step(child, "coder", "done", "child is done")
	return w.end(child, 0, "child is done")
}

// fork makes two paths of row's head, lets each take a step, and returns the
// join, which is not committed yet.
func (w *world) fork(row store.Thread) (paths []store.Thread, join *thread.State) {
	w.Helper()
	d := thread.JoinDraft{Node: "gathered", Outcome: flow.Joined}
	for _, path := range [][2]string{{"a", "left"}, {"b", "right"}} {
		id, role := path[0], path[1]
		p := thread.Path(row, w.stamp(row), store.Path{Key: thread.PathKey(row, "split", id), ID: id, Join: "gathered", N: 1},
			w.now())
		p.Status = store.Running
		w.commit(store.Batch{Threads: []store.ThreadChange{{Row: p}}})
		was := w.step(p, role, "done", "path "+id)
		p = was
		p.Status = store.Completed
		w.change(was, p)
		d.Paths = append(d.Paths, thread.PathEnd{Row: p, Meta: status("done"), Text: "path " + id})
		paths = append(paths, p)
	}
	main, err := w.reader.Tip(ctx, paths[0].Head)
	w.must(err)
	d.At = w.now()
	ch, err := thread.Join(row, main, paths[0].Steps, d)
	w.must(err)
	w.commit(store.Batch{Objects: ch.Objects})
	return paths, ch.Step.State
}

// joined commits a join of paths at row's head.
func (w *world) joined(row store.Thread, join *thread.State) store.Thread {
	w.Helper()
	o, err := thread.NewNode(dag.TypeState, join)
	w.must(err)
	was := row
	row.Head = o.Hash
	row.Steps += 2 // the path's step and the join itself
	w.commit(store.Batch{
		Objects: []store.Object{o},
		Threads: []store.ThreadChange{{Row: row, From: was.State()}},
	})
	return row
}

// fill writes a record with one of everything.
func (w *world) fill() map[string]store.Thread {
	w.Helper()
	rows := map[string]store.Thread{}
	a := w.begin("A", "do it")
	a = w.step(a, "planner", "ready", "the plan")
	forkAt := a
	a = w.add(a, thread.Draft{Role: thread.RoleInput, Meta: thread.InputMeta("resume", ""), Text: "hurry"})
	a = w.step(a, "coder", "done", "the code")
	rows["A"] = w.end(a, 0, "the code")

	at, err := w.reader.State(ctx, forkAt.Head)
	w.must(err)
	f := thread.Fork(rows["A"], "F", thread.Step{Hash: forkAt.Head, State: at}, 1, w.now())
	f.Status = store.Running
	w.commit(store.Batch{Threads: []store.ThreadChange{{Row: f}}})
	f = w.add(f,
		thread.Draft{Role: thread.RoleCompact, Meta: json.RawMessage(`{"bytes":8,"steps":1}`), Text: "so far", Compact: true})
	f = w.step(f, "coder", "broken", "no luck")
	rows["F"] = w.end(f, 1, "gave up")

	c := w.begin("C", "stop soon")
	c = w.step(c, "planner", "ready", "a plan")
	rows["C"] = w.end(c, 130, "cancelled")

	l := w.begin("L", "go on")
	for i := range 7 { // more steps than the window of ancestors holds
		l = w.step(l, "planner", "ready", fmt.Sprint("plan ", i))
		l = w.step(l, "coder", "again", fmt.Sprint("code ", i))
	}
	rows["L"] = l

	p := w.begin("P", "call")
	p = w.step(p, "planner", "calls", "calls")
	rows["P"], rows["K"] = w.call(p)

	j := w.begin("J", "fork")
	j = w.step(j, "planner", "forks", "forks")
	paths, join := w.fork(j)
	rows["J"] = w.joined(j, join)
	rows["J-a"], rows["J-b"] = paths[0], paths[1]

	// A completed thread continues: the flow proceeds past its end.
	done, err := w.reader.State(ctx, rows["A"].Head)
	w.must(err)
	g := thread.Fork(rows["A"], "G", thread.Step{Hash: done.Ancestors[0]}, 3, w.now())
	g.Status = store.Running
	w.commit(store.Batch{Threads: []store.ThreadChange{{Row: g}}})
	g = w.add(g, thread.Draft{Role: thread.RoleInput, Meta: thread.InputMeta("resume", ""), Text: "and more"})
	rows["G"] = w.step(g, "planner", "ready", "a further plan")

	// A person says something while a child runs.
	n := w.step(w.begin("N", "notes"), "planner", "calls", "calls")
	called := w.child(n)
	n = w.add(n, thread.Draft{Role: thread.RoleInput, Meta: thread.InputMeta("notes", ""), Text: "a note"})
	rows["N"] = w.back(n, called)

	w.plan(rows)

	w.commit(store.Batch{Flows: []store.FlowChange{{Row: store.Flow{Name: "work", Hash: a.Bundle}}}})
	_, _, err = w.s.Stage(ctx, "big", strings.NewReader(strings.Repeat("big and loose\n", 30_000)))
	w.must(err)
	return rows
}
