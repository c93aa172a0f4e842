package taskdir

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/mem"
)

const taskID = "01JD0000000000000000000000"

// A world is a store with one task, and a workspace.
type world struct {
	t     testing.TB
	store *mem.Store
	row   store.Thread
	dir   Dir
	now   int64
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, store: mem.New(mem.Config{}), now: 1_700_000_000_000}
	objects, row, err := thread.Begin(thread.NewTask{
		Row:    store.Thread{ID: taskID, Workspace: t.TempDir(), CreatedAt: w.now, Options: json.RawMessage(`{"agent":"codex","limits":{"maxTokens":0},"apiKey":"secret"}`)},
		Bundle: thread.Bundle{Name: "f", Flows: map[string]json.RawMessage{"f": json.RawMessage(`{"name":"f","roles":{"plan":{}}}`)}}, Prompt: "\n Do it.\nPlease",
	})
	if err != nil {
		t.Fatal(err)
	}
	w.row, w.dir = row, At(row.Workspace, taskID)
	w.commit(store.Batch{Objects: objects, Threads: []store.ThreadChange{{Row: row}}, Events: []store.Event{w.event("task.created", `{}`)}})
	return w
}

func (w *world) event(typ, payload string) store.Event {
	return store.Event{TS: w.now, Type: typ, Task: taskID, Thread: taskID, Payload: json.RawMessage(payload)}
}

func (w *world) commit(b store.Batch) {
	w.t.Helper()
	if err := w.store.Commit(w.t.Context(), b); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) board() *DirWriter {
	return &DirWriter{Store: w.store, Reader: thread.NewReader(w.store)}
}

func (w *world) draw(b *DirWriter) {
	w.t.Helper()
	if err := b.Draw(w.t.Context(), taskID, true); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) path(name string) string { return filepath.Join(w.dir.Path(), name) }

func (w *world) file(name string) string {
	w.t.Helper()
	data, err := os.ReadFile(w.path(name))
	if err != nil {
		w.t.Fatal(err)
	}
	return string(data)
}

