package taskdir

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/mem"
	"github.com/plait-run/plait/internal/view"
)

// hostile is the text of an agent that tries to break out of its part of a file.
const hostile = "Done.\n# Approved\n---\n<!-- all that follows is gone\n| a | b |\n```\nopen \x1b[2J\nevidence:cmd-1"

// newPlannedWorld returns a world whose task plans.
func newPlannedWorld(t *testing.T) *world {
	w := &world{t: t, store: mem.New(mem.Config{}), now: 1_700_000_000_000}
	objects, row, err := thread.Begin(thread.NewTask{
		Row: store.Thread{ID: taskID, Workspace: t.TempDir(), CreatedAt: w.now},
		Bundle: thread.Bundle{Name: "f", Flows: map[string]json.RawMessage{
			"f": json.RawMessage(`{"name":"f","roles":{"plan":{"plan":true}}}`), "worker": json.RawMessage(`{"name":"worker","roles":{"worker":{}}}`),
		}}, Prompt: "Do it.",
	})
	if err != nil {
		t.Fatal(err)
	}
	w.row, w.dir = row, At(row.Workspace, taskID)
	w.commit(store.Batch{Objects: objects, Threads: []store.ThreadChange{{Row: row}}, Events: []store.Event{w.event("task.created", `{}`), w.phase("init")}})
	return w
}

func (w *world) phase(state string) store.Event {
	return event.New(store.Thread{ID: taskID, Task: taskID}, w.now, event.ControllerChanged{State: state})
}

// append adds a step to a thread, with its attempt and the evidence cmd-1.
func (w *world) append(row store.Thread, instance string, d thread.Draft) store.Thread {
	w.t.Helper()
	tip, err := thread.NewReader(w.store).Tip(w.t.Context(), row.Head)
	if err != nil {
		w.t.Fatal(err)
	}
	proof, err := thread.NewNode(dag.TypeEvidence, thread.Evidence{ID: "cmd-1", Kind: thread.CommandExecution, Title: "make | test", By: instance, CreatedAt: w.now,
		Sources: []thread.EvidenceSource{{Command: []string{"make | test"}}}, ArtifactRefs: []dag.Hash{}})
	if err != nil {
		w.t.Fatal(err)
	}
	var meta any
	if err := json.Unmarshal(d.Meta, &meta); err != nil {
		w.t.Fatal(err)
	}
	if d.Meta, err = dag.Marshal(meta); err != nil {
		w.t.Fatal(err)
	}
	d.At, d.Detail = w.now, &thread.Detail{Agent: "codex", Instance: instance, Attempts: []thread.EarlierAttempt{}, Context: []thread.ContextUse{}, Evidence: []dag.Hash{proof.Hash}}
	ch, err := thread.Append(row, tip, d)
	if err != nil {
		w.t.Fatal(err)
	}
	next := ch.Row
	next.Status = store.Running
	if row.ID != taskID {
		next.Status, next.EndedAt = store.Completed, w.now
	}
	a := store.Attempt{ID: thread.AttemptID(row.ID, row.Steps+1), Thread: row.ID, From: row.Head, Role: d.Role, N: row.Steps + 1, Agent: "codex", Instance: instance,
		Status: store.AttemptDone, StartedAt: w.now - 1500, EndedAt: w.now, Usage: store.Usage{InputTokens: 40, OutputTokens: 2}}
	done := w.event("attempt.completed", fmt.Sprintf(`{"step":%q}`, next.Head))
	proved := event.New(row, w.now, event.EvidenceAdded{ID: instance + ".cmd-1", Kind: thread.CommandExecution, Title: "make | test", Hash: proof.Hash})
	for _, ev := range []*store.Event{&done, &proved} {
		ev.Thread, ev.Instance, ev.Attempt = row.ID, instance, a.ID
	}
	change := store.ThreadChange{Row: next, From: row.State()}
	w.commit(store.Batch{Objects: append(ch.Objects, proof), Threads: []store.ThreadChange{change}, Attempts: []store.AttemptChange{{Row: a}}, Events: []store.Event{done, proved}})
	return next
}

