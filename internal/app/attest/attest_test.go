package attest

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/history"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/sshsig"
	"github.com/plait-run/plait/internal/view/taskdir"
)

func TestVerify(t *testing.T) {
	w := newWorld(t, 2)
	whole, small := w.prove(true), w.prove(false)
	data := whole.pack(whole.bundle)
	if again := w.prove(true); !bytes.Equal(again.pack(again.bundle), data) {
		t.Error("made twice it is not the same")
	}
	r := whole.verify(data, "require complete\nrequire record\nrequire evidence \"go test ./...\" exit 0 on tree\n"+
		"require approval by eve,bob not signer\nrequire agent in codex\ndeny no-sandbox\ndeny unsigned\n")
	if len(r.Reasons) > 0 || !r.Record || r.Missing != 0 || r.Signer != "ann" || r.Entries != 8 {
		t.Errorf("got %+v", r)
	}
	r = small.verify(small.pack(small.bundle), "")
	if len(r.Reasons) > 0 || r.Record || r.Missing != 4 {
		t.Errorf("without a record: %+v", r)
	}
	if s := whole.statement.Predicate.Steps[0].Agent; *s != (Agent{"gpt-5.5", ModelByAgent, "codex", "0.169.0"}) {
		t.Errorf("the agent is %+v", s)
	}
	if s := whole.statement.Predicate.Steps; s[0].Evidence[0].Tree != "" || s[1].Evidence[0].Tree != treeAfter {
		t.Errorf("commands ran on %q and %q", s[0].Evidence[0].Tree, s[1].Evidence[0].Tree)
	}
	if by := small.statement.Predicate.Task.By; by != "ann" {
		t.Errorf("%q asked for it", by)
	}
	own := small.bundle
	own.Envelope = small.sign(small.statement, person(t, 2)) // by the one who approved
	r = small.verify(small.pack(own), "require approval by bob\n")
	if len(r.Reasons) > 0 || r.Signer != "bob" {
		t.Errorf("signed by Bob: %+v", r)
	}
	r = small.verify(small.pack(own), "require approval by bob not signer\n")
	if len(r.Reasons) != 1 || !strings.Contains(r.Reasons[0], "no approval is signed by bob") {
		t.Errorf("signed and approved by Bob: %q", r.Reasons)
	}
	for rule, want := range map[string]string{
		"require complete":                        "4 entries of the task are not there",
		"require record":                          "the record of the task is not there",
		`require evidence "go vet ./..." exit 0`:  `"go vet ./..." was not run`,
		`require evidence "go test ./..." exit 1`: `"go test ./..." exited with 0`,
		"require approval by ann":                 "no approval is signed by ann",
		"require agent in claude":                 "was made by codex",
		"deny direct":                             "the policy denies direct: 2 steps",
	} {
		r := small.verify(small.pack(small.bundle), rule)
		if len(r.Reasons) != 1 || !strings.Contains(r.Reasons[0], want) {
			t.Errorf("%s: got %q, want %q", rule, r.Reasons, want)
		}
	}
}

