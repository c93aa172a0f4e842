package gc_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/gc"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/mem"
)

func TestGraceDryRunAndTwice(t *testing.T) {
	forEachStore(t, func(t *testing.T, now *clock, s, _ store.Store) {
		_, live := begin(t, s, "A")
		child := content(t, "below garbage")
		garbage := content(t, "garbage", child.Hash)
		big := blob(strings.Repeat("x", 300<<10))
		if _, _, err := s.Stage(ctx, "p", strings.NewReader(string(big.Data))); err != nil {
			t.Fatal(err)
		}
		commit(t, s, store.Batch{Objects: []store.Object{child, garbage}, Unpin: []string{"p"}})
		size := int64(len(child.Data) + len(garbage.Data) + len(big.Data))

		now.advance(30 * time.Minute)
		cfg := gc.Config{Store: s, Now: now.now, Grace: -1}
		got, err := gc.Run(ctx, cfg)
		if want := (gc.Result{Scanned: len(live) + 3, Reachable: len(live), Kept: 3}); err != nil ||
			!cmp.Equal(got, want) {
			t.Errorf("within the grace: %+v, %v, want %+v", got, err, want)
		}

		now.advance(31 * time.Minute)
		before := kept(t, s)
		plan, err := gc.Plan(ctx, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if len(plan.Hashes) != 3 || plan.Deleted != 3 || plan.Bytes != size {
			t.Errorf("plan: %+v, want 3 objects of %d bytes", plan, size)
		}
		if diff := cmp.Diff(before, kept(t, s)); diff != "" {
			t.Errorf("a plan changed the store:\n%s", diff)
		}
		done, err := gc.Run(ctx, cfg)
		if diff := cmp.Diff(plan, done); err != nil || diff != "" {
			t.Errorf("run does not do what was planned: %v\n%s", err, diff)
		}
		for _, o := range []store.Object{child, garbage, big} {
			mustBeGone(t, s, o.Hash)
		}
		again, err := gc.Run(ctx, cfg)
		if want := (gc.Result{Scanned: len(live), Reachable: len(live)}); err != nil || !cmp.Equal(again, want) {
			t.Errorf("second run: %+v, %v, want %+v", again, err, want)
		}
	})
}

func TestNoGrace(t *testing.T) {
	forEachStore(t, func(t *testing.T, now *clock, s, _ store.Store) {
		o := blob("just put")
		commit(t, s, store.Batch{Objects: []store.Object{o}})
		if r, err := gc.Run(ctx, gc.Config{Store: s, Now: now.now}); err != nil || r.Deleted != 1 {
			t.Errorf("run: %+v, %v, want 1 deleted", r, err)
		}
	})
}

func TestPins(t *testing.T) {
	forEachStore(t, func(t *testing.T, now *clock, s, _ store.Store) {
		h, _, err := s.Stage(ctx, "A.1", strings.NewReader("pinned"))
		if err != nil {
			t.Fatal(err)
		}
		cfg := gc.Config{Store: s, Now: now.now}
		want := gc.Result{Scanned: 1, Kept: 1}
		if got, err := gc.Plan(ctx, cfg); err != nil || !cmp.Equal(got, want) {
			t.Errorf("plan: %+v, %v, want %+v", got, err, want)
		}
		if got, err := gc.Run(ctx, cfg); err != nil || !cmp.Equal(got, want) {
			t.Errorf("run: %+v, %v, want %+v", got, err, want)
		}
		commit(t, s, store.Batch{Unpin: []string{"A.1"}})
		if got, err := gc.Run(ctx, cfg); err != nil || got.Deleted != 1 {
			t.Errorf("run without the pin: %+v, %v", got, err)
		}
		mustBeGone(t, s, h)
	})
}

// A run compacts the store with its grace period; a plan does not.
func TestCompacts(t *testing.T) {
	now := newClock()
	s := &compacted{Store: mem.New(mem.Config{Now: now.now})}
	if _, err := gc.Run(ctx, gc.Config{Store: s, Now: now.now, Grace: time.Minute}); err != nil {
		t.Fatal(err)
	}
	if want := []time.Duration{time.Minute}; !cmp.Equal(s.calls, want) {
		t.Errorf("compacted with a grace of %v, want %v", s.calls, want)
	}
	if _, err := gc.Plan(ctx, gc.Config{Store: s, Now: now.now}); err != nil || len(s.calls) != 1 {
		t.Errorf("a plan compacts: %v, %v", s.calls, err)
	}
}

type compacted struct {
	store.Store
	calls []time.Duration
}

func (c *compacted) Compact(_ ctxT, grace time.Duration) error {
	c.calls = append(c.calls, grace)
	return nil
}

// Every kind of row keeps what it names until the row itself is removed.
func TestRoots(t *testing.T) {
	forEachStore(t, func(t *testing.T, now *clock, s, _ store.Store) {
		row, _ := begin(t, s, "A")
		named := map[string]store.Object{}
		for _, name := range []string{"parent", "fork", "origin", "decision", "prompt", "transcript", "stderr", "pin",
			"calls",
			"diff", "action", "approved", "flow", "history", "files"} {
			named[name] = blob(name)
		}
		var objects []store.Object
		for _, o := range named {
			objects = append(objects, o)
		}
		h := func(name string) dag.Hash { return named[name].Hash }
		was := row
		row.Parent = &store.Parent{Thread: "P", From: h("parent")}
		row.Path = &store.Path{Fork: h("fork")}
		row.ForkedFrom = &store.ForkedFrom{Step: h("origin")}
		row.Files = h("files")
		row.Decision, _ = json.Marshal(map[string]any{"paths": []any{h("decision"), dag.Sum([]byte("not stored"))}})
		action, _ := json.Marshal(map[string]any{"diff": h("action")})
		edited, _ := json.Marshal(map[string]any{"diff": h("approved")})
		commit(t, s, store.Batch{
			Objects: objects,
			Threads: []store.ThreadChange{{Row: row, From: was.State()}},
			Attempts: []store.AttemptChange{{Row: store.Attempt{
				ID: "A.1", Thread: "A", N: 1, Status: store.AttemptFailed,
				Prompt: h("prompt"), Transcript: h("transcript"), Stderr: h("stderr"), Pins: []dag.Hash{h("pin")},
				Calls: h("calls"),
			}}},
			Gates: []store.GateChange{
				{Row: store.Gate{ID: "G", Task: "A", Thread: "A", State: store.GateOpen, Diff: h("diff"),
					Action: action, Edited: edited}}},
			Flows: []store.FlowChange{
				{Row: store.Flow{Name: "audit", Hash: h("flow"), History: []store.Version{{Hash: h("history")}}}}},
		})
		now.advance(time.Hour)
		cfg := gc.Config{Store: s, Now: now.now}
		if r, err := gc.Run(ctx, cfg); err != nil || r.Deleted != 0 {
			t.Fatalf("run: %+v, %v, want nothing deleted", r, err)
		}
		for name, want := range map[string]string{
			"parent": "call or fork point of thread A (blob)", "fork": "fork of path A (blob)",
			"origin":   "origin of fork A (blob)",
			"decision": "pending decision of thread A (blob)", "prompt": "prompt of attempt A.1 (blob)",
			"transcript": "transcript of attempt A.1 (blob)", "stderr": "stderr of attempt A.1 (blob)",
			"pin": "pin of attempt A.1 (blob)", "calls": "calls of attempt A.1 (blob)",
			"diff": "diff of gate G (blob)", "action": "action of gate G (blob)",
			"approved": "approved action of gate G (blob)", "files": "files of thread A (blob)",
			"flow": "flow audit in the registry (blob)", "history": "flow audit in the registry, history 1 (blob)",
		} {
			why, err := gc.Why(ctx, cfg, h(name))
			if want := []gc.Link{{Hash: h(name), What: want}}; err != nil || !cmp.Equal(why.Links, want) {
				t.Errorf("why %s: %+v, %v, want %+v", name, why, err, want)
			}
		}
		commit(t, s, store.Batch{Remove: []string{"A"},
			Flows: []store.FlowChange{{Row: store.Flow{Name: "audit"}, From: h("flow"), Delete: true}}})
		if _, err := gc.Run(ctx, cfg); err != nil {
			t.Fatal(err)
		}
		if left := kept(t, s); len(left) != 0 {
			t.Errorf("after the rows are gone, %d objects are left", len(left))
		}
	})
}

func TestWhy(t *testing.T) {
	now := newClock()
	s := mem.New(mem.Config{Now: now.now})
	row, objects := begin(t, s, "A")
	text := objects[2]
	loose := blob("loose")
	pinned, _, err := s.Stage(ctx, "A.1", strings.NewReader("pinned"))
	if err != nil {
		t.Fatal(err)
	}
	commit(t, s, store.Batch{Objects: []store.Object{loose}})
	now.advance(10 * time.Minute)
	tests := []struct {
		name  string
		hash  dag.Hash
		grace time.Duration
		want  gc.Reason
	}{
		{"chain", text.Hash, 0,
			gc.Reason{Links: []gc.Link{{Hash: row.Head, What: "head of thread A (state planner)"},
				{Hash: text.Hash, What: "content"}}}},
		{"root", row.Start, 0, gc.Reason{Links: []gc.Link{{Hash: row.Start, What: "start of thread A (start f)"}}}},
		{"pin", pinned, 0, gc.Reason{Links: []gc.Link{{Hash: pinned, What: "pinned by a running attempt (blob)"}}}},
		{"garbage", loose.Hash, time.Minute, gc.Reason{Links: []gc.Link{}}},
		{"grace", loose.Hash, -1,
			gc.Reason{Links: []gc.Link{}, Grace: "put 2023-11-14T22:13:20Z, kept until 2023-11-14T23:13:20Z"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := gc.Why(ctx, gc.Config{Store: s, Now: now.now, Grace: tt.grace}, tt.hash)
			if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
				t.Errorf("why: %v\n%s", err, diff)
			}
		})
	}
	if _, err := gc.Why(ctx, gc.Config{Store: s}, dag.Sum([]byte("never put"))); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("why of what is not there: %v, want not found", err)
	}
}

