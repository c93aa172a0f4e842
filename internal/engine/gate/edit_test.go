package gate_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// editable returns an approval whose asker can carry out another input.
func editable(t *testing.T, act gate.Action) store.Gate {
	t.Helper()
	g := approval("")
	var err error
	if g.Action, err = json.Marshal(act); err != nil {
		t.Fatal(err)
	}
	g.Options = []string{"approve", "deny", gate.Edit}
	return g
}

func digestOf(t *testing.T, thread string, action json.RawMessage) dag.Hash {
	t.Helper()
	d, err := gate.Digest(thread, action)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestEdits approves with another input, or tries to.
func TestEdits(t *testing.T) {
	bash := gate.Action{Type: gate.Command, Command: "rm -r x", Cwd: "/w",
		Params: json.RawMessage(`{"command":"rm -r x","timeout":5}`)}
	plain := gate.Action{Type: gate.Command, Command: "rm -r x", Cwd: "/w"}
	tool := gate.Action{Type: gate.ToolCall, Tool: "mail", Params: json.RawMessage(`{"to":"all"}`)}
	odd := bash
	odd.Command = "something else"
	fixed := editable(t, tool)
	fixed.Options = fixed.Options[:2]
	flows := editable(t, tool)
	flows.Source = store.SourceFlow
	for name, x := range map[string]struct {
		gate   store.Gate
		answer gate.Answer // an approval via the command line, unless it says otherwise
		want   string      // the approved action; "" if it is refused, "asked" for the action asked for
	}{
		"a command": {editable(t, bash), gate.Answer{Input: json.RawMessage(` {"timeout": 9, "command": "ls x"}`)},
			`{"command":"ls x","cwd":"/w","params":{"command":"ls x","timeout":9},"type":"command"}`},
		"a plain command": {editable(t, plain), gate.Answer{Input: json.RawMessage(`{"command":"ls x"}`)},
			`{"command":"ls x","cwd":"/w","type":"command"}`},
		"a tool's arguments": {editable(t, tool), gate.Answer{Input: json.RawMessage(`{"to":"ann","cc":[]}`)},
			`{"params":{"cc":[],"to":"ann"},"tool":"mail","type":"tool_call"}`},
		"replayed":       {editable(t, tool), gate.Answer{Via: store.ViaReplay, Input: json.RawMessage(`{}`)}, `{"params":{},"tool":"mail","type":"tool_call"}`},
		"the same":       {editable(t, bash), gate.Answer{Input: json.RawMessage(`{"timeout":5,"command":"rm -r x"}`)}, "asked"},
		"for the task":   {editable(t, tool), gate.Answer{Grant: store.GrantSession, Input: json.RawMessage(`{"to":"ann"}`)}, ""},
		"by policy":      {editable(t, tool), gate.Answer{Via: store.ViaPolicy, Input: json.RawMessage(`{"to":"ann"}`)}, ""},
		"by a model":     {editable(t, tool), gate.Answer{Via: store.ViaMCP, Input: json.RawMessage(`{"to":"ann"}`)}, ""},
		"denied":         {editable(t, tool), gate.Answer{Reject: true, Input: json.RawMessage(`{"to":"ann"}`)}, ""},
		"not offered":    {fixed, gate.Answer{Input: json.RawMessage(`{"to":"ann"}`)}, ""},
		"of a flow":      {flows, gate.Answer{Input: json.RawMessage(`{"to":"ann"}`)}, ""},
		"no command":     {editable(t, bash), gate.Answer{Input: json.RawMessage(`{"timeout":9}`)}, ""},
		"a blank one":    {editable(t, plain), gate.Answer{Input: json.RawMessage(`{"command":" "}`)}, ""},
		"more than that": {editable(t, plain), gate.Answer{Input: json.RawMessage(`{"command":"ls","cwd":"/"}`)}, ""},
		"two of a key":   {editable(t, tool), gate.Answer{Input: json.RawMessage(`{"to":"ann","to":"all"}`)}, ""},
		"no object":      {editable(t, tool), gate.Answer{Input: json.RawMessage(`["ann"]`)}, ""},
		"no JSON":        {editable(t, tool), gate.Answer{Input: json.RawMessage(`{"to"`)}, ""},
		"no UTF-8":       {editable(t, tool), gate.Answer{Input: json.RawMessage("{\"to\":\"\xff\"}")}, ""},
		"too long": {editable(t, tool), gate.Answer{Input: json.RawMessage(`{"to":"` + strings.Repeat("x", 1<<20) + `"}`)},
			""},
		"a command said twice": {editable(t, odd), gate.Answer{Input: json.RawMessage(`{"command":"ls"}`)}, ""},
		"a diff": {editable(t, gate.Action{Type: gate.FileChange, Diff: "+x", Params: json.RawMessage(`{}`)}),
			gate.Answer{Input: json.RawMessage(`{"a":1}`)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			g := d.open(x.gate)
			if x.answer.Approve = !x.answer.Reject; x.answer.Via == "" {
				x.answer.Via = store.ViaCLI
			}
			got, err := d.Answer(t.Context(), g.ID, x.answer)
			if x.want == "" {
				kept, readErr := d.Gate(t.Context(), g.ID)
				if !errors.Is(err, gate.ErrInvalid) || readErr != nil || !cmp.Equal(kept, g) {
					t.Errorf("got %v, want ErrInvalid; the gate is %+v, %v", err, kept, readErr)
				}
				return
			}
			if err != nil || got.State != store.GateApproved || got.Digest != g.Digest || !cmp.Equal(got.Action, g.Action) {
				t.Fatalf("got %+v, %v", got, err)
			}
			if x.want == "asked" {
				if got.Edited != nil || !got.EditedDigest.IsZero() {
					t.Errorf("approved is %s", got.Edited)
				}
				return
			}
			if string(got.Edited) != x.want || got.EditedDigest != digestOf(t, g.Thread, json.RawMessage(x.want)) {
				t.Errorf("approved is %s, bound to %s, want %s", got.Edited, got.EditedDigest, x.want)
			}
		})
	}
}

// TestAnEditStandsForWhatItIs checks that an approval with another input covers exactly that input, once: whether the
// asker asks again for what it asked before, or for what was approved.
func TestAnEditStandsForWhatItIs(t *testing.T) {
	d := newDesk(t)
	tool := gate.Action{Type: gate.ToolCall, Tool: "mail", Params: json.RawMessage(`{"to":"all"}`)}
	g := d.answer(d.open(editable(t, tool)), gate.Answer{Approve: true, Input: json.RawMessage(`{"to":"ann"}`)})
	for name, digest := range map[string]dag.Hash{"asked": g.Digest, "approved": g.EditedDigest} {
		if is, ok, err := d.Effective(t.Context(), g.Thread, g.From, digest); err != nil || !ok || is.ID != g.ID {
			t.Errorf("%s: stands %q, %v, %v", name, is.ID, ok, err)
		}
	}
	tool.Params = json.RawMessage(`{"to":"bob"}`)
	if is, ok, err := d.Effective(t.Context(), g.Thread, g.From, editable(t, tool).Digest); err != nil || ok {
		t.Errorf("no digest at all: stands %q, %v", is.ID, err)
	}
	other := digestOf(t, g.Thread, editable(t, tool).Action)
	if is, ok, err := d.Effective(t.Context(), g.Thread, g.From, other); err != nil || ok {
		t.Errorf("something else: stands %q, %v", is.ID, err)
	}
	events, err := d.store.Events(t.Context(), 0, store.EventFilter{Types: []string{"gate.approved"}})
	if err != nil || len(events) != 1 || !strings.Contains(string(events[0].Payload), `"edited":"`+g.EditedDigest.String()) {
		t.Errorf("the journal says %+v, %v", events, err)
	}
	used := d.use(g)
	for name, digest := range map[string]dag.Hash{"asked": g.Digest, "approved": g.EditedDigest} {
		if is, ok, err := d.Effective(t.Context(), g.Thread, g.From, digest); err != nil || ok {
			t.Errorf("%s, used: stands %q, %v", name, is.ID, err)
		}
	}
	_, err = d.Use(t.Context(), used)
	inState(t, err, store.GateApproved)
}

// TestAForgedEdit changes, in the store, what was approved, or the digest that binds it.
func TestAForgedEdit(t *testing.T) {
	forged := json.RawMessage(`{"params":{"to":"all"},"tool":"mail","type":"tool_call"}`)
	for name, forge := range map[string]func(*store.Gate){
		"the action": func(g *store.Gate) { g.Edited = forged },
		"the digest": func(g *store.Gate) { g.EditedDigest = g.Digest },
		"no action":  func(g *store.Gate) { g.Edited = nil },
		"no digest":  func(g *store.Gate) { g.EditedDigest = dag.Hash{} },
		"what was asked for": func(g *store.Gate) {
			g.Action, g.Edited, g.EditedDigest = forged, nil, dag.Hash{}
		},
	} {
		d := newDesk(t)
		tool := gate.Action{Type: gate.ToolCall, Tool: "mail", Params: json.RawMessage(`{"to":"nobody"}`)}
		g := d.answer(d.open(editable(t, tool)), gate.Answer{Approve: true, Input: json.RawMessage(`{"to":"ann"}`)})
		forge(&g)
		if err := d.store.Forge(t.Context(), store.Batch{Gates: []store.GateChange{{Row: g, From: g.State}}}); err != nil {
			t.Fatal(err)
		}
		if got, err := d.Use(t.Context(), g); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%s: used as %+v, %v", name, got, err)
		}
	}
}
