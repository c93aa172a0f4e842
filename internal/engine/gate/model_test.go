package gate_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/mem"
)

// An entry is what the oracle knows about a gate.
type entry struct {
	id, thread, command string
	edited              string // what was approved instead of command
	from                dag.Hash
	state               store.GateState
	grant               store.Grant
	expires             int64
	used                int
	told                []string // events
}

// A ledger is the oracle: gates in the order they were opened, modeled as simply as possible.
type ledger struct {
	s       *mem.Store
	actors  []*gate.Service
	now     int64
	entries []*entry
}

func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := &ledger{s: mem.New(mem.Config{Proven: true}), now: 1}
		for range 3 {
			l.actors = append(l.actors, gate.New(gate.Config{
				Store: l.s.Share(), Now: func() time.Time { return time.UnixMilli(l.now) },
			}))
		}
		rt.Repeat(map[string]func(*rapid.T){
			"open":     func(rt *rapid.T) { l.open(t, rt) },
			"answer":   func(rt *rapid.T) { l.answer(t, rt) },
			"use":      func(rt *rapid.T) { l.use(t, rt) },
			"withdraw": func(rt *rapid.T) { l.end(t, rt, store.GateWithdrawn) },
			"standing": func(rt *rapid.T) { l.standing(t, rt) },
			"tick":     func(rt *rapid.T) { l.now += rapid.Int64Range(1, 5).Draw(rt, "ms") },
			"":         func(rt *rapid.T) { l.check(t, rt) },
		})
	})
}

func (l *ledger) actor(rt *rapid.T) *gate.Service {
	return rapid.SampledFrom(l.actors).Draw(rt, "actor")
}

// settle expires an entry whose time has passed, as every read of it does.
func (l *ledger) settle(e *entry) *entry {
	if e.state == store.GateOpen && e.expires != 0 && l.now >= e.expires {
		e.to(store.GateExpired)
	}
	return e
}

func (e *entry) to(state store.GateState) {
	e.state = state
	e.told = append(e.told, "gate."+string(state))
}

func (l *ledger) pick(rt *rapid.T) *entry {
	if len(l.entries) == 0 {
		rt.Skip("there is no gate")
	}
	return rapid.SampledFrom(l.entries).Draw(rt, "gate")
}

func subject(rt *rapid.T) (thread, command string, from dag.Hash) {
	return rapid.SampledFrom([]string{"T", "U"}).Draw(rt, "thread"),
		rapid.SampledFrom([]string{"make", "rm"}).Draw(rt, "command"),
		rapid.SampledFrom([]dag.Hash{headA, headB}).Draw(rt, "from")
}

func (l *ledger) open(t *testing.T, rt *rapid.T) {
	l.now++ // so that the order of opening is defined
	g := approval("")
	thread, text, from := subject(rt)
	g.Thread, g.Action, g.From, g.Options = thread, command(text), from, []string{gate.Edit}
	if rapid.Bool().Draw(rt, "timed") {
		g.ExpiresAt = l.now + rapid.Int64Range(1, 20).Draw(rt, "for")
	}
	got, err := l.actor(rt).Open(t.Context(), g)
	if err != nil {
		rt.Fatal(err)
	}
	for _, e := range l.entries {
		if e.thread == thread { // opening looks at all of them
			l.settle(e)
		}
	}
	for _, e := range l.entries {
		if e.thread == thread && e.command == text && e.from == from && e.state == store.GateOpen {
			if got.ID != e.id {
				rt.Fatalf("%s was opened beside %s", got.ID, e.id)
			}
			return
		}
	}
	for _, e := range l.entries {
		if e.id == got.ID {
			rt.Fatalf("id %s was given out twice", got.ID)
		}
	}
	l.entries = append(l.entries, &entry{
		id: got.ID, thread: thread, command: text, from: from, state: store.GateOpen, grant: store.GrantOnce,
		expires: g.ExpiresAt, told: []string{"gate.blocked"},
	})
}

// lost fails unless err reports that the gate is in the oracle's state.
func lost(rt *rapid.T, err error, e *entry) {
	var se *gate.StateError
	if !errors.As(err, &se) || se.Gate.ID != e.id || se.Gate.State != e.state {
		rt.Fatalf("got %v, want to be told that %s is %s", err, e.id, e.state)
	}
}

