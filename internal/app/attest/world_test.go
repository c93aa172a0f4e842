package attest

import (
	"archive/zip"
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/history"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/mem"
	"github.com/plait-run/plait/internal/view/taskdir"
)

// person returns the SSH key whose seed is n, 32 times.
func person(t testing.TB, n byte) ssh.Signer {
	t.Helper()
	s, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// logKey returns the log key whose seed is n, 32 times.
func logKey(t testing.TB, n byte) *history.LogKey {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "log.key")
	if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	k, err := history.OpenLogKey(name)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

const (
	taskID = "01KDVDTC00000000000000000B"
	began  = 1767225600000
)

var (
	treeBefore, treeAfter = strings.Repeat("1", 40), strings.Repeat("2", 40)
	subjects              = Revision{Commit: strings.Repeat("3", 40), Tree: treeAfter, Patch: strings.Repeat("4", 40)}
)

// A world is a record with an ended task, in which Bob approved a command and steps were made by an agent.
type world struct {
	t      testing.TB
	store  *mem.Store
	row    store.Thread
	tip    thread.Tip
	origin string
	signed history.Checkpoint // head that Bob signed with his approval
}

func (w *world) commit(b store.Batch) {
	w.t.Helper()
	if err := w.store.Commit(w.t.Context(), b); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) node(typ string, payload any) store.Object {
	w.t.Helper()
	o, err := thread.NewNode(typ, payload)
	if err != nil {
		w.t.Fatal(err)
	}
	return o
}

// change commits a change of the thread with events.
func (w *world) change(c thread.Change, err error, more store.Batch) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
	more.Objects = append(more.Objects, c.Objects...)
	more.Threads = []store.ThreadChange{{Row: c.Row, From: w.row.State()}}
	w.row, w.tip = c.Row, c.Tip
	w.commit(more)
}

func newWorld(t testing.TB, steps int) *world { return newWorldOf(t, steps, history.Checkpoint{}) }

