package verifytest

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/history"
	"github.com/plait-run/plait/internal/record/merkle"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/verify"
)

// A Storage is where a store keeps a record, for someone who can write there without the store.
type Storage interface {
	// Open opens the store. Whoever opens it closes it.
	Open(t *testing.T) store.Store
	// Copy returns a copy. No store has it open.
	Copy(t *testing.T) Storage
	// Rewrite replaces the journal: its events and kept leaves by entries, what is counted of events by what follows
	// from them, and the tree. No store has it open.
	Rewrite(t *testing.T, entries []store.LogEntry, tree merkle.Tree)
}

// What verification can find.
const (
	nothing = ""
	leaves  = "are not those that were written" // entries do not fit the tree
	seen    = "that the one who kept it has seen"
	shorter = "but the one who kept it has seen"
)

// A forgery is tried on a copy of a record, of rows or of the journal.
type forgery struct {
	name    string
	gate    func(*store.Gate)
	attempt func(*store.Attempt)
	// journal returns other entries. With a forgery of rows, it makes those fit that are about the row.
	journal func([]store.LogEntry) []store.LogEntry
	gone    bool   // task B is removed, too
	older   bool   // the record is the copy that was made before its last half
	kept    bool   // the checkpoint of this machine is the one of that copy, too
	rows    string // found of rows alone, without anything else
	witness string // found by who kept a checkpoint, if the tree fits, which nobody else finds
}

func forgeries() []forgery {
	const gate, attempt = "gate g-A-0 is not what event", "attempt A.1 is not what event"
	payload := func(old, now string) func([]store.LogEntry) []store.LogEntry {
		return func(entries []store.LogEntry) []store.LogEntry {
			for _, e := range entries {
				if e.Event.Task == "A" && !bytes.Contains(e.Event.Payload, []byte("key")) {
					e.Event.Payload = bytes.ReplaceAll(e.Event.Payload, []byte(old), []byte(now))
				}
			}
			return entries
		}
	}
	return []forgery{
		{name: "answer", gate: func(g *store.Gate) { g.State, g.Text = store.GateApproved, "yes" },
			journal: payload(`"state":"rejected"`, `"state":"approved"`), rows: gate, witness: seen},
		{name: "author", gate: func(g *store.Gate) { g.By = "bob" }, journal: payload(`"by":"ann"`, `"by":"bob"`),
			rows: gate, witness: seen},
		{name: "way", gate: func(g *store.Gate) { g.Via = store.ViaPolicy }, journal: payload(`"via":"cli"`, `"via":"policy"`),
			rows: gate, witness: seen},
		{name: "time", gate: func(g *store.Gate) { g.AnsweredAt -= 1000 }, rows: gate, witness: seen,
			journal: func(entries []store.LogEntry) []store.LogEntry {
				at(entries, event.Types(event.GateChanged{Change: event.Change(store.GateRejected)})).TS -= 1000
				return entries
			}},
		{name: "payload", journal: payload(`a secret`, `no secret`), rows: leaves, witness: seen},
		{name: "usage", attempt: func(a *store.Attempt) { a.Usage.CostMicroUSD = 1 }, journal: payload(`"costMicroUSD":100`,
			`"costMicroUSD":1`), rows: attempt, witness: seen},
		{name: "times of an attempt", attempt: func(a *store.Attempt) { a.StartedAt -= 5000 }, rows: attempt, witness: seen,
			journal: func(entries []store.LogEntry) []store.LogEntry {
				at(entries, event.Types(event.AttemptStarted{})).TS -= 5000
				return entries
			}},
		{name: "the last events", rows: "is gone", witness: shorter,
			journal: func(entries []store.LogEntry) []store.LogEntry { return entries[:len(entries)-2] }},
		{name: "two swapped", rows: leaves, witness: seen, journal: func(entries []store.LogEntry) []store.LogEntry {
			n := len(entries)
			entries[n-1].Event, entries[n-4].Event = entries[n-4].Event, entries[n-1].Event // of different types
			return entries
		}},
		{name: "a task", gone: true, rows: "were taken out, and no entry says so", witness: shorter,
			journal: func(entries []store.LogEntry) []store.LogEntry {
				return slices.DeleteFunc(entries, func(e store.LogEntry) bool { return e.Event == nil })
			}},
		{name: "an older copy", older: true, rows: nothing, witness: shorter},
		{name: "an older copy, with its checkpoint", older: true, kept: true, rows: nothing, witness: shorter},
	}
}