func (l *ledger) answer(t *testing.T, rt *rapid.T) {
	e := l.settle(l.pick(rt))
	a := gate.Answer{Via: store.ViaCLI, By: "somebody"}
	state := rapid.SampledFrom([]store.GateState{store.GateApproved, store.GateRejected}).Draw(rt, "answer")
	a.Approve, a.Reject = state == store.GateApproved, state == store.GateRejected
	if a.Approve {
		a.Grant = rapid.SampledFrom([]store.Grant{"", store.GrantOnce, store.GrantSession}).Draw(rt, "grant")
	}
	edited := ""
	if a.Approve && a.Grant != store.GrantSession && rapid.Bool().Draw(rt, "edits") {
		edited = rapid.SampledFrom([]string{"make", "rm"}).Draw(rt, "input")
		a.Input = json.RawMessage(`{"command":"` + edited + `"}`)
	}
	_, err := l.actor(rt).Answer(t.Context(), e.id, a)
	if e.state != store.GateOpen {
		lost(rt, err, e)
		return
	}
	if err != nil {
		rt.Fatal(err)
	}
	if a.Grant == store.GrantSession {
		e.grant = store.GrantSession
	}
	if e.to(state); edited != e.command {
		e.edited = edited
	}
}

func (e *entry) usable() bool {
	return e.state == store.GateApproved && (e.used == 0 || e.grant == store.GrantSession)
}

func (l *ledger) use(t *testing.T, rt *rapid.T) {
	e := l.settle(l.pick(rt))
	g, err := l.s.Gate(t.Context(), e.id)
	if err != nil {
		rt.Fatal(err)
	}
	_, err = l.actor(rt).Use(t.Context(), g)
	if !e.usable() {
		lost(rt, err, e)
		return
	}
	if err != nil {
		rt.Fatal(err)
	}
	e.used++
	e.told = append(e.told, "gate.used")
}

func (l *ledger) end(t *testing.T, rt *rapid.T, state store.GateState) {
	e := l.settle(l.pick(rt))
	_, err := l.actor(rt).Withdraw(t.Context(), store.Gate{ID: e.id}, "gone")
	if e.state != store.GateOpen && e.state != state {
		lost(rt, err, e)
		return
	}
	if err != nil {
		rt.Fatal(err)
	}
	if e.state == store.GateOpen {
		e.to(state)
	}
}

func (l *ledger) standing(t *testing.T, rt *rapid.T) {
	thread, text, from := subject(rt)
	digest, err := gate.Digest(thread, command(text))
	if err != nil {
		rt.Fatal(err)
	}
	var yes, no, open string
	for _, e := range l.entries {
		if e.thread != thread {
			continue
		}
		if l.settle(e); e.command != text && (e.edited != text || !e.usable()) {
			continue
		}
		switch here := e.from == from; {
		case e.usable() && (here || e.grant == store.GrantSession):
			yes = e.id
		case here && (e.state == store.GateRejected || e.state == store.GateExpired):
			no = e.id
		case here && e.state == store.GateOpen:
			open = e.id
		}
	}
	want := yes
	if want == "" {
		want = no
	}
	if want == "" {
		want = open
	}
	g, ok, err := l.actor(rt).Effective(t.Context(), thread, from, digest)
	if err != nil || g.ID != want || ok != (want != "") {
		rt.Fatalf("stands %q %v, %v, want %q", g.ID, ok, err, want)
	}
}

// check compares every row and every event with the oracle.
func (l *ledger) check(t *testing.T, rt *rapid.T) {
	told := map[string][]string{}
	events, err := l.s.Events(t.Context(), 0, store.EventFilter{})
	if err != nil {
		rt.Fatal(err)
	}
	for _, ev := range events {
		var p struct{ Gate string }
		if ev.Type != "task.updated" {
			if err := json.Unmarshal(ev.Payload, &p); err != nil {
				rt.Fatal(err)
			}
			told[p.Gate] = append(told[p.Gate], ev.Type)
		}
	}
	rows, err := l.s.Gates(t.Context(), store.GateFilter{})
	if err != nil || len(rows) != len(l.entries) {
		rt.Fatalf("%d rows, %v, want %d", len(rows), err, len(l.entries))
	}
	open := map[string]string{}
	for _, e := range l.entries {
		g, err := l.s.Gate(t.Context(), e.id)
		if err != nil {
			rt.Fatal(err)
		}
		if g.State != e.state || g.Grant != e.grant || (g.UsedAt != 0) != (e.used > 0) ||
			(g.AnsweredAt != 0) != (e.state != store.GateOpen) {
			rt.Fatalf("%s is %s, %s, used %d, answered %d; want %s, %s, used %d times",
				e.id, g.State, g.Grant, g.UsedAt, g.AnsweredAt, e.state, e.grant, e.used)
		}
		if diff := cmp.Diff(e.told, told[e.id]); diff != "" {
			rt.Fatalf("%s: events (-want +got):\n%s", e.id, diff)
		}
		key := fmt.Sprint(g.Thread, g.From, g.Digest)
		if g.State == store.GateOpen && open[key] != "" {
			rt.Fatalf("%s and %s are open for the same", open[key], g.ID)
		} else if g.State == store.GateOpen {
			open[key] = g.ID
		}
	}
}