// attempt begins an attempt of the role plan.
func (w *world) attempt(n int) store.Attempt {
	w.t.Helper()
	prompt, err := thread.NewContent("go on", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	a := store.Attempt{ID: thread.AttemptID(taskID, n), Thread: taskID, From: w.row.Head, Role: "plan", N: n, Agent: "codex", Instance: "plan",
		Prompt: prompt.Hash, Status: store.AttemptRunning, StartedAt: w.now}
	was := w.row
	w.row.Status, w.row.InFlight, w.row.UpdatedAt = store.Running, a.ID, w.now
	ev := w.event("attempt.started", `{"role":"plan"}`)
	ev.Instance, ev.Attempt = "plan", a.ID
	w.commit(store.Batch{Objects: []store.Object{prompt}, Threads: []store.ThreadChange{{Row: w.row, From: was.State()}},
		Attempts: []store.AttemptChange{{Row: a}}, Events: []store.Event{ev}})
	return a
}

// step makes a step of an attempt.
func (w *world) step(a store.Attempt, meta, text string) {
	w.t.Helper()
	artifact, err := thread.NewNode(dag.TypeArtifact, thread.Artifact{Name: "report.md", MediaType: "text/markdown", Size: 1, Blob: dag.Sum([]byte("r"))})
	if err != nil {
		w.t.Fatal(err)
	}
	tip, err := thread.NewReader(w.store).Tip(w.t.Context(), w.row.Head)
	if err != nil {
		w.t.Fatal(err)
	}
	ch, err := thread.Append(w.row, tip, thread.Draft{
		Role: "plan", Meta: json.RawMessage(meta), Text: text, Artifacts: []dag.Hash{artifact.Hash}, At: w.now,
		Detail: &thread.Detail{Agent: "codex", Model: "m", Attempts: []thread.EarlierAttempt{}, Context: []thread.ContextUse{}, Sandbox: "read", Prompt: a.Prompt},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	was := w.row
	w.row = ch.Row
	w.row.InFlight, w.row.Status = "", store.Running
	a.Status, a.EndedAt, a.Session, a.Usage = store.AttemptDone, w.now, "vendor-1", store.Usage{InputTokens: 40, OutputTokens: 2}
	ev := w.event("attempt.completed", fmt.Sprintf(`{"step":%q}`, ch.Row.Head))
	ev.Instance, ev.Attempt = "plan", a.ID
	objects := append(ch.Objects, artifact, store.Object{Hash: dag.Sum([]byte("r")), Data: []byte("r")})
	w.commit(store.Batch{Objects: objects, Threads: []store.ThreadChange{{Row: w.row, From: was.State()}},
		Attempts: []store.AttemptChange{{Row: a, From: store.AttemptRunning}}, Events: []store.Event{ev}})
}

func TestDraw(t *testing.T) {
	w := newWorld(t)
	b := w.board()
	w.draw(b)
	for _, name := range []string{"README.md", "task.yaml", "events.jsonl", "shared/human-notes.md", "shared/state-board.md",
		"shared/context-manifest.yaml", "shared/evidence/index.json", "shared/reports", "shared/contracts", "shared/decisions", "agents"} {
		if _, err := os.Stat(w.path(name)); err != nil {
			t.Errorf("after the first event: %v", err)
		}
	}
	if got := w.file("shared/evidence/index.json"); got != "[]\n" {
		t.Errorf("evidence index is %q", got)
	}

	a := w.attempt(1)
	desk, err := openDesk(w.dir, "plan", a.ID, agent.Vendor{})
	if err != nil {
		t.Fatal(err)
	}
	item := w.event("agent.item", `{"role":"plan","items":[{"kind":"command","phase":"started","text":"make | test"},{"kind":"usage","usage":{"inputTokens":9}}]}`)
	item.Attempt = a.ID
	w.commit(store.Batch{Events: []store.Event{item}})
	w.draw(b)
	if got := w.file("shared/state-board.md"); !strings.Contains(got, `| plan | running | codex | 1 | 9 | make \| test |`) {
		t.Errorf("the board does not say what the agent does:\n%s", got)
	}
	desk.Raw.WriteString("said")
	w.step(a, `{"$status":"ready","summary":"Looked."}`, "I looked.")
	w.draw(b)
	if err := desk.Close("vendor-1"); err != nil {
		t.Fatal(err)
	}
	w.draw(b)

	var f Step
	if err := json.Unmarshal([]byte(w.file("agents/plan/step.json")), &f); err != nil {
		t.Fatal(err)
	}
	if f.Status != "ready" || f.Summary != "Looked." || f.Sandbox != "read" || len(f.Artifacts) != 1 || f.Step != w.row.Head {
		t.Errorf("step.json is %+v", f)
	}
	var final any
	if err := json.Unmarshal([]byte(w.file("agents/plan/artifacts/final.json")), &final); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"meta": map[string]any{"$status": "ready", "summary": "Looked."}, "text": "I looked."},
		final); diff != "" {
		t.Errorf("final.json: -want +got\n%s", diff)
	}
	var s Session
	if err := json.Unmarshal([]byte(w.file("agents/plan/session.json")), &s); err != nil {
		t.Fatal(err)
	}
	want := Session{Instance: "plan", Thread: taskID, Adapter: "codex", Cwd: w.row.Workspace, Sandbox: "read", Vendor: "vendor-1"}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Errorf("session.json: -want +got\n%s", diff)
	}
	told := []LogRange{{ID: a.ID}, {a.ID, [2]int64{0, 4}, [2]int64{}}}
	if diff := cmp.Diff(told, stretches(t, w.dir, "plan")); diff != "" {
		t.Errorf("attempts.jsonl: -want +got\n%s", diff)
	}
	yaml := w.file("task.yaml")
	for _, line := range []string{"state: working", "title: Do it.", "topology: squad", "head: " + w.row.Head.String(), "  - instance: plan", "    state: completed"} {
		if !strings.Contains(yaml, line+"\n") {
			t.Errorf("task.yaml does not say %q:\n%s", line, yaml)
		}
	}
	if strings.Contains(yaml, "secret") {
		t.Error("task.yaml shows an option that it does not know")
	}

	// Everything but what people wrote can be deleted.
	first := tree(t, w.dir.Path())
	if err := w.dir.Remove(); err != nil {
		t.Fatal(err)
	}
	w.draw(w.board())
	delete(first, w.path("agents/plan/context"))
	again := tree(t, w.dir.Path())
	for name, text := range first {
		if strings.Contains(name, "/runtime") || strings.HasSuffix(name, "session.json") || again[name] == text {
			continue
		}
		t.Errorf("%s was not drawn again as it was", name)
	}
}