// at returns the first event of a type.
func at(entries []store.LogEntry, types []string) *store.Event {
	return entries[slices.IndexFunc(entries, func(e store.LogEntry) bool { return slices.Contains(types, e.Event.Type) })].Event
}

// A kept is a record, and what its owner keeps.
type kept struct {
	now, before          Storage
	checkpoint, of       []byte // of now, and of before
	person, forger       ssh.Signer
	personKey, forgerKey *history.LogKey
}

// Forgeries forges the record of a new, empty storage in twelve ways, each three times: rows alone, with a tree that
// fits, and with a checkpoint that the forger signs. It fails the test if verification finds anything else than it
// should, with a checkpoint of the record that someone kept, and without one.
func Forgeries(t *testing.T, empty Storage) {
	k := keep(t, empty)
	k.want(t, k.now, k.checkpoint, nothing, history.Vouched)
	for _, f := range forgeries() {
		t.Run(f.name, func(t *testing.T) {
			from := k.now
			if f.older {
				from = k.before
			}
			forged := from.Copy(t)
			was := f.forgeRows(t, forged)
			if f.gate == nil && f.attempt == nil && f.journal != nil && !f.gone {
				forged.Rewrite(t, f.journal(journal(t, forged)), was)
			}
			k.want(t, forged, nil, f.rows, "")
			if !f.older {
				k.want(t, forged, k.checkpoint, f.rows, history.Vouched)
			}

			forged = from.Copy(t)
			if f.journal != nil {
				f.forgeRows(t, forged)
				entries := f.journal(journal(t, forged))
				forged.Rewrite(t, entries, fit(t, forged, entries))
			}
			k.want(t, forged, nil, nothing, "")
			k.want(t, forged, k.checkpoint, f.witness, history.Vouched)
			if f.kept {
				k.want(t, forged, k.of, nothing, history.Vouched)
			}

			// The forger replaces what this machine keeps. Their own key is one that nobody vouches for, or they do.
			k.want(t, forged, k.sign(t, forged), nothing, history.Unvouched)
			k.admit(t, forged, k.forgerKey, k.forger)
			k.want(t, forged, k.sign(t, forged), nothing, history.Vouched)
			k.want(t, forged, k.checkpoint, f.witness, history.Vouched)
		})
	}
}

