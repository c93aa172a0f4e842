package gate_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

func TestAnswers(t *testing.T) {
	merge, cut := approval("merge"), approval("again")
	merge.Source, cut.Source = store.SourceMerge, store.SourceInterrupted
	granted := approval("make")
	granted.Grant = store.GrantSession
	for name, x := range map[string]struct {
		gate   store.Gate
		answer gate.Answer
		state  store.GateState // empty: refused
		grant  store.Grant
	}{
		"approve": {approval("make"), gate.Answer{Approve: true, Via: store.ViaCLI},
			store.GateApproved, store.GrantOnce},
		"approve for the session": {approval("make"),
			gate.Answer{Approve: true, Grant: store.GrantSession, Via: store.ViaWeb},
			store.GateApproved, store.GrantSession},
		"approve with a note": {approval("make"), gate.Answer{Approve: true, Text: "ok", Via: store.ViaAPI},
			store.GateApproved, store.GrantOnce},
		"approve by policy": {approval("make"), gate.Answer{Approve: true, Via: store.ViaPolicy},
			store.GateApproved, store.GrantOnce},
		"more asked than granted": {granted, gate.Answer{Approve: true, Via: store.ViaCLI},
			store.GateApproved, store.GrantOnce},
		"reject": {approval("make"), gate.Answer{Reject: true, Via: store.ViaCLI},
			store.GateRejected, store.GrantOnce},
		"reject a merge by policy": {merge, gate.Answer{Reject: true, Via: store.ViaPolicy},
			store.GateRejected, store.GrantOnce},
		"approve a merge": {merge, gate.Answer{Approve: true, Via: store.ViaCLI},
			store.GateApproved, store.GrantOnce},
		"answer": {question("?"), gate.Answer{Text: "this", Via: store.ViaCLI},
			store.GateAnswered, store.GrantOnce},
		"answer by notes": {question("?"), gate.Answer{Text: "this", Via: store.ViaNotes},
			store.GateAnswered, store.GrantOnce},
		"yes and no":      {approval("make"), gate.Answer{Approve: true, Reject: true, Via: store.ViaCLI}, "", ""},
		"neither":         {approval("make"), gate.Answer{Via: store.ViaCLI}, "", ""},
		"words for a yes": {approval("make"), gate.Answer{Text: "yes", Via: store.ViaCLI}, "", ""},
		"a grant that is none": {approval("make"), gate.Answer{Approve: true, Grant: "ever", Via: store.ViaCLI},
			"", ""},
		"a rejection that grants": {approval("make"), gate.Answer{Reject: true, Grant: store.GrantSession, Via: store.ViaCLI},
			"", ""},
		"approve by notes":          {approval("make"), gate.Answer{Approve: true, Via: store.ViaNotes}, "", ""},
		"approve a merge by policy": {merge, gate.Answer{Approve: true, Via: store.ViaPolicy}, "", ""},
		"approve a rerun by policy": {cut, gate.Answer{Approve: true, Via: store.ViaPolicy}, "", ""},
		"by no way":                 {approval("make"), gate.Answer{Approve: true}, "", ""},
		"by timeout":                {approval("make"), gate.Answer{Approve: true, Via: store.ViaTimeout}, "", ""},
		"approve a question":        {question("?"), gate.Answer{Approve: true, Text: "x", Via: store.ViaCLI}, "", ""},
		"reject a question":         {question("?"), gate.Answer{Reject: true, Text: "x", Via: store.ViaCLI}, "", ""},
		"grant a question": {question("?"), gate.Answer{Grant: store.GrantSession, Text: "x", Via: store.ViaCLI},
			"", ""},
		"an answer without words":    {question("?"), gate.Answer{Text: " \n", Via: store.ViaCLI}, "", ""},
		"an answer that is no UTF-8": {question("?"), gate.Answer{Text: "\xff", Via: store.ViaCLI}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			g := d.open(x.gate)
			got, err := d.Answer(t.Context(), g.ID, x.answer)
			if x.state == "" {
				if !errors.Is(err, gate.ErrInvalid) {
					t.Errorf("got %v, want ErrInvalid", err)
				}
				if kept, err := d.Gate(t.Context(), g.ID); err != nil || !cmp.Equal(kept, g) || len(d.events()) != 2 {
					t.Errorf("a refused answer left a mark: %v, %v, %v", kept, d.events(), err)
				}
				return
			}
			if err != nil || got.State != x.state || got.Grant != x.grant {
				t.Fatalf("got %s, granted %s, %v, want %s, granted %s", got.State, got.Grant, err, x.state, x.grant)
			}
			if diff := cmp.Diff([]string{"gate.blocked", "task.updated", "gate." + string(x.state)}, d.events()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			_, err = d.Answer(t.Context(), g.ID, x.answer)
			inState(t, err, x.state)
		})
	}
}

