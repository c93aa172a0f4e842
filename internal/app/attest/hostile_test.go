package attest

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/history"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/sshsig"
)

// said returns the bundle with a statement that Ann signed after it was changed.
func (p proof) said(change func(*Statement)) []byte {
	p.t.Helper()
	data, err := p.statement.Marshal()
	if err != nil {
		p.t.Fatal(err)
	}
	s, err := ParseStatement(data)
	if err != nil {
		p.t.Fatal(err)
	}
	change(s)
	b := p.bundle
	b.Envelope = p.sign(s, person(p.t, 1))
	return p.pack(b)
}

// logged returns the bundle with other entries, which the statement names.
func (p proof) logged(change func(*Entries)) []byte {
	p.t.Helper()
	e, err := ParseEntries(p.bundle.Entries)
	if err != nil {
		p.t.Fatal(err)
	}
	change(e)
	return p.filed(fileEntries, p.marshal(e))
}

// filed returns the bundle with another file, which the statement names.
func (p proof) filed(name string, data []byte) []byte {
	p.t.Helper()
	q := p
	switch name {
	case fileEntries:
		q.bundle.Entries = data
	case fileCheckpoint:
		q.bundle.Checkpoint = data
	case fileSums:
		q.bundle.Sums = data
	}
	return q.said(func(s *Statement) { s.Predicate.Files[name] = dag.Sum(data) })
}

func (p proof) marshal(v any) []byte {
	p.t.Helper()
	data, err := dag.Marshal(v)
	if err != nil {
		p.t.Fatal(err)
	}
	return data
}

// enveloped returns the bundle with another envelope.
func (p proof) enveloped(change func(*envelope)) []byte {
	p.t.Helper()
	var e envelope
	if err := json.Unmarshal(p.bundle.Envelope, &e); err != nil {
		p.t.Fatal(err)
	}
	change(&e)
	b := p.bundle
	b.Envelope = p.marshal(e)
	return p.pack(b)
}

// spelled returns the bundle with text replaced in its envelope.
func (p proof) spelled(old, new string) []byte {
	p.t.Helper()
	b := p.bundle
	b.Envelope = bytes.Replace(b.Envelope, []byte(old), []byte(new), 1)
	if bytes.Equal(b.Envelope, p.bundle.Envelope) {
		p.t.Fatalf("%q is not in the envelope", old)
	}
	return p.pack(b)
}

// payload returns the bundle with a payload that Ann signed, whatever it is.
func (p proof) payload(change func(text string) string) []byte {
	p.t.Helper()
	data, err := p.statement.Marshal()
	if err != nil {
		p.t.Fatal(err)
	}
	b := p.bundle
	if b.Envelope, err = Sign([]byte(change(string(data))), person(p.t, 1)); err != nil {
		p.t.Fatal(err)
	}
	return p.pack(b)
}

// A zipped is a file of a ZIP file that is about to be written.
type zipped struct {
	zip.FileHeader
	data []byte
}

// zipped returns the bundle with other files, and a right sum.
func (p proof) zipped(change func(files []zipped) []zipped) []byte {
	p.t.Helper()
	whole := p.pack(p.bundle)
	r, err := zip.NewReader(bytes.NewReader(whole), int64(len(whole)))
	if err != nil {
		p.t.Fatal(err)
	}
	o := opened{map[string]*zip.File{}, budget{maxUnpacked}}
	var files []zipped
	for _, f := range r.File {
		o.files[f.Name] = f
		data, err := o.read(f.Name, 1<<30)
		if err != nil {
			p.t.Fatal(err)
		}
		h := zip.FileHeader{Name: f.Name, Method: zip.Deflate}
		h.SetMode(0o644)
		files = append(files, zipped{h, data})
	}
	var out bytes.Buffer
	s := newSealer(&out)
	z := zip.NewWriter(s)
	for _, f := range change(files) {
		w, err := z.CreateHeader(&f.FileHeader)
		if err == nil {
			_, err = w.Write(f.data)
		}
		if err != nil {
			p.t.Fatal(err)
		}
	}
	if err := z.SetComment(strings.Repeat("0", sealLength)); err != nil {
		p.t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		p.t.Fatal(err)
	}
	if err := s.seal(); err != nil {
		p.t.Fatal(err)
	}
	return out.Bytes()
}

