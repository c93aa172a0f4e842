package gate_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/mem"
)

var (
	headA = dag.Sum([]byte("a"))
	headB = dag.Sum([]byte("b"))
)

// A desk is a service on an in-memory store, with a clock that the test moves.
type desk struct {
	*testing.T
	*gate.Service
	store *mem.Store
	now   time.Time
}

func newDesk(t *testing.T) *desk {
	d := &desk{T: t, store: mem.New(mem.Config{Proven: true}), now: time.UnixMilli(1000)}
	d.Service = gate.New(gate.Config{Store: d.store, Now: func() time.Time { return d.now }})
	return d
}

func (d *desk) later(by time.Duration) { d.now = d.now.Add(by) }

func command(text string) json.RawMessage {
	raw, err := json.Marshal(gate.Action{Type: gate.Command, Command: text})
	if err != nil {
		panic(err)
	}
	return raw
}

func approval(text string) store.Gate {
	return store.Gate{
		Kind: store.GateApproval, Source: store.SourceAgent, Task: "T", Thread: "T", Node: "coder",
		Instance: "coder-1", Attempt: "T.1", From: headA, Action: command(text),
	}
}

func question(text string) store.Gate {
	return store.Gate{Kind: store.GateInput, Source: store.SourceFlow, Task: "T", Thread: "T", From: headA, Question: text}
}

func (d *desk) open(g store.Gate) store.Gate {
	d.Helper()
	g, err := d.Open(d.Context(), g)
	if err != nil {
		d.Fatal(err)
	}
	return g
}

func (d *desk) answer(g store.Gate, a gate.Answer) store.Gate {
	d.Helper()
	if a.Via == "" {
		a.By, a.Via = "ada", store.ViaCLI
	}
	g, err := d.Answer(d.Context(), g.ID, a)
	if err != nil {
		d.Fatal(err)
	}
	return g
}

func (d *desk) use(g store.Gate) store.Gate {
	d.Helper()
	g, err := d.Use(d.Context(), g)
	if err != nil {
		d.Fatal(err)
	}
	return g
}

func (d *desk) events() (types []string) {
	d.Helper()
	events, err := d.store.Events(d.Context(), 0, store.EventFilter{})
	if err != nil {
		d.Fatal(err)
	}
	for _, e := range events {
		types = append(types, e.Type)
	}
	return types
}

// inState fails unless err is a StateError of a gate in state.
func inState(t *testing.T, err error, state store.GateState) {
	t.Helper()
	var se *gate.StateError
	if !errors.As(err, &se) || se.Gate.State != state || !errors.Is(err, store.ErrConflict) {
		t.Errorf("got %v, want a StateError of a gate that is %s", err, state)
	}
	if errors.Is(err, gate.ErrExpired) != (state == store.GateExpired) {
		t.Errorf("%v: is ErrExpired: %v", err, errors.Is(err, gate.ErrExpired))
	}
}

func TestLife(t *testing.T) {
	d := newDesk(t)
	g := d.open(approval("make"))
	digest, err := gate.Digest("T", command("make"))
	if err != nil {
		t.Fatal(err)
	}
	want := approval("make")
	want.ID, want.State, want.Digest, want.Grant, want.OpenedAt = g.ID, store.GateOpen, digest, store.GrantOnce, 1000
	if diff := cmp.Diff(want, g); diff != "" {
		t.Errorf("opened (-want +got):\n%s", diff)
	}
	d.later(time.Second)
	g = d.answer(g, gate.Answer{Approve: true, Text: "go on"})
	want.State, want.AnsweredAt, want.By, want.Via, want.Text = store.GateApproved, 2000, "ada", store.ViaCLI, "go on"
	if diff := cmp.Diff(want, g); diff != "" {
		t.Errorf("approved (-want +got):\n%s", diff)
	}
	d.later(time.Second)
	g = d.use(g)
	want.UsedAt = 3000
	kept, err := d.Gate(t.Context(), g.ID)
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]store.Gate{"used": g, "kept": kept} {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	_, err = d.Use(t.Context(), g)
	inState(t, err, store.GateApproved)
	if !strings.Contains(err.Error(), "already approved by ada via cli, ") ||
		!strings.Contains(err.Error(), "and used, ") {
		t.Errorf("%v does not say who, how and that it was used", err)
	}

	events, err := d.store.Events(t.Context(), 0, store.EventFilter{Task: "T", Thread: "T"})
	if err != nil {
		t.Fatal(err)
	}
	payload := func(state, by, via string) string {
		return fmt.Sprintf(
			`{"gate":%q,"kind":"approval","source":"agent","node":"coder","question":"","state":%q,"by":%q,"via":%q}`, g.ID,
			state, by, via)
	}
	for i, e := range []struct {
		ts           int64
		typ, payload string
	}{
		{1000, "gate.blocked", payload("open", "", "")},
		{1000, "task.updated", `{"state":"input-required"}`},
		{2000, "gate.approved", payload("approved", "ada", "cli")},
		{3000, "gate.used", payload("approved", "ada", "cli")},
	} {
		got := events[i]
		got.Proof = nil
		want := store.Event{
			Pos: int64(i) + 1, Seq: int64(i) + 1, TS: e.ts, Type: e.typ, Task: "T", Thread: "T",
			Instance: "coder-1", Attempt: "T.1", Payload: json.RawMessage(e.payload),
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("event %d (-want +got):\n%s", i, diff)
		}
	}
	if len(events) != 4 {
		t.Errorf("%d events, want 4", len(events))
	}
}

