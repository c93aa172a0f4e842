package history_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/record/history"
	"github.com/plait-run/plait/internal/record/store"
)

// A desk is a store that files as many entries as a batch has events.
type desk struct {
	store.Store
	mu     sync.Mutex
	size   int
	fails  error
	closed bool
}

func (d *desk) Commit(_ context.Context, b store.Batch) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fails == nil {
		d.size += len(b.Events)
	}
	return d.fails
}

func (d *desk) now() *journal {
	d.mu.Lock()
	defer d.mu.Unlock()
	return filed(d.size, 0)
}

func (d *desk) Log(ctx context.Context) (store.Log, error) { return d.now().Log(ctx) }

func (d *desk) Entries(ctx context.Context, after int64, limit int) ([]store.LogEntry, error) {
	return d.now().Entries(ctx, after, limit)
}

func (d *desk) Close() error {
	d.closed = true
	return nil
}

// TestNotary files at certain times, and compares when what was signed.
func TestNotary(t *testing.T) {
	type filing struct {
		at    time.Duration
		batch store.Batch
	}
	type signing struct {
		At   time.Duration
		Size int64
	}
	task := func(s store.Status, root string) store.Batch {
		return store.Batch{Events: make([]store.Event, 2),
			Threads: []store.ThreadChange{{Row: store.Thread{ID: "a", Root: root, Status: s}}}}
	}
	runs, ends, part := task(store.Running, "a"), task(store.Completed, "a"), task(store.Completed, "b")
	quiet := store.Batch{Counts: []store.Count{{}}}
	for name, x := range map[string]struct {
		filed []filing
		want  []signing // the process ends after a minute
	}{
		"nothing":        {nil, nil},
		"no event":       {[]filing{{0, quiet}}, nil},
		"after activity": {[]filing{{0, runs}, {3 * time.Second, runs}}, []signing{{10 * time.Second, 4}}},
		"all the time": {[]filing{{0, runs}, {15 * time.Second, runs}},
			[]signing{{10 * time.Second, 2}, {25 * time.Second, 4}}},
		"at the end":        {[]filing{{0, runs}, {3 * time.Second, ends}}, []signing{{3 * time.Second, 4}}},
		"an end alone":      {[]filing{{3 * time.Second, ends}}, []signing{{3 * time.Second, 2}}},
		"a part ended":      {[]filing{{3 * time.Second, part}}, []signing{{13 * time.Second, 2}}},
		"when it is closed": {[]filing{{0, ends}, {55 * time.Second, runs}}, []signing{{0, 2}, {time.Minute, 4}}},
	} {
		t.Run(name, func(t *testing.T) {
			k := history.Kept{File: filepath.Join(t.TempDir(), "checkpoint")}
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var got []signing
				d := &desk{}
				n := history.NewNotary(d, history.NotaryConfig{Kept: k,
					Sign: func(head history.Checkpoint) ([]byte, error) {
						got = append(got, signing{time.Since(began), head.Size})
						return plain(head)
					},
					Failed: func(err error) { t.Error(err) }})
				for _, f := range x.filed {
					time.Sleep(f.at - time.Since(began))
					if err := n.Commit(t.Context(), f.batch); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
				}
				time.Sleep(time.Minute - time.Since(began))
				if err := n.Close(); err != nil || !d.closed {
					t.Errorf("closed is %v, %v", d.closed, err)
				}
				if diff := cmp.Diff(x.want, got); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// TestShown shows the log to witnesses at the ends of tasks, once for each workspace.
func TestShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shown []string
		away := errors.New("away")
		kept := history.Kept{File: filepath.Join(t.TempDir(), "checkpoint")}
		n := history.NewNotary(&desk{}, history.NotaryConfig{Kept: kept, Sign: plain,
			Show: func(_ context.Context, _ store.Journal, workspace string) error {
				shown = append(shown, workspace)
				return away
			}})
		for _, row := range []store.Thread{{ID: "a", Root: "a", Workspace: "/a"}, {ID: "b", Root: "a", Workspace: "/a",
			Status: store.Completed}, {ID: "a", Root: "a", Workspace: "/a", Status: store.Completed}} {
			b := store.Batch{Events: make([]store.Event, 1), Threads: []store.ThreadChange{{Row: row}}}
			if err := n.Commit(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if err := n.Close(); !errors.Is(err, away) || !strings.Contains(err.Error(), "not every witness") {
			t.Errorf("closed with %v", err)
		}
		if diff := cmp.Diff([]string{"/a"}, shown); diff != "" {
			t.Error(diff)
		}
	})
}

// TestNotSigned refuses to sign, and to file: one does not keep from the other.
func TestNotSigned(t *testing.T) {
	refused, d := errors.New("refused"), &desk{}
	said := 0
	n := history.NewNotary(d, history.NotaryConfig{Kept: history.Kept{File: filepath.Join(t.TempDir(), "checkpoint")},
		Sign: func(history.Checkpoint) ([]byte, error) { return nil, refused }, Failed: func(error) { said++ }})
	b := store.Batch{Events: make([]store.Event, 1)}
	d.fails = store.ErrConflict
	if err := n.Commit(t.Context(), b); !errors.Is(err, store.ErrConflict) {
		t.Errorf("got %v", err)
	}
	d.fails = nil
	if err := n.Commit(t.Context(), b); err != nil {
		t.Error(err)
	}
	if err := n.Close(); !d.closed || !errors.Is(err, refused) || said != 1 {
		t.Errorf("closed with %v, which was said %d times before", err, said)
	}
}