// TestSeen checks that an answer counts for what the person saw, and for nothing else.
func TestSeen(t *testing.T) {
	d := newDesk(t)
	shown, other := d.open(approval("make")), d.open(approval("rm -rf /"))
	yes := gate.Answer{Approve: true, Via: store.ViaCLI, Digest: shown.Digest}
	if _, err := d.Answer(t.Context(), other.ID, yes); !errors.Is(err, store.ErrConflict) {
		t.Errorf("the answer to %s counts for %s: %v", shown.ID, other.ID, err)
	}
	if g, err := d.Gate(t.Context(), other.ID); err != nil || g.State != store.GateOpen {
		t.Errorf("it is %s, %v", g.State, err)
	}
	if g, err := d.Answer(t.Context(), shown.ID, yes); err != nil || g.State != store.GateApproved {
		t.Errorf("it is %s, %v", g.State, err)
	}
}

func TestNoGate(t *testing.T) {
	d := newDesk(t)
	g := store.Gate{ID: "g-0"}
	for name, do := range map[string]func() error{
		"answer":   func() error { _, err := d.Answer(t.Context(), g.ID, gate.Answer{Approve: true}); return err },
		"use":      func() error { _, err := d.Use(t.Context(), g); return err },
		"withdraw": func() error { _, err := d.Withdraw(t.Context(), g, "gone"); return err },
		"read":     func() error { _, err := d.Gate(t.Context(), g.ID); return err },
		"wait":     func() error { _, err := d.Wait(t.Context(), g.ID); return err },
	} {
		if err := do(); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: got %v, want ErrNotFound", name, err)
		}
	}
}