func TestMissing(t *testing.T) {
	now := newClock()
	s := mem.New(mem.Config{Now: now.now})
	row, objects := begin(t, s, "A")
	text := objects[2]
	commit(t, s, store.Batch{Objects: []store.Object{blob("garbage")}})
	now.advance(2 * time.Hour)
	s.Lose(text.Hash)
	before := kept(t, s)
	cfg := gc.Config{Store: s, Now: now.now}
	_, planErr := gc.Plan(ctx, cfg)
	_, runErr := gc.Run(ctx, cfg)
	for _, err := range []error{planErr, runErr} {
		var missing *gc.MissingError
		if !errors.As(err, &missing) {
			t.Fatalf("error %v, want a MissingError", err)
		}
		want := []gc.Link{{Hash: row.Head, What: "head of thread A (state planner)"},
			{Hash: text.Hash, What: "missing"}}
		if diff := cmp.Diff(want, missing.Path); missing.Hash != text.Hash || diff != "" {
			t.Errorf("missing %s by the path\n%s", missing.Hash, diff)
		}
		if !strings.Contains(err.Error(), "reached from the head of thread A") {
			t.Errorf("error text: %v", err)
		}
	}
	if diff := cmp.Diff(before, kept(t, s)); diff != "" {
		t.Errorf("something was deleted:\n%s", diff)
	}
}

