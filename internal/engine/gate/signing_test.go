package gate_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"

	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/history"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/sshsig"
)

func sshKey(t *testing.T, n byte) ssh.Signer {
	t.Helper()
	s, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const logID = "01KDVDTC00000000000000000A"

// logHead is a head of the log that answers are signed with.
var logHead = history.Checkpoint{Origin: history.Origin(logID)}

// newSignedDesk returns a desk where answers must be signed by key 1, and a service on the same store through which the
// person signs. asked counts how often they are asked to.
func newSignedDesk(t *testing.T) (d *desk, person *gate.Service, asked *int) {
	d, asked = newDesk(t), new(int)
	if err := d.store.SetOrigin(t.Context(), logID); err != nil {
		t.Fatal(err)
	}
	counts := func(_ context.Context, key ssh.PublicKey, at time.Time) error {
		_, err := sshsig.Signers{{Principals: "ada", Key: sshKey(t, 1).PublicKey()}}.Find(key, history.NamespaceApproval, at)
		return err
	}
	now := func() time.Time { return d.now }
	d.Service = gate.New(gate.Config{Store: d.store, Now: now, Signing: &gate.Signing{Counts: counts}})
	sign := func(_ context.Context, a history.Approval) (history.Signed, error) {
		*asked++
		return a.Sign(sshKey(t, 1))
	}
	return d, gate.New(gate.Config{Store: d.store, Now: now, Signing: &gate.Signing{Counts: counts, Sign: sign}}), asked
}

// TestUnsignedAnswers checks that an answer without the signature that it must have changes nothing.
func TestUnsignedAnswers(t *testing.T) {
	signed := func(g store.Gate, n byte, change func(*store.Gate)) string {
		g.State, g.Grant, g.AnsweredAt, g.Text = store.GateApproved, store.GrantOnce, 2000, "ok"
		change(&g)
		s, err := history.NewApproval(g, logHead).Sign(sshKey(t, n))
		if err != nil {
			t.Fatal(err)
		}
		return string(s)
	}
	same := func(*store.Gate) {}
	for name, x := range map[string]struct {
		answer func(g store.Gate) gate.Answer
		want   string // of the error; "": it counts
	}{
		"on the page": {func(store.Gate) gate.Answer { return gate.Answer{Approve: true, Via: store.ViaWeb} },
			"must be signed with your SSH key: plait approve g-"},
		"a denial": {func(store.Gate) gate.Answer { return gate.Answer{Reject: true, Via: store.ViaMCP} },
			"plait deny g-"},
		"by a policy": {func(store.Gate) gate.Answer { return gate.Answer{Approve: true, Via: store.ViaPolicy} },
			"must be signed"},
		"in a terminal where nobody can sign": {func(store.Gate) gate.Answer {
			return gate.Answer{Approve: true, Via: store.ViaCLI}
		}, "must be signed"},
		"signed elsewhere": {func(g store.Gate) gate.Answer {
			return gate.Answer{Approve: true, Text: "ok", Via: store.ViaAPI, Signature: signed(g, 1, same)}
		}, ""},
		"by a stranger": {func(g store.Gate) gate.Answer {
			return gate.Answer{Approve: true, Text: "ok", Via: store.ViaAPI, Signature: signed(g, 2, same)}
		}, "nobody allowed it to sign"},
		"for another gate": {func(g store.Gate) gate.Answer {
			return gate.Answer{Approve: true, Text: "ok", Via: store.ViaAPI,
				Signature: signed(g, 1, func(g *store.Gate) { g.ID = "g-1" })}
		}, "of another gate"},
		"a denial, as an approval": {func(g store.Gate) gate.Answer {
			return gate.Answer{Approve: true, Text: "ok", Via: store.ViaAPI,
				Signature: signed(g, 1, func(g *store.Gate) { g.State = store.GateRejected })}
		}, "of another verdict"},
		"once, as for the session": {func(g store.Gate) gate.Answer {
			return gate.Answer{Approve: true, Grant: store.GrantSession, Text: "ok", Via: store.ViaAPI,
				Signature: signed(g, 1, same)}
		}, "of another grant"},
		"with other words": {func(g store.Gate) gate.Answer {
			return gate.Answer{Approve: true, Text: "no", Via: store.ViaAPI, Signature: signed(g, 1, same)}
		}, "of another text"},
		"in a copy of the record": {func(g store.Gate) gate.Answer {
			g.State, g.Grant, g.AnsweredAt, g.Text = store.GateApproved, store.GrantOnce, 2000, "ok"
			s, err := history.NewApproval(g, history.Checkpoint{Origin: history.Origin("01KDVDTC00000000000000000B")}).Sign(
				sshKey(t, 1))
			if err != nil {
				t.Fatal(err)
			}
			return gate.Answer{Approve: true, Text: "ok", Via: store.ViaAPI, Signature: string(s)}
		}, "it was made for the log plait.run/log/01KDVDTC00000000000000000B"},
		"of tomorrow": {func(g store.Gate) gate.Answer {
			return gate.Answer{Approve: true, Text: "ok", Via: store.ViaAPI,
				Signature: signed(g, 1, func(g *store.Gate) { g.AnsweredAt = time.UnixMilli(2000).Add(time.Hour).UnixMilli() })}
		}, "a time that has not come"},
		"no signature": {func(store.Gate) gate.Answer {
			return gate.Answer{Approve: true, Text: "ok", Via: store.ViaAPI, Signature: "x"}
		}, "its message cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			d, _, _ := newSignedDesk(t)
			g := d.open(approval("make"))
			d.later(time.Second)
			got, err := d.Answer(t.Context(), g.ID, x.answer(g))
			if x.want == "" {
				if err != nil || got.State != store.GateApproved || got.AnsweredAt != 2000 || got.Signature == "" {
					t.Fatalf("got %+v, %v", got, err)
				}
				d.use(got)
				return
			}
			kept, readErr := d.Gate(t.Context(), g.ID)
			if !errors.Is(err, gate.ErrInvalid) || !strings.Contains(err.Error(), x.want) {
				t.Errorf("got %v, want %q", err, x.want)
			}
			if readErr != nil || !cmp.Equal(kept, g) || len(d.events()) != 2 {
				t.Errorf("a refused answer left a mark: %+v, %v", kept, readErr)
			}
		})
	}
}