// TestClaims has statements that say more, or less, than their steps show, and repositories with more or less than
// their change.
func TestClaims(t *testing.T) {
	p := newWorld(t, 2).prove(false)
	none, tested := strings.Repeat("5", 40), `require evidence "go test ./..." exit 0`
	loose := func(s *Statement) { s.Subject[1].Digest = map[string]string{digestLoose: subjects.Patch} }
	for name, x := range map[string]struct {
		change func(s *Statement)
		have   *Revision
		policy string
		want   string // "" for proven
	}{
		"the tree that a step left": {func(s *Statement) {
			s.Predicate.Steps[0].Evidence[0].Tree = treeAfter // as earlier versions said
			s.Predicate.Steps[1].Evidence = nil
		}, nil, tested + " on tree", "was not run on these files"},
		"the last one by time": {func(s *Statement) {
			s.Predicate.Steps[0].EndedAt++
			s.Predicate.Steps[0].Evidence[0].Exit = 1
		}, nil, tested, "exited with 1"},
		"files changed between steps": {func(s *Statement) { s.Predicate.Steps[1].TreeBefore = none }, nil,
			"deny by-hand", "denies by-hand: 1 steps"},
		"a gap left out":      {func(s *Statement) { s.Predicate.NotKnown = nil }, nil, "deny direct", "denies direct"},
		"the commit":          {nil, &Revision{Commit: subjects.Commit, Patch: none}, "deny by-hand", ""},
		"the patch":           {nil, &Revision{Commit: none, Tree: none, Patch: subjects.Patch}, "deny by-hand", ""},
		"the files alone":     {nil, &Revision{Commit: none, Tree: treeAfter, Patch: none}, "", ""},
		"more than the patch": {nil, &Revision{Commit: none, Tree: treeAfter, Patch: none}, "deny by-hand", "denies by-hand"},
		"nothing of it":       {nil, &Revision{Commit: none, Tree: none, Patch: none}, "", "is another change"},
		"an old patch id":     {loose, &Revision{Commit: none, Patch: subjects.Patch}, "", "the patch cannot be compared"},
		"an old comparison":   {loose, &Revision{Commit: subjects.Commit}, "deny by-hand", "denies by-hand"},
		"an old bundle":       {loose, &Revision{Commit: subjects.Commit}, "", ""},
	} {
		q := p
		if q.have = x.have; x.change == nil {
			x.change = func(*Statement) {}
		}
		got := strings.Join(q.verify(p.said(x.change), x.policy).Reasons, "\n")
		if (got == "") != (x.want == "") || !strings.Contains(got, x.want) {
			t.Errorf("%s: got %q, want %q", name, got, x.want)
		}
	}
	whole := newWorld(t, 2).prove(true)
	old := whole.said(func(s *Statement) { s.Predicate.Steps[0].Evidence[0].Tree = treeAfter })
	if r := whole.verify(old, ""); !r.Record || len(r.Reasons) > 0 {
		t.Errorf("a bundle of an earlier version: %+v", r)
	}
}

// TestOtherLog proves a task in a record to which it came after Bob had signed his approval.
func TestOtherLog(t *testing.T) {
	was := newWorld(t, 1)
	origin := was.prove(false)
	log := strings.TrimPrefix(was.origin, history.Origin(""))
	signers := "signer ann " + authorized(t, 1) + "signer bob " + authorized(t, 2)
	stranger := origin.bundle
	stranger.Envelope = origin.sign(origin.statement, person(t, 7))
	of := func(name string, kept []byte) proof {
		w := newWorldOf(t, 1, was.signed)
		err := os.Mkdir(w.row.Workspace, 0o700)
		if err = errors.Join(err, taskdir.At(w.row.Workspace, taskID).KeepOrigin(name, kept)); err != nil {
			t.Fatal(err)
		}
		p := w.prove(true)
		p.policy = signers
		return p
	}
	good, record := origin.pack(origin.bundle), was.prove(true)
	const unknown = "01KDVDTC00000000000000000C"
	for name, x := range map[string]struct {
		proof
		approved bool
		taken    string // why it cannot be imported
	}{
		"proven there":  {of(log, good), true, ""},
		"not proven":    {of(unknown, good), false, "it is by"},
		"by a stranger": {of(log, origin.pack(stranger)), false, ""},
		"a text":        {of(unknown, []byte("x")), false, "it is no bundle"},
		"a record":      {of(log, record.pack(record.bundle)), false, "a record of its own"},
	} {
		data := x.pack(x.bundle)
		if x.taken != "a record of its own" {
			r := x.verify(data, "")
			gap := slices.ContainsFunc(r.NotKnown, func(u Unknown) bool { return u.What == GapOtherLog })
			if len(r.Reasons) > 0 || gap == x.approved {
				t.Errorf("%s: %+v", name, r)
			}
			if r := x.verify(data, "require approval by bob"); (len(r.Reasons) == 0) != x.approved {
				t.Errorf("%s: approved: %q", name, r.Reasons)
			}
		}
		all, err := Origins(t.Context(), bytes.NewReader(data), int64(len(data)))
		if x.taken == "" && (err != nil || len(all) != 2 || !bytes.Equal(all[log], good) != (name == "by a stranger")) ||
			x.taken != "" && (!errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), x.taken)) {
			t.Errorf("%s: imported: %d proofs, %v", name, len(all), err)
		}
	}
}

