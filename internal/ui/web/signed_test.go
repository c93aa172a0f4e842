package web

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/history"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/sshsig"
)

// TestSignedAnswers checks that the page shows the command where answers must be signed, and takes an answer that was
// signed elsewhere.
func TestSignedAnswers(t *testing.T) {
	key, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	h := newHouse(t, gatedAgents())
	h.signing = &gate.Signing{Counts: func(_ context.Context, by ssh.PublicKey, at time.Time) error {
		_, err := sshsig.Signers{{Principals: "ann", Key: key.PublicKey()}}.Find(by, history.NamespaceApproval, at)
		return err
	}}
	g := h.gate(h.run(gated, "do it").ID)
	s := h.open("")
	for _, verb := range []string{"approve", "deny"} {
		res := s.post("/api/v1/gates/"+g.ID+"/"+verb, `{}`)
		if res.code != http.StatusBadRequest || !strings.Contains(res.body, "plait "+verb+" "+g.ID) {
			t.Errorf("%s: %d %s", verb, res.code, res.body)
		}
	}
	if now, err := h.store.Gate(t.Context(), g.ID); err != nil || now.State != store.GateOpen {
		t.Fatalf("it is %s, %v", now.State, err)
	}
	answered := g
	answered.State, answered.AnsweredAt, answered.Text = store.GateApproved, g.OpenedAt, "go on"
	log, err := h.store.Log(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	signed, err := history.NewApproval(answered, history.Head(log)).Sign(key)
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(map[string]string{"text": "go on", "signature": string(signed)})
	if err != nil {
		t.Fatal(err)
	}
	if res := s.post("/api/v1/gates/"+g.ID+"/approve", string(body)); res.code != http.StatusOK ||
		!strings.Contains(res.body, "SSH SIGNATURE") {
		t.Errorf("%d %s", res.code, res.body)
	}
	// Once the key does not count any more, verify says so.
	verify := "/api/v1/threads/" + g.Thread + "/verify"
	if res := s.get(verify); strings.Contains(res.body, "does not count") {
		t.Errorf("%d %s", res.code, res.body)
	}
	h.signing.Counts = func(context.Context, ssh.PublicKey, time.Time) error { return errors.New("unknown") }
	if res := h.open("").get(verify); !strings.Contains(res.body, "does not count: unknown") {
		t.Errorf("%d %s", res.code, res.body)
	}
}
