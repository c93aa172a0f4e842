package verify_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	zombiezen "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/store/sqlite"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/record/verify"
)

// stated commits b with an event for each kind of row.
func (w *world) stated(row store.Thread, b store.Batch) {
	w.Helper()
	b.Events = append(b.Events, event.New(row, w.now(), event.TaskUpdated{State: event.Working}))
	w.must(w.s.Commit(ctx, b))
}

// proven fills a store with rows that events prove, and returns the task's row.
func (w *world) proven() store.Thread {
	w.Helper()
	objects, row, err := thread.Begin(thread.NewTask{Row: store.Thread{ID: "A", CreatedAt: w.now(),
		Options: json.RawMessage(`{"limits": {"maxTokens": 5}}`)}, Bundle: w.bundle, Prompt: "x"})
	w.must(err)
	w.must(w.s.Commit(ctx, store.Batch{Objects: objects, Threads: []store.ThreadChange{{Row: row}},
		Events: []store.Event{event.New(row, row.CreatedAt, event.TaskCreated{})}}))
	was := row.State()
	row.Status = store.Running
	a := store.Attempt{ID: "A.1", Thread: "A", From: row.Head, Role: "planner", N: 1, Status: store.AttemptRunning,
		StartedAt: w.now()}
	w.stated(row, store.Batch{Threads: []store.ThreadChange{{Row: row, From: was}},
		Attempts: []store.AttemptChange{{Row: a}}})
	a.Session, a.PID, a.StartedAt = "s", 7, w.now()
	w.must(w.s.Commit(ctx, store.Batch{Attempts: []store.AttemptChange{{Row: a, From: store.AttemptRunning}}}))
	a.Status, a.EndedAt, a.Usage = store.AttemptFailed, w.now(), store.Usage{InputTokens: 10, CostMicroUSD: 100}
	a.Failure = &store.Failure{Kind: store.FailureInfra, Message: "gone"}
	g := store.Gate{ID: "g-1", Kind: store.GateApproval, State: store.GateOpen, Source: store.SourceAgent, Task: "A",
		Thread: "A", From: row.Head, Question: "May I?", OpenedAt: w.now()}
	w.stated(row, store.Batch{Attempts: []store.AttemptChange{{Row: a, From: store.AttemptRunning}},
		Gates: []store.GateChange{{Row: g}}})
	g.State, g.By, g.Via, g.Text, g.AnsweredAt = store.GateRejected, "ann", store.ViaCLI, "no", w.now()
	asked := store.Request{ID: "r-1", Task: "A", Kind: store.RequestInput, Text: "hurry", By: "ann", At: w.now()}
	w.stated(row, store.Batch{Gates: []store.GateChange{{Row: g, From: store.GateOpen}},
		Requests: []store.RequestChange{{Row: asked}}})
	asked.TakenAt = w.now()
	w.must(w.s.Commit(ctx, store.Batch{Requests: []store.RequestChange{{Row: asked, Take: true}}}))
	f := store.Flow{Name: "work", Hash: row.Bundle, Timestamp: w.now(),
		History: []store.Version{{Hash: row.Bundle, Timestamp: 1}}}
	w.stated(store.Thread{}, store.Batch{Flows: []store.FlowChange{{Row: f}}})
	gone := store.FlowChange{Row: store.Flow{Name: "gone", Hash: row.Bundle}}
	w.stated(store.Thread{}, store.Batch{Flows: []store.FlowChange{gone}})
	gone.From, gone.Delete = row.Bundle, true
	w.stated(store.Thread{}, store.Batch{Flows: []store.FlowChange{gone}})
	return row
}