// TestLimits writes what is larger than a node, and nothing that a reader refuses.
func TestLimits(t *testing.T) {
	s := &Statement{Predicate: Change{Files: map[string]dag.Hash{}}}
	large := strings.Repeat("x", dag.MaxBytes)
	b, err := NewBundle(s, nil, &Entries{Entries: []Entry{{Payload: large}}, Proof: []dag.Hash{}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if e, err := ParseEntries(b.Entries); err != nil || e.Entries[0].Payload != large {
		t.Errorf("read: %v", err)
	}
	s.Predicate.Steps = []Step{{Sandbox: large[:maxStatement]}}
	if _, err := s.Marshal(); err == nil {
		t.Error("a statement is written that is not read")
	}
}

// TestAnswers has entries of answers that a statement does not fit.
func TestAnswers(t *testing.T) {
	edited := dag.Sum([]byte("edited"))
	said, err := json.Marshal(event.GateChanged{Gate: "g-1", By: "bob", Via: store.ViaCLI, Edited: edited})
	if err != nil {
		t.Fatal(err)
	}
	e := &Entries{Entries: []Entry{{Type: "gate.approved", Payload: string(said)}}}
	for _, x := range []struct {
		via    store.Via
		digest dag.Hash
		want   string
	}{{store.ViaCLI, edited, ""}, {store.ViaWeb, edited, "via web"}, {store.ViaCLI, dag.Sum(nil), "is another action"}} {
		err := e.checkRows(Change{Approvals: []Approval{{Gate: "g-1", By: "bob", Verdict: store.GateApproved, Via: x.via,
			Digest: x.digest}}})
		if (err == nil) != (x.want == "") || err != nil && !strings.Contains(err.Error(), x.want) {
			t.Errorf("via %s: %v, want %q", x.via, err, x.want)
		}
	}
}

// TestShown has bundles that show what they name, without the record.
func TestShown(t *testing.T) {
	w := newWorld(t, 2)
	for _, x := range []struct {
		what []string
		want int
	}{{nil, 0}, {[]string{ShowPrompts}, 3}, {[]string{ShowTranscripts}, 2}, {[]string{ShowPrompts, ShowTranscripts}, 5}} {
		p := w.shows(x.what...)
		r := p.verify(p.pack(p.bundle), "")
		if len(r.Reasons) > 0 || r.Record || r.Shown != x.want {
			t.Errorf("with %q: %+v, want %d texts", x.what, r, x.want)
		}
	}
}

// TestRedacted has a record of which a large text was redacted: that is proven, and said.
func TestRedacted(t *testing.T) {
	w := newWorld(t, 2)
	transcript := store.Object{Hash: w.prove(false).statement.Predicate.Steps[0].Transcript,
		Data: store.Redacted(bytes.Repeat([]byte("*"), 3*dag.MaxBytes))}
	w.commit(store.Batch{Redact: store.Redaction{Objects: []store.Object{transcript}},
		Events: []store.Event{event.New(store.Thread{}, began, event.TaskRedacted{Objects: 1})}})
	p := w.prove(true)
	if r := p.verify(p.pack(p.bundle), "require record\n"); len(r.Reasons) > 0 || r.Redacted != 1 {
		t.Errorf("%+v", r)
	}
	other := p.edited(objects+transcript.Hash.String(), func([]byte) []byte { return store.Redacted([]byte("*")) })
	if r := p.verify(other, ""); len(r.Reasons) == 0 || r.Record {
		t.Errorf("with something else: %+v", r)
	}
}

// TestFlips changes each byte of a bundle, and each byte with a sum that fits: what is still accepted says the same.
func TestFlips(t *testing.T) {
	w := newWorld(t, 1)
	p := w.prove(false)
	data := p.pack(p.bundle)
	want := p.verify(data, "")
	for i := range data {
		data[i] ^= 1 << (i % 8)
		if r := p.verify(data, ""); len(r.Reasons) == 0 {
			t.Errorf("byte %d: accepted", i)
		}
		if i < len(data)-sealLength {
			if r := p.verify(reseal(t, data[:len(data)-sealLength]), ""); len(r.Reasons) == 0 && !reflect.DeepEqual(r, want) {
				t.Errorf("byte %d, with another sum: %+v", i, r)
			}
		}
		data[i] ^= 1 << (i % 8)
	}
}

// reseal returns a container whose sum is right.
func reseal(t testing.TB, body []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	s := newSealer(&out)
	if _, err := s.Write(append(bytes.Clone(body), make([]byte, sealLength)...)); err != nil {
		t.Fatal(err)
	}
	if err := s.seal(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestProofSize bounds what a proof of 50 steps takes.
func TestProofSize(t *testing.T) {
	p := newWorld(t, 50).prove(false)
	size := len(p.pack(p.bundle))
	t.Logf("%d bytes", size)
	if size > 40<<10 {
		t.Errorf("a proof of 50 steps has %d bytes", size)
	}
}

func FuzzEnvelope(f *testing.F) {
	p := newWorld(f, 1).prove(false)
	f.Add(p.bundle.Envelope)
	f.Fuzz(func(t *testing.T, data []byte) {
		s, key, err := OpenEnvelope(data)
		if err != nil {
			return
		}
		if sshsig.Fingerprint(key) != sshsig.Fingerprint(person(t, 1).PublicKey()) ||
			!bytes.Equal((proof{t: t}).sign(s, person(t, 1)), data) {
			t.Errorf("accepted %q", data)
		}
	})
}

func FuzzStatement(f *testing.F) {
	data, err := newWorld(f, 1).prove(false).statement.Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := ParseStatement(data)
		if err != nil {
			return
		}
		if again, err := s.Marshal(); err != nil || !bytes.Equal(again, data) {
			t.Errorf("written again it is another: %q, %v", again, err)
		}
	})
}

func FuzzEntries(f *testing.F) {
	p := newWorld(f, 1).prove(true)
	f.Add(p.bundle.Entries)
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := ParseEntries(data)
		if err != nil {
			return
		}
		l := p.statement.Predicate.Log
		if _, err := e.Check(headOf(l), p.statement.Predicate); err == nil && !bytes.Equal(data, p.bundle.Entries) &&
			len(e.Entries) >= len(p.entries.Entries) {
			t.Errorf("accepted %q", data)
		}
	})
}

func FuzzPolicy(f *testing.F) {
	f.Add("signer ann " + authorized(f, 1) + "witness w " + cosignerKey(f) + "\ngroup g any w\nquorum g\n" +
		"require evidence \"a b\" exit 0 on tree\nrequire approval by a,b not signer\ndeny by-hand\n")
	f.Fuzz(func(t *testing.T, text string) {
		if p, err := ParsePolicy([]byte(text)); err == nil && len(p.signers) == 0 {
			t.Errorf("anybody may sign: %q", text)
		}
	})
}

func FuzzBundle(f *testing.F) {
	p := newWorld(f, 1).prove(true)
	f.Add(p.pack(p.bundle))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < sealLength {
			return
		}
		p := p
		p.t = t
		p.verify(reseal(t, data[:len(data)-sealLength]), "")
	})
}
