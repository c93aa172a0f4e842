package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/housetest"
	"github.com/plait-run/plait/internal/testing/storetest"
	"github.com/plait-run/plait/plaitd/pgtest"
	"github.com/plait-run/plait/plaitd/postgres"
)

// TestMain makes the test binary the process that is stopped or killed, if a test starts it as
// that.
func TestMain(m *testing.M) {
	for env, be := range map[string]func(string) error{zombieEnv: beZombie, stagerEnv: beStager, writerEnv: beWriter,
		historyEnv: writeHistory} {
		if url := os.Getenv(env); url != "" {
			if err := be(url); err != nil {
				fmt.Println("error", err)
				os.Exit(1)
			}
			return
		}
	}
	housetest.OwnMounts()
	os.Exit(m.Run())
}

// quick returns a config with little patience for a single answer, so that tests do not wait
// for what will never come.
func quick(url string) postgres.Config {
	return postgres.Config{URL: url, Try: 400 * time.Millisecond, Look: 100 * time.Millisecond}
}

// newRecord makes a database with a schema, and returns its URL.
func newRecord(t *testing.T, s *pgtest.Server) string {
	t.Helper()
	url := s.Database(t)
	if _, _, err := postgres.Migrate(t.Context(), postgres.Config{URL: url}); err != nil {
		t.Fatal(err)
	}
	return url
}

func open(t *testing.T, c postgres.Config) store.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// A line is a thread that only its owner advances.
type line struct {
	row   store.Thread
	texts []string // of its steps that were reported as committed
}

func id(n int) string { return fmt.Sprintf("01J%023d", n) }

func node(text string) store.Object {
	return store.Object{Hash: dag.Sum([]byte(text)), Kind: store.Node, Data: []byte(text)}
}

// begin makes a thread.
func begin(ctx context.Context, s store.Store, id string) (*line, error) {
	o := node("start of " + id)
	row := store.Thread{ID: id, Task: id, Root: id, Short: id[len(id)-6:], Kind: store.KindRoot, Start: o.Hash,
		Head: o.Hash, Status: store.Running}
	return &line{row: row}, s.Commit(ctx, store.Batch{Objects: []store.Object{o},
		Threads: []store.ThreadChange{{Row: row}}})
}

// step moves the thread to a new node and records it in an event called text.
func (l *line) step(ctx context.Context, s store.Store, text string) error {
	o := node(text + " of " + l.row.ID)
	next := l.row
	next.Head = o.Hash
	next.Steps++
	err := s.Commit(ctx, store.Batch{
		Objects: []store.Object{o},
		Threads: []store.ThreadChange{{Row: next, From: l.row.State()}},
		Events:  []store.Event{{Type: text, Task: l.row.Task, Thread: l.row.ID}},
	})
	if err == nil {
		l.row = next
		l.texts = append(l.texts, text)
	}
	return err
}

// check compares the record with what was reported: each line's steps are there, once and in
// order, and positions have no gap.
func check(t *testing.T, s store.Store, lines ...*line) {
	t.Helper()
	all, err := s.Events(t.Context(), 0, store.EventFilter{})
	if err != nil {
		t.Fatal(err)
	}
	told := map[string][]string{}
	for i, e := range all {
		if e.Pos != int64(i+1) {
			t.Fatalf("event %d of the journal is at %d", i+1, e.Pos)
		}
		told[e.Thread] = append(told[e.Thread], e.Type)
	}
	for _, l := range lines {
		if !slices.Equal(told[l.row.ID], l.texts) {
			t.Errorf("%s: the journal has %d steps, %d were reported: %q, %q", l.row.ID, len(told[l.row.ID]), len(l.texts),
				told[l.row.ID], l.texts)
		}
		row, err := s.Thread(t.Context(), l.row.ID)
		if err != nil || row.Head != l.row.Head || row.Steps != l.row.Steps {
			t.Errorf("%s is at %s after %d steps, reported were %s and %d (%v)", l.row.ID, row.Head, row.Steps, l.row.Head,
				l.row.Steps, err)
		}
		for i, text := range l.texts {
			if _, err := s.Get(t.Context(), node(text+" of "+l.row.ID).Hash); err != nil {
				t.Errorf("step %d of %s: %v", i+1, l.row.ID, err)
			}
		}
	}
	if wrong, err := s.Check(t.Context()); err != nil || len(wrong) > 0 {
		t.Errorf("check: %q, %v", wrong, err)
	}
	if err := storetest.CheckLog(t.Context(), s); err != nil {
		t.Error(err)
	}
}

// TestCounts has 16 writers, on four handles, at the limit of what all may use together.
func TestCounts(t *testing.T) {
	t.Parallel()
	const most, writers, tries = 100, 16, 20
	url := newRecord(t, pgtest.Shared(t))
	var handles []store.Store
	for range 4 {
		handles = append(handles, open(t, postgres.Config{URL: url}))
	}
	if _, err := begin(t.Context(), handles[0], id(1)); err != nil {
		t.Fatal(err)
	}
	var (
		mu             sync.Mutex
		taken, refused int
		wait           sync.WaitGroup
	)
	for i := range writers {
		wait.Go(func() {
			for n := range tries {
				err := handles[i%len(handles)].Commit(t.Context(), store.Batch{
					Counts: []store.Count{{Task: id(1), Name: "attempts", Add: 1, Most: most}},
					Events: []store.Event{{Type: fmt.Sprintf("%d-%d", i, n), Task: id(1), Thread: id(1)}},
				})
				mu.Lock()
				switch {
				case err == nil:
					taken++
				case errors.Is(err, store.ErrConflict):
					refused++
				default:
					t.Error(err)
				}
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	if taken != most || refused != writers*tries-most {
		t.Errorf("%d were let through and %d refused, where %d may", taken, refused, most)
	}
	all, err := handles[0].Events(t.Context(), 0, store.EventFilter{})
	if err != nil || len(all) != most {
		t.Errorf("%d events of %d (%v)", len(all), most, err)
	}
}

// heed takes account of a step whose outcome was unknown.
func (l *line) heed(t *testing.T, s store.Store) {
	t.Helper()
	row, err := s.Thread(t.Context(), l.row.ID)
	if err != nil {
		t.Fatal(err)
	}
	all, err := s.Events(t.Context(), 0, store.EventFilter{Thread: l.row.ID})
	if err != nil {
		t.Fatal(err)
	}
	if row.Steps == l.row.Steps+1 && len(all) == len(l.texts)+1 {
		l.texts = append(l.texts, all[len(all)-1].Type)
		l.row = row
	}
}
