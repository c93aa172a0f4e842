package search_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/mem"
	"github.com/plait-run/plait/internal/view"
	"github.com/plait-run/plait/internal/view/search"
)

// A record is put together without an engine, with an index.
type record struct {
	t     *testing.T
	store *mem.Store
	home  string
	clock int64
}

func newRecord(t *testing.T) *record {
	t.Helper()
	return &record{t: t, store: mem.New(mem.Config{}), home: t.TempDir(), clock: 1_800_000_000_000}
}

func (r *record) index() search.Index {
	return search.New(&view.Reader{Store: r.store, Nodes: thread.NewReader(r.store), Workspace: "/w"}, r.home,
		func(_ context.Context, dir, from, to string) []string {
			return []string{dir[1:] + "/" + from + ".go", to + ".sum"}
		})
}

func (r *record) commit(b store.Batch) {
	r.t.Helper()
	if err := r.store.Commit(r.t.Context(), b); err != nil {
		r.t.Fatal(err)
	}
}

// begin makes a task with a short name, "k001" for 1.
func (r *record) begin(n int, flow, asked string) *line {
	r.t.Helper()
	r.clock++
	objects, row, err := thread.Begin(thread.NewTask{
		Row: store.Thread{ID: fmt.Sprintf("01KA%022d", n), Short: fmt.Sprintf("k%03d", n), CreatedAt: r.clock,
			Workspace: "/w"},
		Prompt: asked, Bundle: thread.Bundle{Name: flow, Flows: map[string]json.RawMessage{flow: json.RawMessage(`{}`)}},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return r.add(objects, row, event.TaskCreated{Flow: flow})
}

func (r *record) add(objects []store.Object, row store.Thread, said event.Payload) *line {
	r.t.Helper()
	r.commit(store.Batch{Objects: objects, Threads: []store.ThreadChange{{Row: row}},
		Events: []store.Event{event.New(row, r.clock, said)}})
	tip, err := thread.NewReader(r.store).Tip(r.t.Context(), row.Head)
	if err != nil {
		r.t.Fatal(err)
	}
	return &line{r, row, tip}
}

// A line is one thread.
type line struct {
	r   *record
	row store.Thread
	tip thread.Tip
}

func (l *line) step(d thread.Draft) dag.Hash {
	l.r.t.Helper()
	l.r.clock++
	d.At = l.r.clock
	if d.Meta == nil {
		d.Meta = json.RawMessage(`{"$status":"done"}`)
	}
	if d.Role == "" {
		d.Role = "worker"
	}
	ch, err := thread.Append(l.row, l.tip, d)
	if err != nil {
		l.r.t.Fatal(err)
	}
	l.r.commit(store.Batch{Objects: ch.Objects, Threads: []store.ThreadChange{{Row: ch.Row, From: l.row.State()}},
		Events: []store.Event{event.New(ch.Row, l.r.clock, event.AttemptCompleted{Step: ch.Row.Head})}})
	l.row, l.tip = ch.Row, ch.Tip
	return ch.Row.Head
}

// did records what an attempt of a step did.
func (l *line) did(attempt string, items ...agent.Event) {
	l.r.t.Helper()
	var list []json.RawMessage
	for _, it := range items {
		data, err := json.Marshal(it)
		if err != nil {
			l.r.t.Fatal(err)
		}
		list = append(list, data)
	}
	at := store.Attempt{ID: attempt}
	l.r.commit(store.Batch{Events: []store.Event{event.OfAttempt(l.row, at, l.r.clock, event.AttemptStarted{}),
		event.OfAttempt(l.row, at, l.r.clock, event.AgentItems{Items: list})}})
}

// found returns what a search finds, as "name found" lines.
func (r *record) found(typed string) (out []string) {
	r.t.Helper()
	for _, h := range r.search(typed).Hits {
		out = append(out, h.Name+" "+h.Found)
	}
	return out
}

func (r *record) search(typed string) *search.Found {
	r.t.Helper()
	q, err := search.Parse(typed, time.UnixMilli(r.clock))
	if err != nil {
		r.t.Fatal(err)
	}
	f, err := r.index().Search(r.t.Context(), q, time.Minute)
	if err != nil {
		r.t.Fatal(err)
	}
	if !f.Index.Complete {
		r.t.Error("the index is not complete")
	}
	return f
}

// expect compares what searches find, whatever the order.
func (r *record) expect(want map[string][]string) {
	r.t.Helper()
	for typed, names := range want {
		got := r.found(typed)
		if diff := cmp.Diff(sorted(names), sorted(got)); diff != "" {
			r.t.Errorf("%s (-want +got):\n%s", typed, diff)
		}
	}
}

func sorted(list []string) map[string]bool {
	m := map[string]bool{}
	for _, s := range list {
		m[s] = true
	}
	return m
}

// bytes returns what the files of the index have.
func (r *record) bytes() (all []byte) {
	files, _ := filepath.Glob(filepath.Join(r.home, "search.db*"))
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			r.t.Fatal(err)
		}
		all = append(all, data...)
	}
	return all
}