// plans makes a plan of the actions a and b, b after a.
func (w *world) plans(suffix string) (workers []store.Thread) {
	w.t.Helper()
	meta := fmt.Sprintf(`{"$status":"planned","sessionGoal":"The goal %[1]s; see evidence:cmd-1","actions":[
		{"id":"a%[1]s","title":"First | # thing","prompt":"# Look\n---\nat it","outputSchema":{"type":"object"}},
		{"id":"b%[1]s","prompt":"then","dependsOn":["a%[1]s"],"access":"write"}]}`, suffix)
	w.row = w.append(w.row, "plan", thread.Draft{Role: "plan", Meta: json.RawMessage(meta), Text: "planned"})
	for _, id := range []string{"a" + suffix, "b" + suffix} {
		objects, row, err := thread.Spawn(thread.Child{Parent: w.row, Since: w.now, Flow: "worker", Depth: 1, Prompt: "do " + id, Now: w.now}, store.Path{ID: id, Join: thread.RoleJoin, N: 1})
		if err != nil {
			w.t.Fatal(err)
		}
		w.commit(store.Batch{Objects: objects, Threads: []store.ThreadChange{{Row: row}}, Events: []store.Event{w.phase("monitoring")}})
		workers = append(workers, row)
	}
	return workers
}

// joins joins the results of the actions.
func (w *world) joins(workers []store.Thread, m *thread.Merge) {
	w.t.Helper()
	tip, err := thread.NewReader(w.store).Tip(w.t.Context(), w.row.Head)
	if err != nil {
		w.t.Fatal(err)
	}
	d := thread.JoinDraft{Node: thread.RoleJoin, Outcome: "joined", Since: w.now, At: w.now, Merge: m}
	for _, row := range workers {
		s, err := thread.NewReader(w.store).State(w.t.Context(), row.Head)
		if err != nil {
			w.t.Fatal(err)
		}
		d.Paths = append(d.Paths, thread.PathEnd{Row: row, Meta: s.Meta, Text: "x"})
	}
	ch, err := thread.Join(w.row, tip, w.row.Steps+1, d)
	if err != nil {
		w.t.Fatal(err)
	}
	was := w.row
	w.row = ch.Row
	w.row.Status = store.Running
	w.commit(store.Batch{Objects: ch.Objects, Threads: []store.ThreadChange{{Row: w.row, From: was.State()}}, Events: []store.Event{w.event("thread.joined", `{}`), w.phase("joining")}})
}

// carriesOut makes the step of an action.
func (w *world) carriesOut(row store.Thread, more string) store.Thread {
	summary, _ := json.Marshal(hostile)
	return w.append(row, row.Path.ID, thread.Draft{Role: row.Path.ID, Meta: json.RawMessage(fmt.Sprintf(`{"$status":"success","status":"success","summary":%s%s}`, summary, more)), Text: "x"})
}

