package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/plait-run/plait/internal/record/dag"
)

// A Proof says what a batch made of rows: to each, "thread ID", "attempt ID", "gate ID", "request ID" or "flow NAME",
// the digest of its proven columns, zero if the row was deleted; to an event whose payload was redacted, "event POS",
// and to an object that was redacted, "object HASH", the SHA-256 of what is kept.
type Proof map[string]dag.Hash

// What proofs say of other things than rows begins with these words.
const (
	ProofEvent  = "event "
	ProofObject = "object "
)

// ReadProof returns what the proof of an event says, nothing if there is none or it cannot be read.
func ReadProof(data json.RawMessage) Proof {
	var p Proof
	if json.Unmarshal(data, &p) != nil {
		return nil
	}
	return p
}

// Prove adds to the events of b what it makes of rows. What it makes of a row is part of the first event of the same
// attempt, else of the same thread, of the same task, of any. Events that have a proof, or a number because they were
// copied from another record, stay as they are. A batch without another event proves nothing: it must leave the proven
// columns of its rows alone, and redact no object.
func (b *Batch) Prove() {
	proofs := map[int]Proof{}
	events := slices.Clone(b.Events)
	add := func(row string, digest dag.Hash, task, thread, attempt string) {
		best, rank := -1, -1
		for i := range events {
			e, r := &events[i], 0
			switch {
			case e.Proof != nil || e.Seq != 0:
				continue
			case attempt != "" && e.Attempt == attempt:
				r = 3
			case thread != "" && e.Thread == thread:
				r = 2
			case task != "" && e.Task == task:
				r = 1
			}
			if r > rank {
				best, rank = i, r
			}
		}
		if best < 0 {
			return
		}
		if proofs[best] == nil {
			proofs[best] = Proof{}
		}
		proofs[best][row] = digest
	}
	for i := range b.Threads {
		t := &b.Threads[i].Row
		add("thread "+t.ID, t.Proven(), t.Task, t.ID, "")
	}
	for i := range b.Attempts {
		a := &b.Attempts[i].Row
		add("attempt "+a.ID, a.Proven(), "", a.Thread, a.ID)
	}
	for i := range b.Gates {
		g := &b.Gates[i].Row
		add("gate "+g.ID, g.Proven(), g.Task, g.Thread, "")
	}
	for i := range b.Requests {
		if w := &b.Requests[i]; !w.Take {
			add("request "+w.Row.ID, w.Row.Proven(), w.Row.Task, w.Row.Thread, "")
		}
	}
	for i := range b.Redact.Requests {
		w := &b.Redact.Requests[i]
		add("request "+w.ID, w.Proven(), w.Task, w.Thread, "")
	}
	for i := range b.Redact.Events {
		e := &b.Redact.Events[i]
		add(fmt.Sprint(ProofEvent, e.Pos), dag.Sum(e.Payload), e.Task, "", "")
	}
	name := func(o *Object) { add(ProofObject+o.Hash.String(), dag.Sum(o.Data), "", "", "") }
	for i := range b.Redact.Objects {
		name(&b.Redact.Objects[i])
	}
	for i := range b.Objects {
		if b.Objects[i].Redacted {
			name(&b.Objects[i])
		}
	}
	for i := range b.Flows {
		f, digest := &b.Flows[i], dag.Hash{}
		if !f.Delete {
			digest = f.Row.Proven()
		}
		add("flow "+f.Row.Name, digest, "", "", "")
	}
	for i, p := range proofs {
		events[i].Proof = p.json()
	}
	b.Events = events
}

// json returns p as [json.Marshal] does, without its cost: a commit waits for it.
func (p Proof) json() []byte {
	b := make([]byte, 0, 128*len(p))
	for i, row := range slices.Sorted(maps.Keys(p)) {
		b = append(b, "{,"[min(i, 1)])
		b = append(dag.AppendString(b, row), ':')
		b = p[row].Append(b)
	}
	return append(b, '}')
}

// A digest hashes the proven columns of a row: texts behind their lengths, JSON without white space likewise, numbers
// as 8 bytes.
type digest struct{ b []byte }

func newDigest(texts ...string) *digest {
	d := &digest{make([]byte, 0, 1<<10)}
	d.texts(texts...)
	return d
}

