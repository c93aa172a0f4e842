package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// TestManyGates checks that the inbox shows only some of many gates, and that one whose task
// or diff is missing hides none of the others.
func TestManyGates(t *testing.T) {
	h := newHouse(t, gatedAgents())
	row := h.run(asking, "the first")
	first := h.gate(row.ID)
	approval := h.gate(h.run(gated, "the second").ID)
	var b store.Batch
	add := func(g store.Gate, id string) *store.Gate {
		g.ID, g.OpenedAt = id, approval.OpenedAt+int64(len(b.Gates))+1 // after both, no matter how long the second took
		b.Gates = append(b.Gates, store.GateChange{Row: g})
		return &b.Gates[len(b.Gates)-1].Row
	}
	lost := add(approval, "lost")
	lost.Diff = dag.Sum([]byte("what nobody keeps"))
	gone := add(first, "gone")
	gone.Task, gone.Thread = "01K00000000000000000000000", "01K00000000000000000000000"
	for i := range shownGates {
		add(first, fmt.Sprintf("g%d", i))
	}
	h.store.Store = broken{h.store.Store, b}
	s := h.open("")
	res := s.get("/")
	for _, want := range []string{`data-key="i` + first.ID, `data-key="i` + approval.ID, `data-key="ilost"`,
		`data-key="ig10"`, `id="gate-` + first.ID, `class="count">103<`, "3 newer ones appear"} {
		if !strings.Contains(res.body, want) {
			t.Errorf("the inbox (%d) has no %q", res.code, want)
		}
	}
	if n := strings.Count(res.body, `<li data-row`); n != shownGates {
		t.Errorf("%d gates are shown, want %d", n, shownGates)
	}
	if page := s.get("/?at=g99").body; !strings.Contains(page, `id="gate-g99"`) {
		t.Error("a question that is not in the list cannot be opened")
	}
	_, card, _ := strings.Cut(s.get("/?at=lost").body, `id="gate-lost"`)
	card, _, _ = strings.Cut(card, "</section>")
	if !strings.Contains(card, "cannot be approved here") || strings.Contains(card, ">Approve<") ||
		!strings.Contains(card, ">Deny<") {
		t.Errorf("what is not shown whole can be approved: %s", card)
	}
}

// A broken store has gates that no intact store has.
type broken struct {
	store.Store
	more store.Batch
}

func (s broken) Gates(ctx context.Context, f store.GateFilter) ([]store.Gate, error) {
	rows, err := s.Store.Gates(ctx, f)
	for _, g := range s.more.Gates {
		if f.Task == "" || f.Task == g.Row.Task {
			rows = append(rows, g.Row)
		}
	}
	return rows, err
}

// TestLongTexts checks that pages show the beginning of long texts, and where to find the rest.
func TestLongTexts(t *testing.T) {
	long := "begin " + strings.Repeat("é", 400_000) + " finis"
	agents := gatedAgents()
	agents["work"], agents["assistant"] = say("---\n$status: done\n---\n"+long), say(long)
	h := newHouse(t, agents)
	row, chat := h.run(chatty, "be brief"), h.chat("hello")
	s := h.open("")
	for _, path := range []string{"/threads/" + row.ID, "/chats/" + chat.ID} {
		res := s.get(path)
		if res.code != http.StatusOK || !strings.Contains(res.body, "begin éé") || strings.Contains(res.body, "finis") ||
			strings.Contains(res.body, "\ufffd") || !strings.Contains(res.body, "has all of it") || len(res.body) > 200_000 {
			t.Errorf("%s: %d, %d bytes", path, res.code, len(res.body))
		}
	}
	list := h.steps(row.ID)
	if res := s.get("/steps/" + list[0].String() + "?thread=" + row.ID); !strings.Contains(res.body, " finis") {
		t.Errorf("the step: %d, %d bytes, not whole", res.code, len(res.body))
	}
}

// steps returns the hashes of a thread's steps, oldest first.
func (h *house) steps(id string) (hashes []dag.Hash) {
	h.t.Helper()
	for s, err := range h.controller().Reader().Walk(h.t.Context(), h.thread(id).Head) {
		if err != nil {
			h.t.Fatal(err)
		}
		hashes = append([]dag.Hash{s.Hash}, hashes...)
	}
	return hashes
}

