package thread

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/mem"
)

// A chain is a thread under test, in its own store.
type chain struct {
	t     *testing.T
	store *mem.Store
	r     *Reader
	row   store.Thread
	tip   Tip
	steps []Step
	reads int

	pointing bool // joins are made as before schema 9
}

func newChain(t *testing.T) *chain {
	c := &chain{t: t}
	c.store = mem.New(mem.Config{Fault: func(op mem.Op, when mem.When) error {
		if (op == mem.OpGet || op == mem.OpMany) && when == mem.Before {
			c.reads++
		}
		return nil
	}})
	c.r = NewReader(c.store)
	objects, row, err := Begin(NewTask{
		Row: store.Thread{ID: "01JD0000000000000000000000", CreatedAt: 1}, Prompt: "the task",
		Bundle: Bundle{Name: "f", Flows: map[string]json.RawMessage{"f": json.RawMessage(`{}`)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	batch := store.Batch{Objects: objects, Threads: []store.ThreadChange{{Row: row}}}
	if err := c.store.Commit(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	c.row = row
	if c.tip, err = c.r.Tip(t.Context(), row.Head); err != nil {
		t.Fatal(err)
	}
	return c
}

// add appends a step and commits it.
func (c *chain) add(d Draft) Step {
	c.t.Helper()
	if d.Meta == nil {
		d.Meta = json.RawMessage(`{"$status":"done"}`)
	}
	ch, err := Append(c.row, c.tip, d)
	if err != nil {
		c.t.Fatal(err)
	}
	err = c.store.Commit(c.t.Context(),
		store.Batch{Objects: ch.Objects, Threads: []store.ThreadChange{{Row: ch.Row, From: c.row.State()}}})
	if err != nil {
		c.t.Fatal(err)
	}
	c.row, c.tip = ch.Row, ch.Tip
	c.steps = append(c.steps, ch.Step)
	return ch.Step
}

func (c *chain) grow(n int) *chain {
	for range n {
		c.add(Draft{Role: "worker", Text: fmt.Sprintf("text %d", len(c.steps)+1), At: int64(len(c.steps))})
	}
	return c
}

func hashes(steps []Step) []dag.Hash {
	out := []dag.Hash{}
	for _, s := range steps {
		out = append(out, s.Hash)
	}
	return out
}

func TestAncestorsAreAWindow(t *testing.T) {
	c := newChain(t).grow(30)
	for i, s := range c.steps {
		want := []dag.Hash{}
		for j := i - 1; j >= 0 && len(want) < Window; j-- {
			want = append(want, c.steps[j].Hash)
		}
		if diff := cmp.Diff(want, s.State.Ancestors); diff != "" {
			t.Errorf("step %d: -want +got\n%s", i+1, diff)
		}
		if s.State.Start != c.row.Start {
			t.Errorf("step %d starts elsewhere", i+1)
		}
	}
}

func TestPagesJump(t *testing.T) {
	c := newChain(t).grow(1000)
	for _, tt := range []struct{ skip, limit, first, n int }{
		{0, 10, 1000, 10}, {1, 1, 999, 1}, {990, 100, 10, 10}, {999, 5, 1, 1}, {1000, 5, 0, 0}, {5000, 5, 0, 0},
	} {
		fresh := NewReader(c.store)
		c.reads = 0
		page, err := fresh.Page(t.Context(), c.row.Head, tt.skip, tt.limit)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) != tt.n || tt.n > 0 && page[0].Hash != c.steps[tt.first-1].Hash {
			t.Errorf("skip %d: got %d steps, want %d from %d", tt.skip, len(page), tt.n, tt.first)
		}
		if most := min(tt.skip, 1000)/Window + tt.limit + 3; c.reads > most {
			t.Errorf("skip %d, limit %d: %d nodes read, want at most %d", tt.skip, tt.limit, c.reads, most)
		}
	}
}

// A counted store counts the requested objects, and the requests.
type counted struct {
	store.Objects
	objects, trips int
}

func (c *counted) Get(ctx context.Context, h dag.Hash) (store.Object, error) {
	c.objects, c.trips = c.objects+1, c.trips+1
	return c.Objects.Get(ctx, h)
}

func (c *counted) Many(ctx context.Context, hs []dag.Hash) ([]store.Object, error) {
	c.objects, c.trips = c.objects+len(hs), c.trips+1
	return c.Objects.Many(ctx, hs)
}

// A caller that walks far makes few requests, and one that stops early reads little that it does not need.
func TestReadAhead(t *testing.T) {
	c := newChain(t).grow(500)
	for _, stop := range []int{1, 2, 3, 5, 12, 100, 500} {
		s := &counted{Objects: c.store}
		n := 0
		for _, err := range NewReader(s).Walk(t.Context(), c.row.Head) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n == stop {
				break
			}
		}
		if n != stop || s.objects > stop+min(stop/3, Window) || s.trips > 12+stop/Window {
			t.Errorf("%d of %d steps: %d objects in %d round trips", n, stop, s.objects, s.trips)
		}
	}
	s := &counted{Objects: c.store}
	got, err := NewReader(s).Digest(t.Context(), c.row.Head)
	want, wantErr := c.r.Digest(t.Context(), c.row.Head)
	if err != nil || wantErr != nil || got != want || s.trips > 70 {
		t.Errorf("the digest is %s after %d round trips, want %s: %v, %v", got.Short(), s.trips, want.Short(), err, wantErr)
	}
}

// A missing step is reported when the walk reaches it.
func TestReadAheadMissing(t *testing.T) {
	c := newChain(t).grow(20)
	gone := c.steps[4].Hash
	_, err := c.store.Sweep(t.Context(), 0, func(store.View) ([]dag.Hash, error) { return []dag.Hash{gone}, nil })
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err = range NewReader(c.store).Walk(t.Context(), c.row.Head) {
		if err != nil {
			break
		}
		n++
	}
	if n != 15 || !errors.Is(err, store.ErrNotFound) || !strings.Contains(err.Error(), gone.Short()) {
		t.Errorf("%d steps, then %v; want 15, then that %s is missing", n, err, gone.Short())
	}
}

func TestWalkAndFind(t *testing.T) {
	c := newChain(t).grow(5)
	got, err := c.r.Steps(t.Context(), c.row.Head)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(hashes(c.steps), hashes(got)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	for _, tt := range []struct {
		name string
		n    int
	}{{"0", 0}, {"3", 3}, {"5", 5}, {c.steps[1].Hash.String(), 2}, {c.steps[1].Hash.String()[:10], 2},
		{c.row.Start.String()[:12], 0}} {
		s, n, err := c.r.Find(t.Context(), c.row.Head, tt.name)
		if err != nil || n != tt.n || (n == 0) != (s.State == nil) {
			t.Errorf("Find(%s) = step %d, %v; want %d", tt.name, n, err, tt.n)
		}
	}
	for _, bad := range []string{"6", "-1", "abc", "ffffffffffff", "", strings.Repeat("a", 70)} {
		if _, _, err := c.r.Find(t.Context(), c.row.Head, bad); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Find(%q): %v, want ErrNotFound", bad, err)
		}
	}
}

func TestBlobsAreNoNodes(t *testing.T) {
	c := newChain(t)
	forged, err := NewContent("forged by an agent", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.store.Stage(t.Context(), "pin", strings.NewReader(string(forged.Data))); err != nil {
		t.Fatal(err)
	}
	if _, err := c.r.Text(t.Context(), forged.Hash); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("bytes that an agent wrote were read as a node: %v", err)
	}
}

func TestDigestLeavesOutTimeAndSummaries(t *testing.T) {
	digest := func(c *chain) dag.Hash {
		d, err := c.r.Digest(t.Context(), c.row.Head)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	a, b, other := newChain(t), newChain(t), newChain(t)
	if !digest(a).IsZero() {
		t.Error("a chain without steps has a digest")
	}
	a.add(Draft{Role: "x", Text: "one", At: 1})
	a.add(Draft{Role: "y", Text: "two", At: 2})
	b.add(Draft{
		Role: "x", Text: "one", At: 100,
		Detail: &Detail{Agent: "other", Attempts: []EarlierAttempt{}, Context: []ContextUse{}},
	})
	b.add(Draft{Role: RoleCompact, Text: "summary", Compact: true, At: 101})
	b.add(Draft{Role: "y", Text: "two", At: 102})
	other.add(Draft{Role: "x", Text: "one", At: 1})
	other.add(Draft{Role: "y", Text: "TWO", At: 2})
	if digest(a) != digest(b) {
		t.Error("time, detail or a summary changed the digest")
	}
	if digest(a) == digest(other) {
		t.Error("another text has the same digest")
	}
}

// A step whose meta is not as it must be stored is refused.
func TestMetaIsACanonicalObject(t *testing.T) {
	for _, meta := range []string{``, `null`, `[]`, `{"b":1,"a":2}`, `{"a": 1}`, `{"a":1}}`} {
		if _, err := Append(store.Thread{}, Tip{IsStart: true},
			Draft{Role: "work", Meta: json.RawMessage(meta)}); err == nil {
			t.Errorf("a step has the meta %q", meta)
		}
	}
}

func TestDerivedIDsAreStable(t *testing.T) {
	h := dag.Sum([]byte("head"))
	id := DerivedID(1_700_000_000_000, "01J", h, "api", 0)
	if again := DerivedID(1_700_000_000_000, "01J", h, "api", 0); again != id {
		t.Errorf("made twice: %s and %s", id, again)
	}
	if parsed, err := ParseID(strings.ToLower(id)); err != nil || parsed != id {
		t.Errorf("ParseID: %s, %v", parsed, err)
	}
	for _, other := range []string{
		DerivedID(1_700_000_000_000, "01K", h, "api", 0), DerivedID(1_700_000_000_000, "01J", dag.Sum(nil), "api", 0),
		DerivedID(1_700_000_000_000, "01J", h, "db", 0), DerivedID(1_700_000_000_000, "01J", h, "api", 1),
		DerivedID(1_700_000_000_001, "01J", h, "api", 0),
	} {
		if other == id {
			t.Error("two different things have one id")
		}
	}
}