func (d *digest) texts(texts ...string) {
	for _, s := range texts {
		d.b = append(binary.BigEndian.AppendUint32(d.b, uint32(len(s))), s...)
	}
}

func (d *digest) hashes(hs ...dag.Hash) {
	for _, h := range hs {
		d.b = append(d.b, h[:]...)
	}
}

func (d *digest) numbers(numbers ...int64) {
	for _, n := range numbers {
		d.b = binary.BigEndian.AppendUint64(d.b, uint64(n))
	}
}

// addJSON adds v as JSON; nil is no bytes.
func addJSON[T any](d *digest, v *T) {
	var data []byte
	if v != nil {
		data, _ = json.Marshal(v) // of texts and numbers: it cannot fail
	}
	d.texts(string(data))
}

// raw adds JSON as it is kept. An export spells it with other white space.
func (d *digest) raw(data json.RawMessage) {
	if len(data) == 0 { // most rows
		d.texts("")
		return
	}
	var b bytes.Buffer
	if err := json.Compact(&b, data); err == nil && b.String() != "null" {
		data = b.Bytes()
	} else if err == nil {
		data = nil
	}
	d.texts(string(data))
}

func (d *digest) sum() dag.Hash { return sha256.Sum256(d.b) }

// Proven returns the digest of the proven columns of t: all but those that are of one machine (short name, workspace,
// working tree, host) or change without an event (the attempt in flight, the time of the last change).
func (t *Thread) Proven() dag.Hash {
	d := newDigest("thread", t.ID, t.Task, t.Root, string(t.Kind), t.Flow, string(t.Status), string(t.Intent))
	d.hashes(t.Bundle, t.Start, t.Head, t.Files)
	addJSON(d, t.Reason)
	addJSON(d, t.Parent)
	addJSON(d, t.Path)
	addJSON(d, t.ForkedFrom)
	d.raw(t.Decision)
	d.raw(t.Options)
	d.numbers(int64(t.Steps), t.CreatedAt, t.EndedAt)
	return d.sum()
}

// Proven returns the digest of the proven columns of a: what it was, for how long, what came of it and what it used
// up, the last three once it has ended. Its process, session and pins are of one machine.
func (a *Attempt) Proven() dag.Hash {
	d := newDigest("attempt", a.ID, a.Thread, a.Role, a.Agent, a.Instance, string(a.Status))
	d.hashes(a.From, a.Prompt)
	d.numbers(int64(a.N))
	if a.Status == AttemptRunning {
		return d.sum()
	}
	d.hashes(a.Transcript, a.Stderr, a.Calls)
	addJSON(d, a.Failure)
	u := a.Usage
	d.numbers(a.StartedAt, a.EndedAt, a.Waited,
		u.InputTokens, u.CachedInputTokens, u.OutputTokens, u.ReasoningTokens, u.CostMicroUSD)
	return d.sum()
}

// Proven returns the digest of g: all of its columns are proven.
func (g *Gate) Proven() dag.Hash {
	d := newDigest("gate", g.ID, string(g.Kind), string(g.State), string(g.Source), g.Task, g.Thread, g.Node, g.Instance,
		g.Attempt, g.Question, string(g.Grant), g.OnTimeout, g.By, string(g.Via), g.Text, g.Ref, g.Signature)
	d.raw(g.Action)
	d.raw(g.Edited)
	d.numbers(int64(len(g.Options)))
	d.texts(g.Options...)
	d.hashes(g.From, g.Digest, g.Diff, g.EditedDigest)
	d.numbers(g.OpenedAt, g.ExpiresAt, g.AnsweredAt, g.UsedAt)
	return d.sum()
}

// Proven returns the digest of the proven columns of w: all but when it was taken, which an event tells.
func (w *Request) Proven() dag.Hash {
	d := newDigest("request", w.ID, w.Task, w.Thread, string(w.Kind), w.Text, w.By, string(w.Via))
	d.raw(w.Options)
	d.numbers(w.At)
	return d.sum()
}

// Proven returns the digest of f: all of its columns are proven.
func (f *Flow) Proven() dag.Hash {
	d := newDigest("flow", f.Name)
	d.hashes(f.Hash)
	d.numbers(f.Timestamp)
	for _, v := range f.History {
		d.hashes(v.Hash)
		d.numbers(v.Timestamp)
	}
	return d.sum()
}