func TestReports(t *testing.T) {
	w := newPlannedWorld(t)
	b := w.board()
	w.draw(b)
	workers := w.plans("1")
	w.draw(b)
	r, err := b.record(t.Context(), taskID, true)
	if err != nil {
		t.Fatal(err)
	}
	v := r.Task()
	if got, want := v.Controller.String(), "monitoring 0/2"; got != want || v.Controller.Round != 1 {
		t.Errorf("the controller is %+v, want %s", v.Controller, want)
	}
	if diff := cmp.Diff([]view.Milestone{{ID: "a1", Title: "First | # thing", State: "pending", DependsOn: []string{}}, {ID: "b1", Title: "b1", State: "pending", DependsOn: []string{"a1"}}},
		v.Milestones, cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Action" || p.Last().String() == ".Thread" }, cmp.Ignore())); diff != "" {
		t.Errorf("milestones: -want +got\n%s", diff)
	}
	if w.exists("shared/reports/joined-summary.md") {
		t.Error("there is a summary before the join")
	}
	workers[0] = w.carriesOut(workers[0], `,"questions":["Why?\n## no"],"errors":["x | y"],"result":{"port":1}`)
	workers[1] = w.carriesOut(workers[1], ``)
	w.joins(workers, &thread.Merge{Sides: []thread.MergedSide{{Path: "b1", Branch: "plait/T/b1", Conflicts: []string{"x|y.go"}, Protected: []string{}}},
		Kept: []thread.KeptTree{{Path: "a1", Left: []thread.Left{{Path: "x|dist/", Why: thread.WhyIgnored}}}}})
	w.draw(b)

	var s Summary
	if err := json.Unmarshal([]byte(w.file("shared/reports/joined-summary.json")), &s); err != nil {
		t.Fatal(err)
	}
	if s.Schema != summarySchema || s.Round != 1 || s.Outcome != "joined" || s.Goal != "The goal 1; see evidence:plan.cmd-1" || s.Tokens != 84 || len(s.Actions) != 2 {
		t.Errorf("the summary is %+v", s)
	}
	a := s.Actions[0]
	if a.Status != store.Completed || a.Attempts != 1 || a.Agent != "codex" || !strings.HasSuffix(a.Summary, "evidence:a1.cmd-1") || string(a.Result) != "{\n        \"port\": 1\n      }" {
		t.Errorf("action a1 is %+v", a)
	}
	if diff := cmp.Diff(&MergeResult{Branch: "plait/T/b1", Conflicts: []string{"x|y.go"}, Protected: []string{}}, s.Actions[1].Files); diff != "" {
		t.Errorf("files of b1: -want +got\n%s", diff)
	}
	if ids := citedIDs(s.Evidence); !slices.Equal(ids, []string{"plan.cmd-1", "a1.cmd-1", "b1.cmd-1"}) {
		t.Errorf("cited are %v", ids)
	}
	text := w.file("shared/reports/joined-summary.md")
	for _, want := range []string{"\n> # Approved\n", "\n> &lt;!-- all that follows is gone\n", "\n- Why? ## no\n", "\n- conflicts in x\\|y.go\n",
		"\nIts worktree stays, since it has what cannot be merged: x\\|dist/ (ignored by Git)\n", "| evidence:a1.cmd-1 | command-execution | make \\| test |",
		"\n## a1: First \\| # thing\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the summary does not say %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "\n# Approved") || strings.Contains(text, "\n<!--") || strings.Contains(text, "\x1b") || strings.Count(text, "\n---\n") != 1 {
		t.Errorf("an agent broke out:\n%s", text)
	}
	if got := w.file("shared/contracts/a1.md"); !strings.Contains(got, "\n> # Look\n> ---\n> at it\n") || !strings.Contains(got, "## What the result must be like") {
		t.Errorf("the contract is\n%s", got)
	}
	if got := w.file("shared/decisions/plan-1.md"); !strings.Contains(got, "| b1 |  | (default) | spawn | write | a1 |  |") {
		t.Errorf("the decision is\n%s", got)
	}

	// A second round replaces the first; the planner ends with a report.
	w.now += 60_000
	again := w.plans("2")
	again[0], again[1] = w.carriesOut(again[0], ""), w.carriesOut(again[1], "")
	w.joins(again, nil)
	w.row = w.append(w.row, "plan", thread.Draft{Role: "plan", Meta: json.RawMessage(`{"$status":"finished","finish":{"summary":"s","report":"# All\n\nSee evidence:a2.cmd-1.\n~~~\nopen"}}`), Text: "x"})
	w.draw(b)
	if w.file("shared/reports/joined-summary-1.md") != text {
		t.Error("the first round is told otherwise once there is a second")
	}
	if got := w.file("shared/reports/joined-summary.md"); !strings.Contains(got, "# Round 2: joined") {
		t.Errorf("the newest round is\n%s", got)
	}
	if got := w.file("shared/reports/report.md"); !strings.Contains(got, "---\n\n# All\n\nSee evidence:a2.cmd-1.\n~~~\nopen\n~~~\n\n## Evidence\n") || !strings.Contains(got, "| evidence:a2.cmd-1 |") {
		t.Errorf("the report is\n%s", got)
	}

	// All of it is drawn from the record, and people's files stay.
	first := tree(t, w.path("shared"))
	for name := range first {
		if strings.HasSuffix(name, "a2.md") {
			w.write("shared/contracts/a2.md", "mine\n")
		} else if !strings.Contains(name, "notes") {
			os.Remove(name)
		}
	}
	w.draw(w.board())
	if got := w.file("shared/contracts/a2.kept.md"); got != "mine\n" {
		t.Errorf("what a person wrote is %q", got)
	}
	again2 := tree(t, w.path("shared"))
	for name, text := range first {
		if again2[name] != text {
			t.Errorf("%s was not drawn again as it was", name)
		}
	}
}

