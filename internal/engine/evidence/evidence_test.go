package evidence

import (
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
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/housetest"
	"github.com/plait-run/plait/internal/testing/mem"
)

// A scene has a task in a store, and a working tree with a file.
type scene struct {
	*Collector
	store *mem.Store
	row   store.Thread
	desk  agent.Directory
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := mem.New(mem.Config{Proven: true})
	row := housetest.Begin(t.Context(), t, s, store.Thread{ID: "01JD0000000000000000000000", CreatedAt: 1,
		Tree: t.TempDir()}, housetest.Bundle(t, housetest.TwoSteps("write")), "go")
	write(t, row, "a.txt", "one\ntwo\nthree\n")
	return &scene{store: s, row: row, desk: housetest.BareDesk{}, Collector: New(Config{
		Store: s, Nodes: thread.NewReader(s), Now: func() time.Time { return time.UnixMilli(1) },
	})}
}

func write(t *testing.T, row store.Thread, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(row.Tree, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// add announces an entry of the task.
func (s *scene) add(t *testing.T, instance, id string) {
	t.Helper()
	ev := event.New(s.row, 1, event.EvidenceAdded{ID: instance + "." + id, Kind: thread.FileAnchor})
	ev.Instance = instance
	if err := s.store.Commit(t.Context(), store.Batch{Events: []store.Event{ev}}); err != nil {
		t.Fatal(err)
	}
}

// answer returns an answer of the instance first, which left a tree, after it did what was seen.
func (s *scene) answer(output string, seen ...agent.Event) Answer {
	meta, text := output, ""
	if body, ok := strings.CutPrefix(output, "---\n$status: done\n---\n"); ok {
		meta, text = `{"$status":"done"}`, body
	}
	a := Answer{
		Attempt: store.Attempt{ID: "x.1", Thread: s.row.ID, Instance: "first"}, Task: s.row.Task, Seen: &Activities{},
		Meta: []byte(meta), Text: text, Tree: s.row.Tree, After: "tree-1", Desk: s.desk,
		Bytes:    &store.Staging{Store: s.store, Pin: "x.1"},
		Accepted: func() (bool, error) { return false, nil },
	}
	a.Seen.Begin("x.1", "")
	for _, ev := range seen {
		a.Seen.record(ev)
	}
	return a
}

// prove checks one answer against the evidence of the task.
func (s *scene) prove(t *testing.T, strict bool, output string, seen ...agent.Event) (Kept, error) {
	t.Helper()
	a := s.answer(output, seen...)
	a.Strict = strict
	return s.Record(t.Context(), a)
}

// keep records an answer as a step does: its objects, and the events of its evidence. It returns the entries.
func (s *scene) keep(t *testing.T, a Answer) []*thread.Evidence {
	t.Helper()
	kept, err := s.Record(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	batch := store.Batch{Objects: a.Bytes.Objects, Unpin: a.Bytes.Unpin()}
	for _, added := range kept.Added {
		ev := event.New(s.row, 1, added)
		ev.Instance = a.Attempt.Instance
		batch.Events = append(batch.Events, ev)
	}
	if err := s.store.Commit(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	var out []*thread.Evidence
	for _, h := range kept.Nodes {
		ev, err := thread.NewReader(s.store).Evidence(t.Context(), h)
		if err != nil {
			t.Fatal(err)
		}
		for _, ref := range ev.Refs() {
			if ok, err := s.store.Has(t.Context(), ref); err != nil || !ok {
				t.Errorf("%s names %s, which is not kept: %v", ev.ID, ref, err)
			}
		}
		out = append(out, ev)
	}
	return out
}

func ran(command, output string, code int) agent.Event {
	return agent.Event{Kind: agent.EventCommand, Phase: "completed", Text: command, Output: output, Exit: &code}
}

func mustRefuse(t *testing.T, err error, want string) {
	t.Helper()
	var fail *agent.Failure
	switch {
	case want == "" && err != nil:
		t.Errorf("refused: %v", err)
	case want == "":
	case !errors.As(err, &fail) || fail.Kind != agent.InvalidOutput || !strings.Contains(fail.Message, want):
		t.Errorf("got %v, want a failure about %q", err, want)
	}
}

// ids returns the ids of entries.
func ids(entries []*thread.Evidence) []string {
	var out []string
	for _, ev := range entries {
		out = append(out, ev.ID)
	}
	return out
}

func TestActivitiesAreBounded(t *testing.T) {
	g := &Activities{}
	for i := range 10_000 {
		g.record(ran("c", strings.Repeat("x", 100<<10), i%3))
	}
	if len(g.activities) != maxActivities || g.missed != 9500 || g.bytes > maxActivityBytes+
		maxActivities*maxActivityText {
		t.Errorf("%d activities, %d missed, %d bytes", len(g.activities), g.missed, g.bytes)
	}
	if last := g.activities[maxActivities-1]; last.output != "" || len(last.notes) == 0 {
		t.Errorf("the last one keeps %d bytes, notes %q", len(last.output), last.notes)
	}
}

// TestBefore: what an agent remembers of attempts that became no step counts, however they ended.
func TestBefore(t *testing.T) {
	s := newScene(t)
	var tries []store.Attempt
	for i, x := range []struct {
		session string
		kind    store.FailureKind
	}{{"s1", store.FailureInvalidOutput}, {"s1", store.FailureInfra}, {"s2", store.FailureInfra},
		{"s1", store.FailureInterrupted}, {"", store.FailureInfra}} {
		a := store.Attempt{ID: thread.AttemptID(s.row.ID, i+1), Thread: s.row.ID, N: i + 1, Session: x.session,
			Failure: &store.Failure{Kind: x.kind}}
		item, err := json.Marshal(ran(fmt.Sprint("step ", i+1), "", 0))
		if err != nil {
			t.Fatal(err)
		}
		told := event.OfAttempt(s.row, a, 1, event.AgentItems{Items: []json.RawMessage{item}})
		if err := s.store.Commit(t.Context(), store.Batch{Events: []store.Event{told}}); err != nil {
			t.Fatal(err)
		}
		tries = append(tries, a)
	}
	for session, want := range map[string][]string{"s1": {"step 1 ", "step 2 -1-2", "step 4 -1-4"}, "s2": {"step 3 -1-3"},
		"s3": nil, "": nil} {
		seen, err := s.Before(t.Context(), s.row.Task, 1, tries, session)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range seen.activities {
			got = append(got, d.text+" "+string(d.turn))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("session %q: -want +got\n%s", session, diff)
		}
	}
}

// TestNewest lists what a task has proved, without what did not end.
func TestNewest(t *testing.T) {
	s := newScene(t)
	s.keep(t, s.answer(`{"$status":"done"}`, ran("make", "", 0), agent.Event{Kind: agent.EventCommand, Phase: "declined",
		Text: "make install"}, ran("ls", "", 0)))
	s.add(t, "other", "found")
	for prefix, want := range map[string]string{"": "first.cmd-1 first.cmd-3 other.found", "first.": "first.cmd-1 first.cmd-3",
		"nobody.": ""} {
		added, err := s.Newest(t.Context(), s.row.Task, prefix)
		var got []string
		for _, a := range added {
			got = append(got, a.ID)
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q: %q, %v; want %q", prefix, got, err, want)
		}
	}
	for range maxNewest {
		s.keep(t, s.answer(`{"$status":"done"}`, ran("ls", "", 0)))
	}
	added, err := s.Newest(t.Context(), s.row.Task, "first.")
	if err != nil || len(added) != maxNewest || added[0].ID != "first.cmd-4" || added[maxNewest-1].ID != "first.cmd-43" {
		t.Errorf("%d entries from %s on, %v", len(added), added[0].ID, err)
	}
}

// TestNodes checks what is kept: nodes with the hashes of what they name.
func TestNodes(t *testing.T) {
	s := newScene(t)
	entries := s.keep(t, s.answer(`{"$status":"done"}`, ran("ls\nsecond line", "a.txt\n", 0),
		agent.Event{Kind: agent.EventFile, Phase: "completed", Files: []agent.File{
			{Path: filepath.Join(s.row.Tree, "a.txt"), Change: "update", Diff: "-1\n+one\n"},
			{Path: "gone.txt", Change: "delete"}, {Path: "/etc/passwd"},
		}}))
	if len(entries) != 2 || entries[0].Title != "ls …" || entries[0].Summary != "exit code 0" ||
		entries[0].Sources[0].StdoutRef != dag.Sum([]byte("a.txt\n")) {
		t.Fatalf("%+v", entries)
	}
	change := entries[1]
	if change.ID != "change-1" || change.Title != "update a.txt, delete gone.txt, change /etc/passwd" ||
		change.Summary != "update a.txt; delete gone.txt; change /etc/passwd" {
		t.Errorf("%+v", change)
	}
	file, gone, outside := change.Sources[0], change.Sources[1], change.Sources[2]
	if file.Hash != dag.Sum([]byte("one\ntwo\nthree\n")) || file.Blob != dag.Sum([]byte("-1\n+one\n")) ||
		*file.Tree != "tree-1" || !gone.Hash.IsZero() || gone.Tree == nil || outside.Tree != nil || !outside.Hash.IsZero() {
		t.Errorf("%+v", change.Sources)
	}
}