func TestCorruptNodeStopsIt(t *testing.T) {
	now := newClock()
	s := mem.New(mem.Config{Now: now.now})
	row, _ := begin(t, s, "A")
	commit(t, s, store.Batch{Objects: []store.Object{blob("garbage")}})
	now.advance(2 * time.Hour)
	s.Corrupt(row.Head, func(b []byte) []byte { b[20] ^= 1; return b })
	before := len(kept(t, s))
	if _, err := gc.Run(ctx, gc.Config{Store: s, Now: now.now}); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("run: %v, want corrupt", err)
	}
	if got := len(kept(t, s)); got != before {
		t.Errorf("%d objects are left of %d", got, before)
	}
}

// A damaged object that nothing reaches is garbage like any other.
func TestCorruptGarbageGoes(t *testing.T) {
	now := newClock()
	s := mem.New(mem.Config{Now: now.now})
	o := content(t, "garbage")
	commit(t, s, store.Batch{Objects: []store.Object{o}})
	s.Corrupt(o.Hash, func(b []byte) []byte { b[0] ^= 1; return b })
	if r, err := gc.Run(ctx, gc.Config{Store: s, Now: now.now}); err != nil || r.Deleted != 1 {
		t.Errorf("run: %+v, %v, want 1 deleted", r, err)
	}
}