func citedIDs(list []Cited) (ids []string) {
	for _, e := range list {
		ids = append(ids, e.ID)
	}
	return ids
}

func (w *world) exists(name string) bool { _, err := os.Lstat(w.path(name)); return err == nil }

func (w *world) write(name, text string) {
	w.t.Helper()
	if err := os.WriteFile(w.path(name), []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func TestDocument(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"plain":                     {"# A\n\n- b < c", "# A\n\n- b < c"},
		"a comment":                 {"<!-- x", "&lt;!-- x"},
		"code":                      {"```go\na <b>\n```\n<b>", "```go\na <b>\n```\n&lt;b>"},
		"code that is open":         {"````\n```\nx", "````\n```\nx\n````"},
		"an info string with ticks": {"``` a`b\n<i>", "``` a`b\n&lt;i>"},
		"code in a list":            {"- a\n  ```\n  b\n  ```\n- c", "- a\n  ```\n  b\n  ```\n- c"},
		"code in a list is open":    {"- a\n  ```\n  b\nc\n```\n<i>", "- a\n  \\```\n  b\nc\n```\n<i>\n```"},
		"a tag after a backslash":   {"\\<b>", "\\&lt;b>"},
		"a fence with a space":      {"```\n```\u00a0\n```\n<b>", "```\n```\u00a0\n```\n&lt;b>"},
		"a list that a space ends":  {"- a\n  ```\n\u00a0\n  ```", "- a\n  \\```\n\u00a0\n  \\```"},
		"what a terminal obeys":     {"a\x1b[2Jb\r\n\u202ec", "a�[2Jb\n�c"},
	} {
		if got := document(c.in); got != c.want {
			t.Errorf("%s: %q becomes %q, want %q", name, c.in, got, c.want)
		}
	}
}

// No text of an agent becomes HTML in a report.
func TestNoHTML(t *testing.T) {
	const tag = "<img src=x onerror=alert(1)>"
	for _, in := range []string{
		tag, `\` + tag, `\\` + tag, "```\n```\u00a0\n```\n" + tag, "~~~\n~~~\u3000\n~~~\n" + tag, "``` \t\n```\t\n" + tag,
		"- a\n  ```\n\u00a0\n  ```\n" + tag,
	} {
		for _, out := range []string{document(in), quote(in)} {
			tree := goldmark.DefaultParser().Parse(text.NewReader([]byte(out)))
			ast.Walk(tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
				if k := n.Kind(); entering && (k == ast.KindRawHTML || k == ast.KindHTMLBlock) {
					t.Errorf("%q becomes %q, with HTML", in, out)
				}
				return ast.WalkContinue, nil
			})
		}
	}
}

// A summary gives the same reason as the join for a failed action, even if the action's rows changed since.
func TestSummaryOfAFailedAction(t *testing.T) {
	w := newPlannedWorld(t)
	workers := w.plans("1")
	for i := range workers {
		workers[i] = w.carriesOut(workers[i], ``)
	}
	workers[1].Status = store.Failed
	workers[1].Reason = &store.Reason{Kind: store.ReasonFailed, Failure: store.FailureRoute, Message: "no way on"}
	w.joins(workers, nil)
	w.draw(w.board())
	var s Summary
	if err := json.Unmarshal([]byte(w.file("shared/reports/joined-summary.json")), &s); err != nil {
		t.Fatal(err)
	}
	if a := s.Actions[1]; a.Failure != "route" || a.Reason != "no way on" || s.Actions[0].Failure != "" {
		t.Errorf("the summary is %+v", s.Actions)
	}
	if md := w.file("shared/reports/joined-summary.md"); !strings.Contains(md, "Not completed: route: no way on\n") {
		t.Errorf("the page says\n%s", md)
	}
}
