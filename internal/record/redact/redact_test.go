package redact_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/redact"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/mem"
)

const unwanted = "sk-VERYSECRET-1234"

func now() time.Time { return time.UnixMilli(5000) }

// record returns a store with two tasks, one of which has the text in its start, a gate, and an event.
func record(t *testing.T) (store.Store, dag.Hash) {
	t.Helper()
	s := mem.New(mem.Config{Now: now})
	put := func(b store.Batch) {
		t.Helper()
		if err := s.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	var start dag.Hash
	for _, x := range []struct{ id, text string }{{"A", "use " + unwanted}, {"B", "nothing"}} {
		data, err := dag.EncodeContent(x.text, nil)
		if err != nil {
			t.Fatal(err)
		}
		h := dag.Sum(data)
		if x.id == "A" {
			start = h
		}
		put(store.Batch{
			Objects: []store.Object{{Hash: h, Kind: store.Node, Data: data}},
			Threads: []store.ThreadChange{{Row: store.Thread{ID: x.id, Task: x.id, Root: x.id, Kind: store.KindRoot, Head: h,
				Start: h, Status: store.Blocked}}},
			Gates: []store.GateChange{{Row: store.Gate{ID: "g-" + x.id, Task: x.id, Thread: x.id, State: store.GateAnswered,
				Text: x.text}}},
			Events: []store.Event{{Type: "x", Task: x.id, Payload: json.RawMessage(`{"t":"` + x.text + `"}`)}},
		})
	}
	return s, start
}

func config(s store.Store) redact.Config {
	return redact.Config{Store: s, Text: unwanted, By: "ann", Reason: "pasted " + unwanted, Now: now,
		Hold: func(ctx context.Context, task string) (store.Lease, error) { return s.Acquire(ctx, task) }}
}

func TestRun(t *testing.T) {
	s, start := record(t)
	before, err := s.Gate(t.Context(), "g-A")
	if err != nil {
		t.Fatal(err)
	}
	want := redact.Report{Tasks: []string{"A"}, Objects: 1, Rows: 1, Events: 1}
	for range 2 { // looking changes nothing
		if r, err := redact.Find(t.Context(), config(s)); err != nil || r.Objects != 1 || r.Rows != 1 || r.Events != 1 {
			t.Fatalf("found %+v, %v", r, err)
		}
	}
	r, err := redact.Run(t.Context(), config(s))
	if err != nil || r.Objects != want.Objects || r.Rows != want.Rows || r.Events != want.Events ||
		strings.Join(r.Tasks, "") != "A" {
		t.Fatalf("got %+v, %v", r, err)
	}
	if o, err := s.Get(t.Context(), start); err != nil || !o.Redacted || strings.Contains(string(o.Data), unwanted) {
		t.Errorf("%+v, %v", o, err)
	}
	events, err := s.Events(t.Context(), 0, store.EventFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if strings.Contains(string(e.Payload), unwanted) {
			t.Errorf("event %s has it: %s", e.Type, e.Payload)
		}
	}
	// That survives the task, and names what is kept.
	named, ok := event.Read(events[len(events)-2]).(event.TaskRedacted)
	in, _, err := s.Open(t.Context(), start)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := io.ReadAll(in)
	proof := store.ReadProof(events[len(events)-2].Proof)
	if !ok || named.Objects != 1 || events[len(events)-2].Task != "" || err != nil ||
		proof["object "+start.String()] != dag.Sum(kept) {
		t.Errorf("of the object, %+v, %v", events[len(events)-2], err)
	}
	said, ok := event.Read(events[len(events)-1]).(event.TaskRedacted)
	if !ok || said.By != "ann" || said.Gates["g-A"] != thread.ApprovalHash(before) || said.Objects != 1 {
		t.Errorf("the task says %+v", events[len(events)-1])
	}
	if r, err := redact.Run(t.Context(), config(s)); err != nil || r.Objects+r.Rows+r.Events != 0 {
		t.Errorf("again: %+v, %v", r, err)
	}
}

// TestRefused checks that nothing is redacted of a task that is being driven, or that is built on the text.
func TestRefused(t *testing.T) {
	s, start := record(t)
	held, err := s.Acquire(t.Context(), "A")
	if err != nil {
		t.Fatal(err)
	}
	var busy *store.HeldError
	if _, err := redact.Run(t.Context(), config(s)); !errors.As(err, &busy) {
		t.Errorf("got %v", err)
	}
	held.Release()
	row, err := s.Thread(t.Context(), "A")
	if err != nil {
		t.Fatal(err)
	}
	row.Flow = "flow-" + unwanted
	if err := s.Commit(t.Context(), store.Batch{Threads: []store.ThreadChange{{Row: row,
		From: row.State()}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := redact.Run(t.Context(), config(s)); !errors.Is(err, redact.ErrName) {
		t.Errorf("got %v", err)
	}
	if o, err := s.Get(t.Context(), start); err != nil || o.Redacted {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "outside")
	long := strings.Repeat("x", 64<<10-7) + unwanted + "\nend"
	for name, text := range map[string]string{"a.txt": "a " + unwanted + " b\n", "sub/long": long,
		"kept/plait.db": unwanted, "plain": "nothing"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(outside, []byte(unwanted), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	n, err := redact.Files(t.Context(), dir, unwanted, func(path string) bool {
		return strings.HasSuffix(path,
			"plait.db")
	})
	if err != nil || n != 2 {
		t.Errorf("%d files, %v", n, err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "a.txt"): "a " + strings.Repeat("*", len(unwanted)) + " b\n", outside: unwanted,
		filepath.Join(dir, "sub/long"):      strings.Repeat("x", 64<<10-7) + strings.Repeat("*", len(unwanted)) + "\nend",
		filepath.Join(dir, "kept/plait.db"): unwanted,
	} {
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s is %.40q…, %v", path, got, err)
		}
	}
	if n, err := redact.Files(t.Context(), filepath.Join(dir, "none"), unwanted,
		func(string) bool { return false }); n != 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

// TestAsked checks that what was asked with the text is asked again unless a step has used the answer, and that an
// answer with the text stays one.
func TestAsked(t *testing.T) {
	s, head := record(t)
	action := json.RawMessage(`{"command":"echo ` + unwanted + `"}`)
	for id, x := range map[string]struct {
		was   store.Gate
		state store.GateState
		grant store.Grant
	}{
		"open": {store.Gate{State: store.GateOpen, Action: action}, store.GateWithdrawn, ""},
		"approved": {store.Gate{State: store.GateApproved, Grant: store.GrantOnce, From: head, Action: action},
			store.GateWithdrawn, ""},
		"edited": {store.Gate{State: store.GateApproved, Grant: store.GrantOnce, From: head, Edited: action},
			store.GateWithdrawn, ""},
		"for the task": {store.Gate{State: store.GateApproved, Grant: store.GrantSession, Action: action},
			store.GateWithdrawn, ""},
		"answered":   {store.Gate{State: store.GateAnswered, From: head, Question: unwanted}, store.GateWithdrawn, ""},
		"the answer": {store.Gate{State: store.GateAnswered, From: head, Text: unwanted}, store.GateAnswered, ""},
		"used": {store.Gate{State: store.GateApproved, Grant: store.GrantOnce, From: head, UsedAt: 1, Action: action},
			store.GateApproved, store.GrantOnce},
		"used, for it": {store.Gate{State: store.GateApproved, Grant: store.GrantSession, UsedAt: 1, Action: action},
			store.GateApproved, store.GrantOnce},
		"a step's": {store.Gate{State: store.GateAnswered, Question: unwanted}, store.GateAnswered, ""},
	} {
		x.was.ID, x.was.Task, x.was.Thread = id, "A", "A"
		if err := s.Commit(t.Context(), store.Batch{Gates: []store.GateChange{{Row: x.was}}}); err != nil {
			t.Fatal(err)
		}
		r, err := redact.Run(t.Context(), config(s))
		is, getErr := s.Gate(t.Context(), id)
		if err != nil || getErr != nil || is.State != x.state || is.Grant != x.grant {
			t.Errorf("%s: %v, %v: it is %s %s, want %s %s", id, err, getErr, is.State, is.Grant, x.state, x.grant)
		}
		if again := strings.Join(r.Asked, ""); again != "" != (x.state == store.GateWithdrawn) {
			t.Errorf("%s: asked again: %q", id, again)
		}
	}
}
