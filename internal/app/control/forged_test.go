package control

import (
	"context"
	"testing"

	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/verify"
)

// forgeries are changes to what a person said.
var forgeries = map[string]func(*store.Gate){
	"text":   func(g *store.Gate) { g.Text += "!" },
	"author": func(g *store.Gate) { g.By += "!" },
	"way":    func(g *store.Gate) { g.Via = store.ViaNotes },
	"time":   func(g *store.Gate) { g.AnsweredAt++ },
	"grant":  func(g *store.Gate) { g.Grant += "!" },
	"digest": func(g *store.Gate) { g.Digest[0]++ },
	"edited": func(g *store.Gate) { g.EditedDigest[0]++ },
	"verdict": func(g *store.Gate) {
		was := g.State
		if g.State = store.GateApproved; was == g.State {
			g.State = store.GateRejected
		}
	},
}

// wantVerdict fails the test unless the record is as it was written, or is not.
func (h *house) wantVerdict(what string, ok bool) {
	h.t.Helper()
	r, err := verify.All(h.t.Context(), verify.Config{Store: h.store})
	if err != nil {
		h.t.Fatal(err)
	}
	if r.OK() != ok {
		h.t.Errorf("%s: verify says %s: %+v", what, r.Integrity, r.Problems)
	}
}

// forge changes each answer of a task in each way, and expects that verify finds it. n is how many answers there are.
func (h *house) forge(task string, n int) {
	h.t.Helper()
	h.wantVerdict("before", true)
	gates, err := h.store.Gates(h.t.Context(), store.GateFilter{Task: task})
	if err != nil || len(gates) != n {
		h.t.Fatalf("%d gates, want %d: %v", len(gates), n, err)
	}
	put := func(g, was store.Gate) {
		change := store.GateChange{Row: g, From: was.State, UsedAt: was.UsedAt}
		if err := h.store.Commit(h.t.Context(), stated(task, store.Batch{Gates: []store.GateChange{change}})); err != nil {
			h.t.Fatal(err)
		}
	}
	for _, g := range gates {
		for name, forge := range forgeries {
			forged := g
			forge(&forged)
			put(forged, g)
			h.wantVerdict(string(g.Source)+" "+string(g.Kind)+": another "+name, false)
			put(g, forged)
		}
		added := g
		added.ID, added.By = g.ID+"0", "mallory"
		err := h.store.Commit(h.t.Context(), stated(task, store.Batch{Gates: []store.GateChange{{Row: added}}}))
		if err != nil {
			h.t.Fatal(err)
		}
		h.wantVerdict(string(g.Source)+" "+string(g.Kind)+": one more", false)
		added.State, added.UsedAt = store.GateWithdrawn, 0
		put(added, store.Gate{State: g.State, UsedAt: g.UsedAt})
	}
	h.wantVerdict("after", true)
}

// What a person said cannot be changed in the record unseen, once a step was made with it.
func TestAnswersCannotBeForged(t *testing.T) {
	tell := func(h *house, id string, a gate.Answer) {
		a.By, a.Via = "ann", store.ViaCLI
		if _, err := h.controller().Gates().Answer(t.Context(), id, a); err != nil {
			t.Fatal(err)
		}
	}
	open := func(h *house, task string) store.Gate {
		t.Helper()
		gates, err := h.store.Gates(t.Context(), store.GateFilter{Task: task, State: store.GateOpen})
		if err != nil || len(gates) != 1 {
			t.Fatalf("open gates: %+v, %v", gates, err)
		}
		return gates[0]
	}
	for name, run := range map[string]func(t *testing.T) (*house, string, int){
		"gates of a flow": func(t *testing.T) (*house, string, int) {
			h := newHouse(t, gatedAgents())
			id := h.run(gated).ID
			tell(h, open(h, id).ID, gate.Answer{Approve: true, Text: "yes"})
			h.drive(h.controller(), id, Resume{})
			tell(h, open(h, id).ID, gate.Answer{Text: "8080"})
			wantStatus(t, h.drive(h.controller(), id, Resume{}), store.Completed, "")
			return h, id, 2
		},
		"a denial": func(t *testing.T) (*house, string, int) {
			h := newHouse(t, gatedAgents())
			id := h.run(gated).ID
			tell(h, open(h, id).ID, gate.Answer{Reject: true})
			wantStatus(t, h.drive(h.controller(), id, Resume{}), store.Failed, "")
			return h, id, 1
		},
		"a role that suspends itself": func(t *testing.T) (*house, string, int) {
			h := newHouse(t, map[string]scripted{"work": say(`{"$status":"$SUSPEND","reason":"which port?"}`, status("done"))})
			id := h.run(one("read", "")).ID
			tell(h, open(h, id).ID, gate.Answer{Text: "8080"})
			wantStatus(t, h.drive(h.controller(), id, Resume{}), store.Completed, "")
			return h, id, 1
		},
		"what an agent asked": func(t *testing.T) (*house, string, int) {
			a := &asking{inside: true}
			h := newHouse(t, map[string]scripted{"work": a.run})
			row := h.beginWith(h.controller(), one("write", ""), Options{Approve: record.ApproveSandboxed})
			wantStatus(t, h.drive(h.controller(), row.ID, Resume{}), store.Completed, "")
			return h, row.ID, 1
		},
		"an interrupted attempt": func(t *testing.T) (*house, string, int) {
			c := &cut{make(chan struct{}, 1), 1}
			h := newHouse(t, map[string]scripted{"work": c.run})
			id := h.begin(h.controller(), one("write", "")).ID
			c.whileAtWork(t, func(ctx context.Context) { h.controller().Drive(ctx, id, Resume{}) })
			h.drive(h.controller(), id, Resume{})
			tell(h, open(h, id).ID, gate.Answer{Approve: true})
			wantStatus(t, h.drive(h.controller(), id, Resume{}), store.Completed, "")
			return h, id, 1
		},
		"a limit": func(t *testing.T) (*house, string, int) {
			h := newHouse(t, loopAgents())
			row := h.beginWith(h.controller(), loop, Options{Limits: flow.Limits{MaxRounds: 3}})
			wantStatus(t, h.drive(h.controller(), row.ID, Resume{}), store.Blocked, "limit")
			tell(h, open(h, row.ID).ID, gate.Answer{Approve: true})
			wantStatus(t, h.drive(h.controller(), row.ID, Resume{}), store.Completed, "")
			return h, row.ID, 1
		},
		"a merge": func(t *testing.T) (*house, string, int) {
			h := twoWriters(t, edits("a", "one\n2\n3\n"), edits("a", "two\n2\n3\n"))
			c := h.controller()
			row := h.drive(c, h.orchestrate(c).ID, Resume{})
			tell(h, open(h, row.ID).ID, gate.Answer{Approve: true})
			wantStatus(t, h.drive(c, row.ID, Resume{}), store.Completed, "")
			return h, row.ID, 1
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, id, n := run(t)
			h.forge(id, n)
		})
	}
}