// TestTheirSignature has the person at a terminal sign: once for each answer to an approval, and never for anything
// else.
func TestTheirSignature(t *testing.T) {
	d, person, asked := newSignedDesk(t)
	yes := gate.Answer{Approve: true, By: "ada", Via: store.ViaCLI}
	g := d.open(approval("make"))
	g, err := person.Answer(t.Context(), g.ID, yes)
	if err != nil || *asked != 1 || g.Signature == "" {
		t.Fatalf("asked %d times: %+v, %v", *asked, g, err)
	}
	if _, err = person.Answer(t.Context(), g.ID, yes); !errors.Is(err, store.ErrConflict) || *asked != 1 {
		t.Errorf("answered twice: asked %d times, %v", *asked, err)
	}
	d.use(g)
	q := d.open(question("?"))
	if _, err := person.Answer(t.Context(), q.ID, gate.Answer{Text: "x", Via: store.ViaCLI}); err != nil || *asked != 1 {
		t.Errorf("a question: asked %d times, %v", *asked, err)
	}
	late := approval("late")
	late.ExpiresAt = d.now.Add(time.Second).UnixMilli()
	late = d.open(late)
	d.later(time.Minute)
	if _, err := person.Answer(t.Context(), late.ID, yes); !errors.Is(err, gate.ErrExpired) || *asked != 1 {
		t.Errorf("too late: asked %d times, %v", *asked, err)
	}
}

// TestInvented writes an approval into the store, as a server without the key could: it does not count, is not used,
// and the person is asked again.
func TestInvented(t *testing.T) {
	for name, invent := range map[string]func(*store.Gate){
		"unsigned":    func(g *store.Gate) { g.Via = store.ViaCLI },
		"by a policy": func(g *store.Gate) { g.Via = store.ViaPolicy },
		"replayed":    func(g *store.Gate) { g.Via = store.ViaReplay },
		"signed by a key of its own": func(g *store.Gate) {
			s, err := history.NewApproval(*g, logHead).Sign(sshKey(t, 2))
			if err != nil {
				t.Fatal(err)
			}
			g.Signature = string(s)
		},
	} {
		d, person, _ := newSignedDesk(t)
		asked := d.open(approval("make"))
		g := asked
		g.State, g.AnsweredAt, g.By = store.GateApproved, d.now.UnixMilli(), "ada"
		invent(&g)
		news := store.Event{TS: g.AnsweredAt, Type: "gate.approved", Task: g.Task, Thread: g.Thread, Payload: []byte("{}")}
		err := d.store.Commit(t.Context(), store.Batch{Gates: []store.GateChange{{Row: g, From: asked.State}},
			Events: []store.Event{news}})
		if err != nil {
			t.Fatal(err)
		}
		if _, ok, err := d.Effective(t.Context(), g.Thread, g.From, g.Digest); ok || err != nil {
			t.Errorf("%s: it counts, %v", name, err)
		}
		if got, err := d.Use(t.Context(), g); !errors.Is(err, store.ErrConflict) || got.UsedAt != 0 {
			t.Errorf("%s: used %+v, %v", name, got, err)
		}
		if _, _, err := d.Using(t.Context(), g); !errors.Is(err, store.ErrConflict) {
			t.Errorf("%s: using: %v", name, err)
		}
		again, err := d.Ask(t.Context(), asked)
		if err != nil || again.State != store.GateOpen || again.ID == g.ID {
			t.Fatalf("%s: asked again: %+v, %v", name, again, err)
		}
		real, err := person.Answer(t.Context(), again.ID, gate.Answer{Approve: true, By: "ada", Via: store.ViaCLI})
		if err != nil {
			t.Fatal(err)
		}
		d.use(real)
	}
}
