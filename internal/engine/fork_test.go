package engine

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/mem"
)

const race = `
version: 1
name: test
roles: {left: {description: d}, right: {description: d}}
forks: {both: {forkPaths: [{pathId: a, childNodeId: left}, {pathId: b, childNodeId: right}]}}
joins: {first: {forkPathIds: [a, b], joinStrategy: ANY_COMPLETED, losers: wait}}
graph:
  $START: {new: {role: both, prompt: "{{ prompt }}"}}
  left: {done: {role: first}}
  right: {done: {role: first}}
  first: {joined: {role: $END}}
`

// A slow store calls a function after it has read rows of threads by their ids.
type slow struct {
	*mem.Store
	after func()
}

func (s slow) Threads(ctx context.Context, f store.ThreadFilter) ([]store.Thread, error) {
	rows, err := s.Store.Threads(ctx, f)
	if len(f.IDs) > 0 {
		s.after()
	}
	return rows, err
}

// The first end decides a join, even if it and a later one occur while the rows of the paths are read:
// one of them has been continued twice, and the rows of all its threads are not read together.
func TestEndsWhilePathsAreRead(t *testing.T) {
	s, engine, row := setUpFlow(t, race, finish)
	ctx := t.Context()
	first := engine()
	if _, err := first.Drive(ctx, row.ID); err != nil {
		t.Fatal(err)
	}
	paths := map[string]string{}
	rows, err := s.Threads(ctx, store.ThreadFilter{Kind: store.KindPath})
	if err != nil || len(rows) != 2 {
		t.Fatalf("%d paths, %v", len(rows), err)
	}
	for _, p := range rows {
		paths[p.Path.ID] = p.ID
		if p.Path.ID == "a" {
			continue
		}
		at, failed := int64(ulid.MustParse(p.ID).Time()), p
		failed.Status = store.Failed
		batch := store.Batch{Threads: []store.ThreadChange{{Row: failed, From: p.State()}}}
		for n := 2; n <= 3; n++ {
			path := *p.Path
			path.N = n
			failed.ID, failed.Path = thread.DerivedID(at, p.Parent.Thread, p.Parent.From, "b", n), &path
			if n == 3 {
				failed.Status = store.Pending
			}
			batch.Threads = append(batch.Threads, store.ThreadChange{Row: failed})
			paths["b"] = failed.ID
		}
		if err := s.Forge(ctx, batch); err != nil {
			t.Fatal(err)
		}
	}
	var once sync.Once
	other := New(Config{Store: slow{s, func() {
		once.Do(func() { // a has been read, and had not ended
			for _, path := range []string{"a", "b"} {
				if _, err := first.Drive(ctx, paths[path]); err != nil {
					t.Error(err)
				}
			}
		})
	}}, Reader: thread.NewReader(s), Claim: ThreadClaim{s}, Now: func() time.Time { return time.UnixMilli(1) }})
	if _, err := other.Reconcile(ctx, row.ID); err != nil {
		t.Fatal(err)
	}
	if row, err = s.Thread(ctx, row.ID); err != nil {
		t.Fatal(err)
	}
	step, err := thread.NewReader(s).State(ctx, row.Head)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"$status":"` + flow.Joined + `","decidedBy":"a"`
	if got := string(step.Meta); len(got) < len(want) || got[:len(want)] != want {
		t.Errorf("the join says %s, want %s…", got, want)
	}
}

// TestWhatEndsWhileItIsReadIsLookedAtAgain: the row of a path or child may be read again after that of the
// thread that waits for it, and show by then that it has ended.
func TestWhatEndsWhileItIsReadIsLookedAtAgain(t *testing.T) {
	_, engine, _ := setUp(t, "read", finish)
	rule := flow.JoinSpec{Strategy: flow.AllCompleted}
	for name, root := range map[string]*node{
		"a path":              forks("r", by(rule), a("x", store.Running)),
		"a path of a decided": forks("r", decided(rule), a("x", store.Running)),
		"a child":             calls("r", true, a("x", store.Running)),
	} {
		root.below[0].row.Status = store.Completed
		m := movesOf(root)
		changed, err := engine().carryOut(t.Context(), nil, &m)
		if len(m.join)+len(m.returned) != 1 || !changed || err != nil {
			t.Errorf("%s: %s, changed %t, %v", name, what(m), changed, err)
		}
	}
}

// TestDriveWaitsForALook begins to drive a path during a look at its task in the same process: it is driven,
// although the look owns every thread meanwhile.
func TestDriveWaitsForALook(t *testing.T) {
	s, engine, row := setUpFlow(t, race, finish)
	ctx := t.Context()
	if _, err := engine().Drive(ctx, row.ID); err != nil {
		t.Fatal(err)
	}
	paths, err := s.Threads(ctx, store.ThreadFilter{Kind: store.KindPath})
	if err != nil || len(paths) != 2 {
		t.Fatalf("%d paths, %v", len(paths), err)
	}
	e := engine()
	driven := make(chan error, 1)
	e.cfg.Claim = ThreadClaim{looked{s, sync.OnceFunc(func() {
		go func() {
			_, err := e.Drive(ctx, paths[0].ID)
			driven <- err
		}()
		select {
		case err := <-driven: // it has not waited
			driven <- err
		case <-time.After(200 * time.Millisecond):
		}
	})}}
	if _, err := e.Reconcile(ctx, row.ID); err != nil {
		t.Fatal(err)
	}
	if err := <-driven; err != nil {
		t.Fatal(err)
	}
	if path, err := s.Thread(ctx, paths[0].ID); err != nil || !path.Ended() {
		t.Errorf("the path is %s: %v", path.Status, err)
	}
}

// A looked store calls a function while a look owns paths.
type looked struct {
	Store
	now func()
}

func (l looked) Holders(ctx context.Context, names []string) (map[string]string, error) {
	if len(names) > 1 {
		l.now()
	}
	return l.Store.Holders(ctx, names)
}