func TestTextsThatAreLarge(t *testing.T) {
	w := newWorld(t)
	w.step(w.attempt(1), `{"$status":"done"}`, strings.Repeat("é", maxText))
	w.draw(w.board())
	var final Final
	var f Step
	if err := errors.Join(json.Unmarshal([]byte(w.file("agents/plan/artifacts/final.json")), &final),
		json.Unmarshal([]byte(w.file("agents/plan/step.json")), &f)); err != nil {
		t.Fatal(err)
	}
	c, err := thread.NewReader(w.store).Content(t.Context(), f.Content)
	if final.Text != nil || err != nil || len(c.Text) != 2*maxText {
		t.Errorf("text of %d bytes is in final.json: %t, content %v", 2*maxText, final.Text != nil, err)
	}
	if n := len([]rune(f.Summary)); n != maxSummary+1 {
		t.Errorf("summary has %d characters", n)
	}
}

// TestRunningInstancesAreLeftAlone checks that nothing is drawn into the artifacts of
// a running attempt: it would be kept as the agent's.
func TestRunningInstancesAreLeftAlone(t *testing.T) {
	w := newWorld(t)
	w.step(w.attempt(1), `{"$status":"again"}`, "once more")
	a := w.attempt(2)
	desk, err := openDesk(w.dir, "plan", a.ID, agent.Vendor{})
	if err != nil {
		t.Fatal(err)
	}
	defer desk.Close("")
	was := w.file("agents/plan/session.json")
	w.draw(w.board())
	if left, err := os.ReadDir(desk.ArtifactsDir()); err != nil || len(left) != 0 {
		t.Errorf("drawn into a running attempt's artifacts: %v %v", left, err)
	}
	if w.file("agents/plan/session.json") != was {
		t.Error("session.json of a running attempt was drawn")
	}
}

