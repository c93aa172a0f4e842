package attest

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/sshsig"
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