// keep writes a record, and signs it.
func keep(t *testing.T, s Storage) *kept {
	k := &kept{now: s, person: person(t, 1), forger: person(t, 2), personKey: logKey(t), forgerKey: logKey(t)}
	k.admit(t, s, k.personKey, k.person)
	write := func(n int, task string, do func(*Writer, context.Context, store.Thread) (store.Batch, error)) {
		st := s.Open(t)
		defer st.Close()
		for range n {
			w := NewWriter(st, "", Bundle(t), func(n int) int { return n - 1 })
			row, err := st.Thread(t.Context(), task)
			var b store.Batch
			if err != nil {
				b, err = w.begin(task)
			} else {
				b, err = do(w, t.Context(), row)
			}
			if err == nil {
				err = st.Commit(t.Context(), b)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	say := func(w *Writer, _ context.Context, row store.Thread) (store.Batch, error) { return w.say(row), nil }
	write(3, "A", (*Writer).work)
	write(2, "A", (*Writer).gate)
	k.of = k.signed(t, s, k.personKey)
	k.before = s.Copy(t)
	write(5, "B", (*Writer).work)
	write(4, "A", (*Writer).work)
	write(3, "A", say)
	k.checkpoint = k.signed(t, s, k.personKey)
	return k
}

// admit has a person vouch for a log key.
func (k *kept) admit(t *testing.T, in Storage, key *history.LogKey, person ssh.Signer) {
	t.Helper()
	s := in.Open(t)
	defer s.Close()
	head := head(t, s)
	public, err := key.Public(head.Origin)
	if err != nil {
		t.Fatal(err)
	}
	e, err := history.Admission{At: s.Now().UnixMilli(), Host: "desk", Key: public, Origin: head.Origin}.Sign(person, "ann")
	if err == nil {
		err = s.Commit(t.Context(), store.Batch{Events: []store.Event{e}})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func head(t *testing.T, s store.Store) history.Checkpoint {
	t.Helper()
	log, err := s.Log(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return history.Head(log)
}

// sign has the forger sign what the record is now.
func (k *kept) sign(t *testing.T, in Storage) []byte { return k.signed(t, in, k.forgerKey) }

func (k *kept) signed(t *testing.T, in Storage, key *history.LogKey) []byte {
	t.Helper()
	s := in.Open(t)
	defer s.Close()
	head := head(t, s)
	signed, err := head.Sign(key.Signer(head.Origin))
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

// want verifies a record, with a checkpoint if there is one. What is found must have a text in it, or be nothing, and
// the checkpoint must stand as given: what someone vouches for, the person does.
func (k *kept) want(t *testing.T, in Storage, checkpoint []byte, text string, standing history.Standing) {
	t.Helper()
	s := in.Open(t)
	defer s.Close()
	cfg := verify.Config{Store: s}
	if checkpoint != nil {
		events, err := s.Events(t.Context(), 0, history.KeyEvents())
		if err != nil {
			t.Fatal(err)
		}
		c, is, err := history.ReadKeys(head(t, s).Origin, events, nil).Read(checkpoint)
		if err != nil || is.Standing != standing {
			t.Errorf("the checkpoint is %s, not %s: %v", is.Standing, standing, err)
		}
		signer := k.person
		if !bytes.Equal(checkpoint, k.checkpoint) && !bytes.Equal(checkpoint, k.of) {
			signer = k.forger
		}
		if is.Standing == history.Vouched && !bytes.Equal(is.By.Marshal(), signer.PublicKey().Marshal()) {
			t.Errorf("the wrong person vouches for the checkpoint: %s", ssh.FingerprintSHA256(is.By))
		}
		cfg.Seen = []verify.Seen{{By: "the one who kept it", Size: c.Size, Root: c.Root}}
	}
	r, err := verify.All(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, p := range r.Problems {
		found = append(found, p.What)
	}
	if all := strings.Join(found, "\n"); (text == nothing) != (all == "") || !strings.Contains(all, text) {
		t.Errorf("found %q, want %q", all, text)
	}
}

// forgeRows forges rows by a batch without events, which does what an UPDATE would. It returns the tree.
func (f *forgery) forgeRows(t *testing.T, in Storage) merkle.Tree {
	t.Helper()
	s := in.Open(t)
	defer s.Close()
	var b store.Batch
	if f.gate != nil {
		g, err := s.Gate(t.Context(), "g-A-0")
		if err != nil {
			t.Fatal(err)
		}
		x := store.GateChange{From: g.State, UsedAt: g.UsedAt}
		f.gate(&g)
		x.Row = g
		b.Gates = []store.GateChange{x}
	}
	if f.attempt != nil {
		a, err := s.Attempt(t.Context(), "A.1")
		if err != nil {
			t.Fatal(err)
		}
		x := store.AttemptChange{From: a.Status}
		f.attempt(&a)
		x.Row = a
		b.Attempts = []store.AttemptChange{x}
	}
	if f.gone {
		b.Remove = []string{"B"}
	}
	if err := s.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	log, err := s.Log(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return log.Tree
}

// journal returns the entries of a record.
func journal(t *testing.T, in Storage) []store.LogEntry {
	t.Helper()
	s := in.Open(t)
	defer s.Close()
	entries, err := s.Entries(t.Context(), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// fit makes entries fit the rows, and returns the tree over them: their positions and numbers, and what the last one
// about each row says of it.
func fit(t *testing.T, in Storage, entries []store.LogEntry) (tree merkle.Tree) {
	t.Helper()
	s := in.Open(t)
	defer s.Close()
	gate, err := s.Gate(t.Context(), "g-A-0")
	if err != nil {
		t.Fatal(err)
	}
	attempt, err := s.Attempt(t.Context(), "A.1")
	if err != nil {
		t.Fatal(err)
	}
	is := store.Proof{"gate g-A-0": gate.Proven(), "attempt A.1": attempt.Proven()}
	seq := map[string]int64{}
	for i := range entries {
		e := entries[i].Event
		seq[e.Task]++
		entries[i].Pos, e.Pos, e.Seq = int64(i+1), int64(i+1), seq[e.Task]
	}
	for i := len(entries) - 1; i >= 0; i-- {
		proof := store.ReadProof(entries[i].Event.Proof)
		for row := range proof {
			if digest, ok := is[row]; ok {
				proof[row] = digest
				delete(is, row)
				if entries[i].Event.Proof, err = json.Marshal(proof); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for i := range entries {
		tree.Append(entries[i].Hash())
	}
	return tree
}

func person(t *testing.T, n byte) ssh.Signer {
	t.Helper()
	s, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func logKey(t *testing.T) *history.LogKey {
	t.Helper()
	k, err := history.OpenLogKey(filepath.Join(t.TempDir(), "log.key"))
	if err != nil {
		t.Fatal(err)
	}
	return k
}