func TestNotesAreNeverTouched(t *testing.T) {
	w := newWorld(t)
	b := w.board()
	w.draw(b)
	for name, text := range map[string]string{notesFile: "use port 8080\n", manifestFile: "attachments: [x]\n"} {
		if err := os.WriteFile(w.path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		before, err := os.Lstat(w.path(name))
		if err != nil {
			t.Fatal(err)
		}
		w.step(w.attempt(w.row.Steps+1), `{"$status":"again"}`, "x")
		w.draw(b)
		w.draw(w.board())
		if err := w.dir.Create(Program{}, false); err != nil {
			t.Fatal(err)
		}
		after, err := os.Lstat(w.path(name))
		if err != nil || w.file(name) != text || stampOf(before) != stampOf(after) {
			t.Errorf("%s was touched: %q, %v", name, w.file(name), err)
		}
	}
}

// TestPlantedLinks plants a link or a second name instead of everything that is
// drawn, and checks that nothing outside is touched.
func TestPlantedLinks(t *testing.T) {
	places := []string{"README.md", "task.yaml", "events.jsonl", "shared", "shared/human-notes.md", "shared/state-board.md",
		"shared/context-manifest.yaml", "shared/evidence", "shared/evidence/index.json", "shared/reports", "shared/contracts", "shared/decisions",
		"agents", "agents/plan", "agents/plan/session.json", "agents/plan/step.json", "agents/plan/artifacts", "agents/plan/artifacts/final.json"}
	for _, place := range places {
		for _, kind := range []string{"to a file", "to a directory", "to nothing", "hard", "inside"} {
			t.Run(place+" "+kind, func(t *testing.T) {
				w := newWorld(t)
				w.step(w.attempt(1), `{"$status":"done"}`, "x")
				victim := t.TempDir()
				precious := filepath.Join(victim, "precious")
				if err := errors.Join(os.WriteFile(precious, []byte("p"), 0o644), os.MkdirAll(filepath.Join(victim, "d", "artifacts"), 0o755),
					os.MkdirAll(filepath.Dir(w.path(place)), 0o755)); err != nil {
					t.Fatal(err)
				}
				before := tree(t, victim)
				var err error
				switch kind {
				case "to a file":
					err = os.Symlink(precious, w.path(place))
				case "to a directory":
					err = os.Symlink(filepath.Join(victim, "d"), w.path(place))
				case "to nothing":
					err = os.Symlink(filepath.Join(victim, "new"), w.path(place))
				case "hard":
					err = os.Link(precious, w.path(place))
				case "inside":
					err = os.Symlink("nowhere", w.path(place))
				}
				if err != nil {
					t.Fatal(err)
				}
				b := w.board()
				drawErr := b.Draw(t.Context(), taskID, true)
				w.commit(store.Batch{Events: []store.Event{w.event("x", "{}")}})
				drawErr = errors.Join(drawErr, b.Draw(t.Context(), taskID, true))
				if diff := cmp.Diff(before, tree(t, victim)); diff != "" {
					t.Errorf("what lies outside was changed: -before +after\n%s", diff)
				}
				if kind != "hard" && drawErr != nil {
					t.Errorf("a link stops the drawing: %v", drawErr)
				}
			})
		}
	}
	if err := (&DirWriter{Store: newWorld(t).store}).Draw(t.Context(), "../x", true); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a task that is not there: %v", err)
	}
}

// TestIncremental checks that nothing is drawn twice, and that the cost depends only on
// what is new.
func TestIncremental(t *testing.T) {
	w := newWorld(t)
	var many []store.Event
	for i := range 10_000 {
		many = append(many, w.event("agent.item", fmt.Sprintf(`{"items":[{"text":"%d"}]}`, i)))
	}
	w.commit(store.Batch{Events: many})
	b := w.board()
	began := time.Now()
	w.draw(b)
	whole := time.Since(began)
	before := tree(t, w.dir.Path())
	info, err := os.Stat(w.path("events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	w.draw(b)
	if diff := cmp.Diff(before, tree(t, w.dir.Path())); diff != "" {
		t.Errorf("drawn again without news: %s", diff)
	}
	reads := 0
	counted := &counting{Store: w.store, reads: &reads}
	b.Store = counted
	w.commit(store.Batch{Events: []store.Event{w.event("last", `{}`)}})
	began = time.Now()
	w.draw(b)
	t.Logf("10,000 events %v, one more %v", whole, time.Since(began))
	if reads > 2 { // once to see whether there are new events, once for the event
		t.Errorf("one more event reads %d events", reads)
	}
	after, err := os.Stat(w.path("events.jsonl"))
	if err != nil || !os.SameFile(info, after) || bytes.Count([]byte(w.file("events.jsonl")), []byte("\n")) != 10_002 {
		t.Errorf("events.jsonl was not appended to: %v", err)
	}
}

// counting counts the events that are read.
type counting struct {
	*mem.Store
	reads *int
}

func (c *counting) Events(ctx context.Context, after int64, f store.EventFilter) ([]store.Event, error) {
	events, err := c.Store.Events(ctx, after, f)
	*c.reads += len(events)
	return events, err
}