func TestOpenTwice(t *testing.T) {
	d := newDesk(t)
	first := d.open(approval("make"))
	d.later(time.Hour)
	again := approval("make")
	again.Question, again.ExpiresAt = "asked otherwise", 9e9
	if diff := cmp.Diff(first, d.open(again)); diff != "" {
		t.Errorf("the open gate was not returned (-first +again):\n%s", diff)
	}
	ids := map[string]bool{first.ID: true}
	other, elsewhere, child := approval("make all"), approval("make"), approval("make")
	elsewhere.From, child.Thread = headB, "U"
	for _, g := range []store.Gate{other, elsewhere, child, question("which?"), question("why?")} {
		ids[d.open(g).ID] = true
	}
	d.answer(first, gate.Answer{Reject: true})
	second := d.open(approval("make"))
	ids[second.ID] = true
	if len(ids) != 7 {
		t.Errorf("%d different ids, want 7", len(ids))
	}
	for id := range ids {
		if len(id) != 12 || !strings.HasPrefix(id, "g-") {
			t.Errorf("id %q is not g- and 10 digits", id)
		}
	}
}

// TestIDs checks that an id is a function of what is asked, and that it becomes
// longer if it is taken.
func TestIDs(t *testing.T) {
	one, two := newDesk(t), newDesk(t)
	two.later(time.Hour)
	a, b := one.open(approval("make")), two.open(approval("make"))
	if a.ID != b.ID {
		t.Errorf("ids %s and %s of the same question", a.ID, b.ID)
	}
	taken := newDesk(t)
	other := store.GateChange{Row: store.Gate{ID: a.ID, Thread: "other", State: store.GateOpen}}
	if err := taken.store.Forge(t.Context(), store.Batch{Gates: []store.GateChange{other}}); err != nil {
		t.Fatal(err)
	}
	c := taken.open(approval("make"))
	if len(c.ID) != len(a.ID)+1 || !strings.HasPrefix(c.ID, a.ID) {
		t.Errorf("id %s where %s is taken", c.ID, a.ID)
	}
	if again := taken.open(approval("make")); again.ID != c.ID {
		t.Errorf("opened again as %s, want %s", again.ID, c.ID)
	}
}

func TestOpenRefuses(t *testing.T) {
	d := newDesk(t)
	for name, spoil := range map[string]func(*store.Gate){
		"no thread":        func(g *store.Gate) { g.Thread = "" },
		"no task":          func(g *store.Gate) { g.Task = "" },
		"a kind":           func(g *store.Gate) { g.Kind = "wish" },
		"a source":         func(g *store.Gate) { g.Source = "" },
		"a grant":          func(g *store.Gate) { g.Grant = "forever" },
		"nothing to allow": func(g *store.Gate) { g.Action = nil },
		"another's digest": func(g *store.Gate) { g.Digest = headA },
	} {
		g := approval("make")
		spoil(&g)
		if _, err := d.Open(t.Context(), g); !errors.Is(err, gate.ErrInvalid) {
			t.Errorf("%s: got %v, want ErrInvalid", name, err)
		}
	}
	g := approval("make")
	g.Action = json.RawMessage(`{"command":"a","command":"b"}`)
	if _, err := d.Open(t.Context(), g); err == nil {
		t.Error("an action with two commands was opened")
	}
	if events := d.events(); len(events) != 0 {
		t.Errorf("there are events: %v", events)
	}
}

// TestLargeGate checks that the row has the whole text and the event what fits.
func TestLargeGate(t *testing.T) {
	d := newDesk(t)
	for name, text := range map[string]string{
		"letters": strings.Repeat("x", 100<<10), "escapes": strings.Repeat("\x01<", 50<<10),
		"wide": strings.Repeat("語", 30<<10),
	} {
		g := approval("make")
		g.Question, g.Instance = text, name
		g.Action = command(text)
		g = d.open(g)
		g = d.answer(g, gate.Answer{Reject: true, By: text, Via: store.ViaAPI})
		kept, err := d.Gate(t.Context(), g.ID)
		if err != nil || kept.Question != text || !cmp.Equal(kept.Action, command(text)) || kept.By != text {
			t.Errorf("%s: the row has not all of it (%v)", name, err)
		}
	}
	events, err := d.store.Events(t.Context(), 0, store.EventFilter{})
	if err != nil || len(events) != 9 {
		t.Fatalf("%d events, %v", len(events), err)
	}
	for _, e := range events {
		var p struct{ Question string }
		if err := json.Unmarshal(e.Payload, &p); err != nil || len(e.Payload) > store.MaxEventPayload {
			t.Errorf("%s: %d bytes, %v", e.Type, len(e.Payload), err)
		}
		if e.Type != "task.updated" &&
			(len(p.Question) < 1<<10 || strings.Contains(p.Question, "\ufffd") || !strings.HasSuffix(p.Question, "…")) {
			t.Errorf("%s: the question is clipped to %d bytes, ending in %q", e.Type, len(p.Question),
				p.Question[max(0, len(p.Question)-9):])
		}
	}
}