// TestManyDeeds checks that the page of a step with very much activity shows the newest.
func TestManyDeeds(t *testing.T) {
	h := newHouse(t, gatedAgents())
	row := h.chat("hello")
	d := h.steps(row.ID)[0]
	v, err := h.open("").srv.views.Step(t.Context(), d, false)
	if err != nil {
		t.Fatal(err)
	}
	var b store.Batch
	for i := range shownDone + 700 {
		payload := fmt.Sprintf(`{"items":[{"kind":"message","text":"word %d."}]}`, i)
		b.Events = append(b.Events, store.Event{Type: "agent.item", Task: row.ID, Thread: row.ID, Attempt: v.Detail.Attempt,
			Payload: json.RawMessage(payload)})
	}
	if err := h.store.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	res := h.open("").get("/steps/" + d.String() + "?thread=" + row.ID)
	if n := strings.Count(res.body, "<p>word "); n != shownDone || !strings.Contains(res.body, "word 1199.") ||
		!strings.Contains(res.body, "701 entries came before") {
		t.Errorf("%d things are shown: %d", n, res.code)
	}
}

// TestNothingBegins checks that a server that is ending refuses new jobs or waits for them.
func TestNothingBegins(t *testing.T) {
	for range 50 {
		ctx, stop := context.WithCancel(t.Context())
		w := &work{ctx: ctx,
			open: func(context.Context, store.Thread) (*control.Controller, error) { return nil, nil }}
		var running atomic.Int32
		begun := make(chan struct{})
		go func() {
			defer close(begun)
			for i := range 20 {
				err := w.begin(store.Thread{Root: fmt.Sprint(i)}, func(ctx context.Context, _ *control.Controller) error {
					running.Add(1)
					defer running.Add(-1)
					<-ctx.Done()
					return ctx.Err()
				})
				if err != nil && asProblem(err).code != http.StatusServiceUnavailable {
					t.Error(err)
				}
			}
		}()
		stop()
		w.end()
		if n := running.Load(); n != 0 {
			t.Fatalf("%d run after the end", n)
		}
		<-begun
		if n := running.Load(); n != 0 {
			t.Fatalf("%d began after the end", n)
		}
	}
}

// TestHubGoesOn checks that a failed read is repeated, and that pages miss nothing.
func TestHubGoesOn(t *testing.T) {
	h := newHouse(t, nil)
	row, loud := h.begin(chatty, "talk"), store.EventFilter{Types: []string{"notes.read"}}
	flaky := &failing{Store: h.store}
	flaky.left.Store(1)
	hub := newHub(flaky)
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { hub.run(ctx) })
	defer run.Wait()
	defer cancel()
	eventually(t, "the beginning", func() error {
		if _, at, _, err := hub.after(t.Context(), 0, loud); err != nil || at == 0 {
			return fmt.Errorf("at %d: %v", at, err)
		}
		return nil
	})
	flaky.left.Store(1)
	h.emit(row, 3, "notes.read")
	eventually(t, "the news", func() error {
		events, _, _, err := hub.after(t.Context(), 1, loud)
		if err != nil || len(events) != 3 {
			return fmt.Errorf("%d events: %v", len(events), err)
		}
		return nil
	})
}

// A failing store's Wait fails a number of times.
type failing struct {
	store.Store
	left atomic.Int32
}

func (s *failing) Wait(ctx context.Context, pos int64) (int64, error) {
	if s.left.Add(-1) >= 0 {
		return 0, store.ErrCorrupt
	}
	return s.Store.Wait(ctx, pos)
}

// TestProjectFlows checks that the name of a workspace is not used as a pattern.
func TestProjectFlows(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "[a]*")
	for _, name := range []string{".plait/flows/one.yaml", ".workflows/two/index.yaml", ".workflows/not a name.yml"} {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h := newHouse(t, nil)
	project := func() (names []string) {
		known, err := h.open("").srv.knownFlows(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range known {
			if l.From == fromProject {
				names = append(names, l.Name)
			}
		}
		return names
	}
	if got := project(); len(got) != 0 {
		t.Errorf("of a workspace without flows: %q", got)
	}
	h.dir = dir
	if got := project(); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("got %q", got)
	}
}