// with adds a file.
func (p proof) with(name string, data []byte) []byte {
	return p.zipped(func(files []zipped) []zipped {
		h := zip.FileHeader{Name: name, Method: zip.Deflate}
		h.SetMode(0o644)
		return append(files, zipped{h, data})
	})
}

// edited changes the bytes of a file.
func (p proof) edited(name string, change func([]byte) []byte) []byte {
	return p.zipped(func(files []zipped) []zipped {
		for i, f := range files {
			if strings.HasPrefix(f.Name, name) {
				files[i].data = change(f.data)
				return files
			}
		}
		p.t.Fatalf("no %s", name)
		return nil
	})
}

// without removes a file.
func (p proof) without(name string) []byte {
	return p.zipped(func(files []zipped) []zipped {
		for i, f := range files {
			if strings.HasPrefix(f.Name, name) {
				return append(files[:i:i], files[i+1:]...)
			}
		}
		p.t.Fatalf("no %s", name)
		return nil
	})
}

// signedBy returns the armored signature of the statement by some person.
func (p proof) signedBy(n byte, namespace string) string {
	p.t.Helper()
	data, err := p.statement.Marshal()
	if err != nil {
		p.t.Fatal(err)
	}
	armored, err := sshsig.Sign(person(p.t, n), namespace, pae(data))
	if err != nil {
		p.t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString([]byte(armored))
}

// TestHostile has bundles that strangers could make, and why each is refused.
func TestHostile(t *testing.T) {
	w := newWorld(t, 2)
	p, small := w.prove(true), w.prove(false)
	other := newWorld(t, 1).prove(false) // another record with a task of the same id
	body := func(data []byte) []byte { return data[:len(data)-sealLength] }
	whole := p.pack(p.bundle)
	last := func(e *envelope) *signature { return &e.Signatures[len(e.Signatures)-1] }
	approval := func(change func(*Approval)) []byte {
		return small.said(func(s *Statement) { change(&s.Predicate.Approvals[0]) })
	}
	otherHead := headOf(small.statement.Predicate.Log)
	otherHead.Size++
	forged, err := otherHead.Sign(logKey(t, 3).Signer(w.origin))
	if err != nil {
		t.Fatal(err)
	}
	byStranger, err := headOf(small.statement.Predicate.Log).Sign(logKey(t, 9).Signer(w.origin))
	if err != nil {
		t.Fatal(err)
	}
	shows := w.shows(ShowPrompts, ShowTranscripts)
	for name, x := range map[string]struct {
		data []byte
		want string
	}{
		// The container.
		"nothing":                     {nil, "only 0 bytes"},
		"a text":                      {bytes.Repeat([]byte("x"), 500), "does not end with a sum"},
		"a sum alone":                 {reseal(t, nil), "no ZIP file"},
		"a text with a sum":           {reseal(t, bytes.Repeat([]byte("x"), 500)), "no ZIP file"},
		"cut at its end":              {whole[:len(whole)-1], "does not end with a sum"},
		"cut in two":                  {whole[:len(whole)/2], "does not end with a sum"},
		"cut, with a sum":             {reseal(t, whole[:len(whole)/2]), "no ZIP file"},
		"the end of it":               {whole[100:], "was damaged"},
		"bytes before it":             {reseal(t, append([]byte("#!/bin/sh\n"), body(whole)...)), "belong to no file"},
		"bytes behind it":             {append(bytes.Clone(whole), 0), "does not end with a sum"},
		"another sum":                 {append(body(bytes.Clone(whole)), sealPrefix+strings.Repeat("0", 64)...), "was damaged"},
		"a directory of 2 GiB":        {reseal(t, bigDirectory(body(whole))), "its directory has"},
		"the same name twice":         {p.with(fileCheckpoint, p.bundle.Checkpoint), "checkpoint is there twice"},
		"two envelopes":               {p.with(fileEnvelope, other.bundle.Envelope), "attestation.dsse.json is there twice"},
		"a name that leads elsewhere": {p.with("task/../../x", nil), "is no file of a bundle"},
		"an absolute name":            {p.with("/etc/passwd", nil), "is no file of a bundle"},
		"a name of Windows":           {p.with(`task\x`, nil), "is no file of a bundle"},
		"a drive":                     {p.with("task/c:x", nil), "is no file of a bundle"},
		"an unknown file":             {p.with("more", nil), "is no file of a bundle"},
		"a directory":                 {p.with("task/", nil), "is no file of a bundle"},
		"an object without a hash":    {p.with("objects/x", nil), "is no file of a bundle"},
		"a link": {p.zipped(func(files []zipped) []zipped {
			files[len(files)-1].SetMode(0o777 | 1<<27)
			return files
		}), "is not a plain file"},
		"a file that is not compressed": {p.zipped(func(files []zipped) []zipped {
			files[0].Method = zip.Store
			return files
		}), "is not a plain file"},
		"no envelope":   {p.without(fileEnvelope), "it has no attestation.dsse.json"},
		"no checkpoint": {p.without(fileCheckpoint), "it has no checkpoint"},
		"no entries":    {p.without(fileEntries), "it has no entries.json"},
		"no sums":       {p.without(fileSums), "it has no SHA256SUMS"},
		"a bomb":        {p.edited(fileCheckpoint, func([]byte) []byte { return make([]byte, 64<<20) }), "more than 65536 bytes"},
		"a bomb of JSON": {p.edited(fileEnvelope, func([]byte) []byte { return bytes.Repeat([]byte("["), 5<<20) }),
			"nested deeper than"},
		"a large envelope": {p.edited(fileEnvelope, func([]byte) []byte { return make([]byte, maxEnvelope+1) }),
			"more than 6291456 bytes"},
		"a bundle that is a record": {p.edited("manifest.json", func([]byte) []byte { return []byte("{}") }),
			"manifest.json is not what it was"},

		// The envelope.
		"no JSON":             {p.edited(fileEnvelope, func([]byte) []byte { return []byte("x") }), "envelope: "},
		"white space":         {small.spelled(`,"payloadType"`, `, "payloadType"`), "not in canonical form"},
		"an extra key":        {small.spelled(`{"payload"`, `{"a":1,"payload"`), `unknown field "a"`},
		"a doubled key":       {small.spelled(`{"payload"`, `{"payload":"","payload"`), "duplicate"},
		"a key in upper case": {small.spelled(`{"payload"`, `{"Payload"`), "spelled otherwise"},
		"a missing key":       {small.spelled(`,"payloadType":"application/vnd.in-toto+json"`, ""), "a key too few"},
		"another type":        {small.spelled("vnd.in-toto+json", "json"), `of type "application/json"`},
		"no base64":           {small.enveloped(func(e *envelope) { e.Payload = "!" }), "payload is not base64"},
		"loose base64":        {small.enveloped(func(e *envelope) { e.Payload += "\n" }), "payload is not base64"},
		"a signature that is no base64": {small.enveloped(func(e *envelope) { last(e).Sig = "!" }),
			"a signature is not base64"},
		"no signature":    {small.enveloped(func(e *envelope) { e.Signatures = nil }), "0 signatures"},
		"the plain alone": {small.enveloped(func(e *envelope) { e.Signatures = e.Signatures[:1] }), "does not begin with"},
		"the SSHSIG alone": {small.enveloped(func(e *envelope) { e.Signatures = e.Signatures[1:] }),
			"plain signature is missing"},
		"in another order": {small.enveloped(func(e *envelope) {
			e.Signatures[0], e.Signatures[1] = e.Signatures[1], e.Signatures[0]
		}), "does not begin with"},
		"a third signature": {small.enveloped(func(e *envelope) { e.Signatures = append(e.Signatures, e.Signatures[0]) }),
			"3 signatures"},
		"a second person": {small.enveloped(func(e *envelope) {
			last(e).Sig, last(e).KeyID = small.signedBy(2, Namespace), sshsigPrefix+sshsig.Fingerprint(person(t, 2).PublicKey())
		}), "by two keys"},
		"another key id": {small.enveloped(func(e *envelope) { last(e).KeyID = "sshsig:x" }), "not by sshsig:x"},
		"a false plain signature": {small.enveloped(func(e *envelope) {
			e.Signatures[0].Sig = base64.StdEncoding.EncodeToString(make([]byte, 64))
		}), "plain signature is not one of this statement"},
		"another namespace": {small.enveloped(func(e *envelope) { last(e).Sig = small.signedBy(1, "git") }),
			`for the namespace "git"`},
		"an approval as a signature": {small.enveloped(func(e *envelope) {
			last(e).Sig = small.signedBy(1, history.NamespaceApproval)
		}), `for the namespace "approval@plait.run"`},
		"another armor": {small.enveloped(func(e *envelope) {
			armored, _ := base64.StdEncoding.DecodeString(last(e).Sig)
			last(e).Sig = base64.StdEncoding.EncodeToString(append(armored, '\n'))
		}), "not written as ssh-keygen writes it"},
		"the statement of another": {small.enveloped(func(e *envelope) {
			data, _ := other.statement.Marshal()
			e.Payload = base64.StdEncoding.EncodeToString(data)
		}), "not one of this message"},
		"signed by a stranger": {small.pack(Bundle{Envelope: small.sign(small.statement, person(t, 7)),
			Checkpoint: small.bundle.Checkpoint, Entries: small.bundle.Entries}), "nobody allowed it"},

		// The statement, although Ann signed it.
		"another statement": {small.said(func(s *Statement) { s.Type += "0" }), "its type is"},
		"another predicate": {small.said(func(s *Statement) { s.PredicateType = "https://slsa.dev/provenance/v1" }),
			"its predicate is of type"},
		"no task":    {small.said(func(s *Statement) { s.Predicate.Task.ID = "" }), "names no task"},
		"no subject": {small.said(func(s *Statement) { s.Subject = nil }), "no subject"},
		"two trees": {small.said(func(s *Statement) { s.Subject = append(s.Subject, s.Subject[2]) }),
			"two subjects have a gitTree"},
		"a subject with two digests": {small.said(func(s *Statement) { s.Subject[0].Digest[DigestTree] = treeAfter }),
			"has 2 digests"},
		"an unknown digest": {small.said(func(s *Statement) { s.Subject[0].Digest = map[string]string{"md5": "0"} }),
			`unknown digest "md5"`},
		"a short digest": {small.said(func(s *Statement) { s.Subject[2].Digest[DigestTree] = "22" }), `"22" is no gitTree`},
		"a digest in upper case": {small.said(func(s *Statement) { s.Subject[2].Digest[DigestTree] = strings.Repeat("A", 40) }),
			"is no gitTree"},
		"an extra key in it": {small.payload(func(s string) string { return strings.Replace(s, `{"_type"`, `{"Aa":1,"_type"`, 1) }),
			`unknown field "Aa"`},
		"a doubled key in it": {small.payload(func(s string) string {
			return strings.Replace(s, `"flow":"fix"`, `"flow":"fix","flow":"fix"`, 1)
		}), "duplicate"},
		"a number beyond 2^53": {small.payload(func(s string) string {
			return strings.Replace(s, `"createdAt":1767225600000`, `"createdAt":9007199254740993`, 1)
		}), "statement: "},
		"invalid UTF-8": {small.payload(func(s string) string { return strings.Replace(s, `"fix"`, "\"\xff\"", 1) }),
			"statement: "},

		// The log.
		"another checkpoint":      {small.filed(fileCheckpoint, other.bundle.Checkpoint), "of another head"},
		"a checkpoint not named":  {small.edited(fileCheckpoint, func(b []byte) []byte { return other.bundle.Checkpoint }), "not the one that the statement names"},
		"a later checkpoint":      {small.filed(fileCheckpoint, forged), "of another head"},
		"an unsigned checkpoint":  {small.filed(fileCheckpoint, []byte(otherHead.String())), "checkpoint: "},
		"a stranger's checkpoint": {small.filed(fileCheckpoint, byStranger), "no log of the policy signed it"},
		"a false signature of the log": {small.filed(fileCheckpoint, bytes.Replace(forged,
			fmt.Appendf(nil, "\n%d\n", otherHead.Size), fmt.Appendf(nil, "\n%d\n", otherHead.Size-1), 1)), "invalid signature"},
		"an entry changed":         {small.logged(func(e *Entries) { e.Entries[0].TS++ }), "does not have them"},
		"an entry of another task": {small.logged(func(e *Entries) { e.Entries[0].Task = "T" }), `it is of task "T"`},
		"another salt":             {small.logged(func(e *Entries) { e.Entries[0].Salt = strings.Repeat("0", 64) }), "does not have them"},
		"no salt":                  {small.logged(func(e *Entries) { e.Entries[0].Salt = "" }), "is no salt"},
		"an entry moved":           {small.logged(func(e *Entries) { e.Entries[1].Pos++ }), "the proof is too short"},
		"an entry at 0":            {small.logged(func(e *Entries) { e.Entries[0].Pos = 0 }), "out of order"},
		"an entry beyond the log":  {small.logged(func(e *Entries) { e.Entries[3].Pos = 1 << 40 }), "out of order"},
		"an entry twice": {small.logged(func(e *Entries) { e.Entries = append(e.Entries[:1:1], e.Entries...) }),
			"is not after that of the one before"},
		"an entry left out":       {p.logged(func(e *Entries) { e.Entries = append(e.Entries[:2:2], e.Entries[3:]...) }), "the proof is too"},
		"the end left out":        {small.logged(func(e *Entries) { e.Entries = e.Entries[:len(e.Entries)-1] }), "the proof is too"},
		"no entry":                {small.logged(func(e *Entries) { e.Entries = nil }), "entries: 0 of"},
		"a longer proof":          {small.logged(func(e *Entries) { e.Proof = append(e.Proof, dag.Hash{}) }), "the proof is too long"},
		"another size of the log": {small.logged(func(e *Entries) { e.Size++ }), "the checkpoint is of"},
		"an end that is not last": {small.said(func(s *Statement) { s.Predicate.Log.Entries++ }), "the last one is task.completed"},
		"an end that is none":     {small.said(func(s *Statement) { s.Predicate.Task.Status = store.Blocked }), "the last one is task.completed"},
		"another end":             {small.said(func(s *Statement) { s.Predicate.Task.Status = store.Failed }), "the last one is task.completed"},
		"another head":            {small.said(func(s *Statement) { s.Predicate.Task.Head = dag.Sum(nil) }), "none says that the task ended at"},
		"a proof of another log":  {small.filed(fileEntries, other.bundle.Entries), "the checkpoint is of"},

		// Approvals.
		"an approval that nobody gave": {approval(func(a *Approval) { a.Gate = "g-2" }), `none says that "bob" answered g-2`},
		"in another way":               {approval(func(a *Approval) { a.Via = store.ViaWeb }), "via web"},
		"by someone else":              {approval(func(a *Approval) { a.By = "eve" }), `none says that "eve" answered g-1`},
		"a denial as an approval":      {approval(func(a *Approval) { a.Verdict = store.GateRejected }), "with rejected"},
		"an approval of another action": {approval(func(a *Approval) { a.Digest = dag.Sum(nil) }),
			"what was signed is another answer"},
		"a longer approval":  {approval(func(a *Approval) { a.Grant = store.GrantSession }), "what was signed is another answer"},
		"at another time":    {approval(func(a *Approval) { a.At++ }), "what was signed is another answer"},
		"no signature of it": {approval(func(a *Approval) { a.Signed = "x" }), "approval of gate g-1: invalid signature"},
		"a changed approval": {approval(func(a *Approval) { a.Signed = strings.Replace(a.Signed, "once", "session", 1) }), "not one of this message"},
		"an approval of the future": {func() []byte {
			a := history.Approval{At: began + 1000, Digest: dag.Sum([]byte("action")), Gate: "g-1", Grant: store.GrantOnce,
				Origin: w.origin, Size: 1 << 30, Task: taskID, Text: dag.Sum(nil), Verdict: store.GateApproved}
			signed, err := a.Sign(person(t, 2))
			if err != nil {
				t.Fatal(err)
			}
			return approval(func(a *Approval) { a.Signed = string(signed) })
		}(), "another answer"},

		// The record.
		"an object changed": {p.edited(objects, func(b []byte) []byte { return append(b, ' ') }), "its bytes have another sum"},
		"an object missing": {p.without(objects), "record: "},
		"an object replaced, as if it was redacted": {p.edited(objects, func([]byte) []byte {
			return store.Redacted([]byte("ok"))
		}), "its bytes have another sum"},
		"far more rows in memory than in the file": {p.exported("index/gates.json",
			"["+strings.Repeat("{},", 1<<20)+"{}]"), "the list is too long"},
		"a row changed": {p.edited("index/threads.json", func(b []byte) []byte { return append(b, ' ') }),
			"index/threads.json is not what it was"},
		"a row missing":        {p.without("index/threads.json"), "index/threads.json is not there"},
		"a file added":         {p.with("index/more.json", nil), "index/more.json has no line in SHA256SUMS"},
		"a record without one": {small.with("index/threads.json", []byte("[]")), "no manifest.json"},
		"sums that are none":   {p.filed(fileSums, []byte("x\n")), "a line that is none"},
		"sums twice":           {p.filed(fileSums, append(bytes.Clone(p.bundle.Sums), p.bundle.Sums...)), "a line that is none"},
		"a step left out": {p.said(func(s *Statement) { s.Predicate.Steps = s.Predicate.Steps[1:] }),
			"does not say what the statement says"},
		"another model": {p.said(func(s *Statement) { s.Predicate.Steps[0].Agent.ModelBy = ModelByGateway }),
			"does not say what the statement says"},
		"another command": {p.said(func(s *Statement) { s.Predicate.Steps[0].Evidence[0].Exit = 1 }),
			"does not say what the statement says"},
		"someone else who asked": {small.said(func(s *Statement) { s.Predicate.Task.By = "eve" }),
			`none says that "eve" asked for the task`},
		"another version": {p.said(func(s *Statement) { s.Predicate.Steps[0].Agent.Version = "9" }),
			`none says that version "9" of codex made step`},
		"a text changed":           {shows.edited(objects, func(b []byte) []byte { return append(b, ' ') }), "its bytes have another sum"},
		"a text that nobody named": {small.with(objects+dag.Sum([]byte("x")).String(), []byte("x")), "no manifest.json"},
		"a gap left out": {p.said(func(s *Statement) { s.Predicate.NotKnown = []Unknown{} }),
			"does not say what the statement says"},
		"an approval left out": {p.said(func(s *Statement) { s.Predicate.Approvals = []Approval{} }),
			"does not say what the statement says"},
	} {
		q := p
		q.t = t
		r := q.verify(x.data, "")
		if len(r.Reasons) == 0 || !strings.Contains(strings.Join(r.Reasons, "\n"), x.want) {
			t.Errorf("%s: got %q, want %q", name, r.Reasons, x.want)
		}
		if r.Record && strings.Contains(x.want, "record") {
			t.Errorf("%s: the record counts", name)
		}
	}
}

// bigDirectory says that the directory of a ZIP file is 2 GiB long.
func bigDirectory(body []byte) []byte {
	out := bytes.Clone(body)
	copy(out[len(out)-22+12:], []byte{0, 0, 0, 0x80})
	return out
}