func TestUse(t *testing.T) {
	d := newDesk(t)
	open := d.open(approval("make"))
	_, err := d.Use(t.Context(), open)
	inState(t, err, store.GateOpen)
	yes := d.answer(open, gate.Answer{Approve: true})
	forged := yes
	forged.Digest = headB
	if _, err := d.Use(t.Context(), forged); !errors.Is(err, gate.ErrInvalid) {
		t.Errorf("used for another action: %v", err)
	}
	d.use(yes)
	_, err = d.Use(t.Context(), yes)
	inState(t, err, store.GateApproved)

	session := d.answer(d.open(approval("test")), gate.Answer{Approve: true, Grant: store.GrantSession})
	for range 3 {
		d.later(time.Second)
		if got := d.use(session); got.UsedAt != d.now.UnixMilli() {
			t.Errorf("used at %d, want the last time, %d", got.UsedAt, d.now.UnixMilli())
		}
	}
	d.use(session) // twice in one millisecond

	along := d.answer(d.open(approval("along")), gate.Answer{Approve: true})
	change, ev, err := d.Using(t.Context(), along)
	if err != nil {
		t.Fatal(err)
	}
	batch := store.Batch{Gates: []store.GateChange{change}, Events: []store.Event{ev}}
	if err := d.store.Commit(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	if err := d.store.Commit(t.Context(), batch); !errors.Is(err, store.ErrConflict) {
		t.Errorf("used along with something twice: %v", err)
	}
	_, _, err = d.Using(t.Context(), change.Row)
	inState(t, err, store.GateApproved)

	said := d.answer(d.open(question("?")), gate.Answer{Text: "this"})
	d.use(said)
	_, err = d.Use(t.Context(), said)
	inState(t, err, store.GateAnswered)
	no := d.answer(d.open(approval("rm")), gate.Answer{Reject: true})
	_, err = d.Use(t.Context(), no)
	inState(t, err, store.GateRejected)
	if n := told(t, d.store, "gate.used"); n != 7 {
		t.Errorf("%d uses are told, want 7", n)
	}

	// A no is heard once, and nothing else is.
	late := approval("late")
	late.ExpiresAt = d.now.UnixMilli()
	late = d.open(late)
	unused := d.answer(d.open(approval("unused")), gate.Answer{Approve: true})
	for range 2 {
		for _, g := range []store.Gate{no, late, unused, d.open(approval("open"))} {
			if err := d.Hear(t.Context(), g.ID); err != nil {
				t.Fatal(err)
			}
			now, err := d.store.Gate(t.Context(), g.ID)
			if heard := g.ID == no.ID || g.ID == late.ID; err != nil || heard != (now.UsedAt != 0) {
				t.Errorf("%s is %s, used at %d, %v", g.ID, now.State, now.UsedAt, err)
			}
		}
	}
	if n := told(t, d.store, "gate.used"); n != 9 {
		t.Errorf("%d uses are told, want 9", n)
	}
}

// TestTampered checks that a row whose action does not match its digest cannot be
// approved.
func TestTampered(t *testing.T) {
	d := newDesk(t)
	g := d.open(approval("make"))
	g.Action = command("rm -rf /")
	change := store.GateChange{Row: g, From: store.GateOpen}
	if err := d.store.Forge(t.Context(), store.Batch{Gates: []store.GateChange{change}}); err != nil {
		t.Fatal(err)
	}
	_, err := d.Answer(t.Context(), g.ID, gate.Answer{Approve: true, Via: store.ViaCLI})
	if !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("got %v, want ErrCorrupt", err)
	}
	d.answer(g, gate.Answer{Reject: true})
}

func TestExpiry(t *testing.T) {
	d := newDesk(t)
	timed := func(text string) store.Gate {
		g := approval(text)
		g.ExpiresAt = d.now.Add(time.Minute).UnixMilli()
		return d.open(g)
	}
	late, listed, found, looked, again := timed("late"), timed("listed"), timed("found"), timed("looked"), timed("again")
	d.later(time.Minute - time.Millisecond)
	d.answer(timed("in time"), gate.Answer{Approve: true})
	d.later(time.Millisecond)

	got, err := d.Answer(t.Context(), late.ID, gate.Answer{Approve: true, Via: store.ViaCLI})
	inState(t, err, store.GateExpired)
	if got.State != store.GateExpired || got.Via != store.ViaTimeout || got.By != "" ||
		got.AnsweredAt != d.now.UnixMilli() {
		t.Errorf("expired to %+v", got)
	}
	g, ok, err := d.Effective(t.Context(), "T", headA, found.Digest)
	if err != nil || !ok || g.ID != found.ID || g.State != store.GateExpired {
		t.Errorf("stands %v %v, %v, want it expired", g, ok, err)
	}
	if g, err := d.Gate(t.Context(), looked.ID); err != nil || g.State != store.GateExpired {
		t.Errorf("read as %s, %v", g.State, err)
	}
	if g := timed("again"); g.ID == again.ID || g.State != store.GateOpen {
		t.Errorf("opened again as %s %s", g.ID, g.State)
	}
	rows, err := d.Gates(t.Context(), store.GateFilter{Thread: "T", State: store.GateExpired})
	if err != nil || len(rows) != 5 || rows[0].OpenedAt > rows[1].OpenedAt {
		t.Errorf("%d expired, %v, want 5 by age", len(rows), err)
	}
	if rows, err := d.Gates(t.Context(), store.GateFilter{State: store.GateOpen}); err != nil || len(rows) != 1 {
		t.Errorf("%d open, %v, want the one opened again", len(rows), err)
	}
	_, err = d.Withdraw(t.Context(), listed, "gone")
	inState(t, err, store.GateExpired)
	if n := told(t, d.store, "gate.expired"); n != 5 {
		t.Errorf("%d expiries are told, want 5", n)
	}
}

