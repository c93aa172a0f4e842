package control

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/history"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/sshsig"
)

// TestSignedApprovals drives tasks where answers must be signed. A policy approves nothing, and an approval that
// someone wrote into the record lets nothing happen: the person is asked again, and what they sign counts.
func TestSignedApprovals(t *testing.T) {
	key, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	counts := func(_ context.Context, by ssh.PublicKey, at time.Time) error {
		_, err := sshsig.Signers{{Principals: "ann", Key: key.PublicKey()}}.Find(by, history.NamespaceApproval, at)
		return err
	}
	open := func(h *house, task string) store.Gate {
		for _, g := range h.gates(task, 1) {
			if g.State == store.GateOpen {
				return g
			}
		}
		t.Fatal("no question is open")
		return store.Gate{}
	}
	for name, begin := range map[string]func(t *testing.T) (h *house, id string){
		"of an agent": func(t *testing.T) (*house, string) {
			a := &asking{inside: true}
			h := newHouse(t, map[string]scripted{"work": a.run})
			return h, h.beginWith(h.controller(), one("write", ""), Options{Approve: record.ApproveSandboxed}).ID
		},
		"of a flow": func(t *testing.T) (*house, string) {
			h := newHouse(t, gatedAgents())
			return h, h.begin(h.controller(), gated).ID
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, id := begin(t)
			h.clock = time.Now
			drive := func() store.Thread {
				c := h.controller()
				c.cfg.Signing = &gate.Signing{Counts: counts}
				return h.drive(c, id, Resume{})
			}
			wantStatus(t, drive(), store.Blocked, "gate")
			g := open(h, id)
			invented := g
			invented.State, invented.AnsweredAt = store.GateApproved, g.OpenedAt+1
			invented.By, invented.Via = "ann", store.ViaCLI
			err := h.store.Commit(t.Context(), store.Batch{Gates: []store.GateChange{{Row: invented, From: g.State}},
				Events: []store.Event{{TS: g.OpenedAt + 1, Type: "gate.approved", Task: g.Task, Thread: g.Thread,
					Payload: []byte("{}")}}})
			if err != nil {
				t.Fatal(err)
			}
			wantStatus(t, drive(), store.Blocked, "gate")
			again := open(h, id)
			if again.ID == g.ID {
				t.Fatalf("it is not asked again: %+v", again)
			}
			person := gate.New(gate.Config{Store: h.store, Signing: &gate.Signing{Counts: counts,
				Sign: func(_ context.Context, a history.Approval) (history.Signed, error) { return a.Sign(key) }}})
			answer := gate.Answer{Approve: true, By: "ann", Via: store.ViaCLI}
			if _, err := person.Answer(t.Context(), again.ID, answer); err != nil {
				t.Fatal(err)
			}
			if row := drive(); row.Status != store.Completed && open(h, id).Kind != store.GateInput { // what comes next there
				t.Errorf("the approval does not count: %s, %+v", row.Status, row.Reason)
			}
		})
	}
}