// One UPDATE in the database is found, and the event that says otherwise is named.
func TestForgedRows(t *testing.T) {
	dir := t.TempDir()
	s, err := sqlite.Open(ctx, sqlite.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	newWorld(t, s).proven()
	mustVerify(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ sql, want string }{
		{"UPDATE gates SET answer = 'yes'", "gate g-1 is not what event 4 says"},
		{"UPDATE gates SET author = 'bob'", "gate g-1 is not what event 4 says"},
		{"UPDATE gates SET via = 'policy'", "gate g-1 is not what event 4 says"},
		{"UPDATE gates SET answered = answered - 1000", "gate g-1 is not what event 4 says"},
		{"UPDATE gates SET state = 'approved'", "gate g-1 is not what event 4 says"},
		{"UPDATE gates SET question = 'May I not?'", "gate g-1 is not what event 4 says"},
		{"UPDATE attempts SET cost = 1", "attempt A.1 is not what event 3 says"},
		{"UPDATE attempts SET input = input + 1", "attempt A.1 is not what event 3 says"},
		{"UPDATE attempts SET started = started - 1", "attempt A.1 is not what event 3 says"},
		{"UPDATE attempts SET ended = ended + 1", "attempt A.1 is not what event 3 says"},
		{"UPDATE attempts SET failure = NULL", "attempt A.1 is not what event 3 says"},
		{`UPDATE threads SET options = CAST('{"limits": {"maxTokens": 6}}' AS BLOB)`, "thread A is not what event 2 says"},
		{"UPDATE threads SET wanted = 'cancel'", "thread A is not what event 2 says"},
		{"UPDATE threads SET created = 1", "thread A is not what event 2 says"},
		{"UPDATE wishes SET text = 'take your time'", "request r-1 is not what event 4 says"},
		{"UPDATE wishes SET author = 'bob'", "request r-1 is not what event 4 says"},
		{"UPDATE flows SET changed = 1", "flow work is not what event 5 says"},
		{"UPDATE flows SET history = NULL", "flow work is not what event 5 says"},
		{"DELETE FROM attempts", "attempt A.1 is missing, and event 3 has it"},
		{"DELETE FROM gates", "gate g-1 is missing, and event 4 has it"},
		{"DELETE FROM wishes", "request r-1 is missing, and event 4 has it"},
		{"DELETE FROM flows", "flow work is missing, and event 5 has it"},
		{"UPDATE flows SET name = 'gone'", "flow gone is not what event 7 says"},
		{"UPDATE flows SET name = 'other'", "flow other is in no event"},
		{"UPDATE gates SET id = 'g-2'", "gate g-2 is in no event"},
		{"UPDATE wishes SET id = 'r-2'", "request r-2 is in no event"},
		{"UPDATE attempts SET id = 'A.2'", "attempt A.2 is in no event"},
		// What is of one machine, and what changes without an event, is not proven.
		{"UPDATE attempts SET pid = 8, session = 't'", ""},
		{"UPDATE threads SET workspace = '/elsewhere', updated = 1", ""},
		{"UPDATE wishes SET taken = 1", ""},
	} {
		t.Run(tt.sql, func(t *testing.T) {
			forged := filepath.Join(t.TempDir(), "home")
			if err := os.CopyFS(forged, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			conn, err := zombiezen.OpenConn(filepath.Join(forged, "plait.db"), zombiezen.OpenReadWrite)
			if err != nil {
				t.Fatal(err)
			}
			if err := sqlitex.ExecuteTransient(conn, tt.sql, nil); err != nil {
				t.Fatal(err)
			}
			if n := conn.Changes(); n != 1 {
				t.Fatalf("%d rows changed", n)
			}
			if err := conn.Close(); err != nil {
				t.Fatal(err)
			}
			s := openSQLite(t, forged)
			if tt.want == "" {
				mustVerify(t, s)
				return
			}
			mustName(t, s, dag.Hash{}, tt.want, strings.HasPrefix(tt.sql, "DELETE"))
			if strings.Contains(tt.sql, "flows") {
				return
			}
			r, err := verify.Thread(ctx, verify.Config{Store: s}, "A")
			if err != nil || !names(r, dag.Hash{}, tt.want) {
				t.Errorf("of the task, want %q: %+v, %v", tt.want, r.Problems, err)
			}
		})
	}
}

func mustVerify(t *testing.T, s store.Store) {
	t.Helper()
	if r, err := verify.All(ctx, verify.Config{Store: s}); err != nil || !r.OK() {
		t.Fatalf("%+v, %v", r.Problems, err)
	}
}

// Records of before, events of an import whose rows are not there yet, and a task that was removed are no forgeries.
func TestWhatIsNotProven(t *testing.T) {
	w, s := memWorld(t)
	w.proven()
	events, err := s.Events(ctx, 0, store.EventFilter{Task: "A"})
	w.must(err)
	before, old, err := thread.Begin(thread.NewTask{Row: store.Thread{ID: "B"}, Bundle: w.bundle, Prompt: "of before"})
	w.must(err)
	w.must(s.Commit(ctx, store.Batch{Objects: before, Threads: []store.ThreadChange{{Row: old}}}))
	mustVerify(t, s)

	_, half := memWorld(t)
	w.must(half.Commit(ctx, store.Batch{Events: append([]store.Event{
		event.New(store.Thread{}, 1, event.ImportBegun{Task: "A"})}, events...)}))
	mustVerify(t, half)
	_, half = memWorld(t)
	w.must(half.Commit(ctx, store.Batch{Events: events}))
	mustName(t, half, dag.Hash{}, "thread A is missing, and event 2 has it", true)

	w.must(w.s.Commit(ctx, store.Batch{Remove: []string{"A"}, Events: []store.Event{w.removal("A")}}))
	mustVerify(t, s)
}

// While someone writes, a row may be as an event after the first says.
func TestProvenWhileWritten(t *testing.T) {
	w, s := memWorld(t)
	row := w.proven()
	r, err := verify.All(ctx, verify.Config{Store: writing{s, func() {
		was := row.State()
		if row.Intent = store.IntentCancel; was.Intent == row.Intent {
			row.Intent = ""
		}
		w.stated(row, store.Batch{Threads: []store.ThreadChange{{Row: row, From: was}}})
	}}})
	if err != nil || !r.OK() {
		t.Errorf("%+v, %v", r.Problems, err)
	}
}

// A writing store has someone who writes before and after each time that rows or events are read.
type writing struct {
	store.Store
	write func()
}

func (s writing) Threads(ctx context.Context, f store.ThreadFilter) ([]store.Thread, error) {
	s.write()
	defer s.write()
	return s.Store.Threads(ctx, f)
}

func (s writing) Events(ctx context.Context, after int64, f store.EventFilter) ([]store.Event, error) {
	s.write()
	defer s.write()
	return s.Store.Events(ctx, after, f)
}