func TestWithdraw(t *testing.T) {
	d := newDesk(t)
	g := d.open(question("?"))
	w, err := d.Withdraw(t.Context(), g, "the task was cancelled")
	if err != nil || w.State != store.GateWithdrawn || w.Text != "the task was cancelled" {
		t.Fatalf("got %+v, %v", w, err)
	}
	if again, err := d.Withdraw(t.Context(), g, "other"); err != nil || !cmp.Equal(again, w) {
		t.Errorf("withdrawn twice: %+v, %v", again, err)
	}
	_, err = d.Answer(t.Context(), g.ID, gate.Answer{Text: "x", Via: store.ViaCLI})
	inState(t, err, store.GateWithdrawn)
	if diff := cmp.Diff([]string{"gate.blocked", "task.updated", "gate.withdrawn"}, d.events()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestStanding(t *testing.T) {
	type at struct {
		from dag.Hash
		do   []gate.Answer // nil: left open
		used bool
	}
	yes, no := []gate.Answer{{Approve: true}}, []gate.Answer{{Reject: true}}
	always := []gate.Answer{{Approve: true, Grant: store.GrantSession}}
	for name, x := range map[string]struct {
		gates []at
		want  int // index of the gate that counts at headA; -1: none
	}{
		"nothing":                         {nil, -1},
		"open":                            {[]at{{headA, nil, false}}, 0},
		"open elsewhere":                  {[]at{{headB, nil, false}}, -1},
		"approved":                        {[]at{{headA, yes, false}}, 0},
		"approved and used":               {[]at{{headA, yes, true}}, -1},
		"approved elsewhere":              {[]at{{headB, yes, false}}, -1},
		"session elsewhere":               {[]at{{headB, always, false}}, 0},
		"session elsewhere and used":      {[]at{{headB, always, true}}, 0},
		"rejected":                        {[]at{{headA, no, false}}, 0},
		"rejected elsewhere":              {[]at{{headB, no, false}}, -1},
		"rejected twice":                  {[]at{{headA, no, false}, {headA, no, false}}, 1},
		"used, then rejected":             {[]at{{headA, yes, true}, {headA, no, false}}, 1},
		"used, then open":                 {[]at{{headA, yes, true}, {headA, nil, false}}, 1},
		"rejected, then approved":         {[]at{{headA, no, false}, {headA, yes, false}}, 1},
		"rejected, then open":             {[]at{{headA, no, false}, {headA, nil, false}}, 0},
		"session, then rejected":          {[]at{{headB, always, true}, {headA, no, false}}, 0},
		"session over what is open there": {[]at{{headB, always, false}, {headA, nil, false}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			other := approval("make")
			other.Thread = "U" // the same in another thread never counts
			d.answer(d.open(other), gate.Answer{Approve: true, Grant: store.GrantSession})
			want := ""
			for i, y := range x.gates {
				d.later(time.Second)
				g := approval("make")
				g.From = y.from
				g = d.open(g)
				for _, a := range y.do {
					g = d.answer(g, a)
				}
				if y.used {
					d.use(g)
				}
				if i == x.want {
					want = g.ID
				}
			}
			digest, err := gate.Digest("T", command("make"))
			if err != nil {
				t.Fatal(err)
			}
			g, ok, err := d.Effective(t.Context(), "T", headA, digest)
			if err != nil || ok != (x.want >= 0) || g.ID != want {
				t.Errorf("stands %q (%v), %v, want %q", g.ID, ok, err, want)
			}
		})
	}
}