// newWorldOf is newWorld with a task that was before in a record whose log had a head when Bob approved.
func newWorldOf(t testing.TB, steps int, signed history.Checkpoint) *world {
	w := &world{t: t, store: mem.New(mem.Config{}), signed: signed}
	objects, row, err := thread.Begin(thread.NewTask{Row: store.Thread{ID: taskID, CreatedAt: began,
		Workspace: filepath.Join(t.TempDir(), "ws")}, Bundle: thread.Bundle{Name: "fix", Flows: map[string]json.RawMessage{}},
		Prompt: "Fix it"})
	if err != nil {
		t.Fatal(err)
	}
	w.row = row
	w.tip = thread.Tip{Head: row.Head, Start: row.Start, IsStart: true}
	w.commit(store.Batch{Objects: objects, Threads: []store.ThreadChange{{Row: row}},
		Events: []store.Event{event.New(row, began, event.TaskCreated{By: "ann", Flow: "fix", Bundle: row.Bundle, Start: row.Start})}})
	log, err := w.store.Log(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.origin = history.Origin(log.Origin)
	if signed.Origin == "" {
		w.signed = history.Head(log)
	}
	gate := w.approve(w.signed)
	for range steps {
		w.step(gate)
	}
	c, err := thread.End(w.row, w.tip, 0, "Fixed.", began+9000)
	w.change(c, err, store.Batch{Events: []store.Event{
		event.New(w.row, began+9000, event.ThreadEnded{Status: store.Completed, Head: c.Row.Head}),
		event.New(w.row, began+9000, event.TaskEnded{State: "completed", Summary: "Fixed."}),
	}})
	return w
}

// approve files a gate that Bob approved, signed with the second key.
func (w *world) approve(head history.Checkpoint) store.Gate {
	w.t.Helper()
	g := store.Gate{ID: "g-1", Kind: store.GateApproval, State: store.GateApproved, Source: store.SourceAgent, Task: taskID,
		Thread: taskID, Action: json.RawMessage(`{"command":"make"}`), Digest: dag.Sum([]byte("action")),
		Grant: store.GrantOnce, OpenedAt: began, AnsweredAt: began + 1000, By: "bob", Via: store.ViaCLI}
	signed, err := history.NewApproval(g, head).Sign(person(w.t, 2))
	if err != nil {
		w.t.Fatal(err)
	}
	g.Signature = string(signed)
	w.commit(store.Batch{Gates: []store.GateChange{{Row: g}}, Events: []store.Event{event.New(w.row, began+1000,
		event.GateChanged{Change: event.Change(g.State), Gate: g.ID, State: g.State, By: g.By, Via: g.Via})}})
	return g
}

func (w *world) step(gate store.Gate) {
	w.t.Helper()
	prompt, err := thread.NewContent(fmt.Sprintf("Do step %d", w.row.Steps), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	output := fmt.Appendf(nil, "ok %d", w.row.Steps)
	exit, cwd := 0, "."
	e := w.node(dag.TypeEvidence, thread.Evidence{ID: "cmd-1", Kind: thread.CommandExecution, By: "fixer",
		Sources: []thread.EvidenceSource{{Command: []string{"go test ./..."}, Cwd: &cwd, ExitCode: &exit,
			StdoutRef: dag.Sum(output), Hash: dag.Sum(output), Tree: &treeAfter}}, ArtifactRefs: []dag.Hash{}})
	d := thread.NewDetail(began+2000, began+3000)
	d.Agent, d.Model, d.Sandbox, d.Prompt = "codex", "gpt-5.5", "bubblewrap, via: direct", prompt.Hash
	d.TreeBefore, d.TreeAfter, d.Evidence = &treeBefore, &treeAfter, []dag.Hash{e.Hash}
	if w.row.Steps > 0 { // the first step makes the change, the others test it
		d.TreeBefore = &treeAfter
	}
	d.Approvals.Hashes = []dag.Hash{thread.ApprovalHash(gate)}
	d.Transcript = dag.Sum(output)
	d.Usage = store.Usage{InputTokens: 1200, OutputTokens: 300}
	c, err := thread.Append(w.row, w.tip, thread.Draft{Role: "fixer", Meta: json.RawMessage(`{"$status":"done"}`),
		Text: "Done.", Detail: d, At: began + 3000})
	w.change(c, err, store.Batch{Objects: []store.Object{e, prompt, {Hash: dag.Sum(output), Data: output}},
		Events: []store.Event{event.New(w.row, began+3000, event.AttemptCompleted{Role: "fixer", Step: c.Row.Head,
			Version: "0.169.0"}), event.New(w.row, began+3000, event.AgentEnded{State: store.Completed})}})
}

// A proof is a bundle with what it was made of.
type proof struct {
	t         testing.TB
	statement *Statement
	entries   *Entries
	bundle    Bundle
	policy    string
	have      *Revision // against which it is verified
}

// prove makes a bundle of the task, signed by Ann with the first key; with the record if whole is set.
func (w *world) prove(whole bool) proof {
	t := w.t
	t.Helper()
	log, err := w.store.Log(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	head := history.Head(log)
	key := logKey(t, 3)
	checkpoint, err := head.Sign(key.Signer(w.origin), history.Person(person(t, 1)))
	if err != nil {
		t.Fatal(err)
	}
	r, err := Read(t.Context(), w.store, taskID)
	if err != nil {
		t.Fatal(err)
	}
	p := proof{t: t}
	if p.statement, p.entries, err = (Maker{Journal: w.store, Record: r, Subject: subjects.Subjects()}).Statement(
		t.Context(), head, whole); err != nil {
		t.Fatal(err)
	}
	var export *zip.Reader
	if whole {
		var b bytes.Buffer
		if _, err := taskdir.Export(t.Context(), w.store, &b, taskID); err != nil {
			t.Fatal(err)
		}
		if export, err = zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len())); err != nil {
			t.Fatal(err)
		}
	}
	if p.bundle, err = NewBundle(p.statement, checkpoint, p.entries, export); err != nil {
		t.Fatal(err)
	}
	p.bundle.Envelope = p.sign(p.statement, person(t, 1))
	p.policy = "log " + vkeyOf(t, w.origin) + "\nquorum none\nsigner ann " + authorized(t, 1) + "signer bob " + authorized(t, 2)
	return p
}

// shows makes a bundle without the record that shows prompts or transcripts.
func (w *world) shows(what ...string) proof {
	w.t.Helper()
	p := w.prove(false)
	shown, err := Shown(w.t.Context(), w.store, p.statement.Predicate, what)
	if err != nil {
		w.t.Fatal(err)
	}
	p.bundle.Shown = shown
	return p
}

func authorized(t testing.TB, n byte) string {
	return string(ssh.MarshalAuthorizedKey(person(t, n).PublicKey()))
}

func (p proof) sign(s *Statement, key ssh.Signer) []byte {
	p.t.Helper()
	data, err := s.Marshal()
	if err != nil {
		p.t.Fatal(err)
	}
	envelope, err := Sign(data, key)
	if err != nil {
		p.t.Fatal(err)
	}
	return envelope
}

func (p proof) pack(b Bundle) []byte {
	p.t.Helper()
	var out bytes.Buffer
	if err := Pack(&out, b); err != nil {
		p.t.Fatal(err)
	}
	return out.Bytes()
}

// exported returns the bundle of an export with another file.
func (p proof) exported(name, text string) []byte {
	p.t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	var err error
	for _, f := range p.bundle.Record.File {
		if f.Name != name {
			err = errors.Join(err, z.Copy(f))
			continue
		}
		w, createErr := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate})
		if err = errors.Join(err, createErr); err == nil {
			_, err = io.WriteString(w, text)
		}
	}
	if err = errors.Join(err, z.Close()); err != nil {
		p.t.Fatal(err)
	}
	if p.bundle.Record, err = zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len())); err != nil {
		p.t.Fatal(err)
	}
	list, err := sums(p.bundle.Record)
	if err != nil {
		p.t.Fatal(err)
	}
	return p.filed(fileSums, list)
}

// verify checks a bundle against the policy with more lines.
func (p proof) verify(data []byte, more string) Report {
	p.t.Helper()
	policy, err := ParsePolicy([]byte(p.policy + more))
	if err != nil {
		p.t.Fatal(err)
	}
	r, err := Verify(p.t.Context(), Check{Bundle: bytes.NewReader(data), Size: int64(len(data)), Policy: policy,
		Now: time.UnixMilli(began), Have: p.have})
	if err != nil {
		p.t.Fatal(err)
	}
	return r
}
