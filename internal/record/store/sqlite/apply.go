package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/store/pack"
)

var (
	errNoID   = errors.New("row without an id")
	errNoHash = errors.New("has no bundle hash")
	errNoTime = errors.New("taken without a time")
)

// Commit applies b wholly and durably, or not at all.
func (s *Store) Commit(ctx context.Context, b store.Batch) error {
	err := b.Check() // before others wait for it
	if err == nil {
		b.Prove()
		// Packed here, since every caller waits for the writing goroutine.
		bodies := make([][]byte, len(b.Objects))
		for i, o := range b.Objects {
			bodies[i] = pack.Pack(o)
		}
		err = s.submit(ctx, grouped, func(t *tx) error { return t.apply(b, bodies) })
	}
	if err == nil && !b.Redact.Empty() {
		err = s.erase(ctx, b.Redact.Objects)
	}
	if err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

func (t *tx) apply(b store.Batch, bodies [][]byte) error {
	for _, f := range b.Under {
		if err := t.fence(f); err != nil {
			return err
		}
	}
	for _, root := range b.Remove {
		if err := t.remove(root); err != nil {
			return fmt.Errorf("remove %s: %w", root, err)
		}
	}
	for i, o := range b.Objects {
		if err := t.put(o, bodies[i]); err != nil {
			return fmt.Errorf("object %s: %w", o.Hash, err)
		}
	}
	for _, x := range b.Threads {
		if err := t.thread(x, b.Objects); err != nil {
			return fmt.Errorf("thread %s: %w", x.Row.ID, err)
		}
	}
	for _, x := range b.Attempts {
		if err := t.attempt(x, b.Objects); err != nil {
			return fmt.Errorf("attempt %s: %w", x.Row.ID, err)
		}
	}
	for _, x := range b.Gates {
		if err := t.gate(x, b.Objects); err != nil {
			return fmt.Errorf("gate %s: %w", x.Row.ID, err)
		}
	}
	for _, x := range b.Flows {
		if err := t.flow(x, b.Objects); err != nil {
			return fmt.Errorf("flow %s: %w", x.Row.Name, err)
		}
	}
	for _, x := range b.Requests {
		if err := t.request(x); err != nil {
			return fmt.Errorf("request %s: %w", x.Row.ID, err)
		}
	}
	for _, x := range b.Counts {
		if err := t.count(x); err != nil {
			return fmt.Errorf("count %s of task %s: %w", x.Name, x.Task, err)
		}
	}
	if err := t.redact(b.Redact); err != nil {
		return fmt.Errorf("redact: %w", err)
	}
	if err := t.file(b.Events); err != nil {
		return fmt.Errorf("events: %w", err)
	}
	for _, pin := range b.Unpin {
		if err := exec(t.Conn, "DELETE FROM pins WHERE pin = ?", pin); err != nil {
			return err
		}
	}
	return nil
}

// fence refuses a batch that was made under a lease that another holder has taken since.
func (t *tx) fence(f store.Fence) error {
	held, err := first(t.Conn, "SELECT 1 FROM leases WHERE name = ? AND token = ?", func(*row) {}, f.Name, f.Token)
	if err == nil && !held {
		err = fmt.Errorf("lease %s: %w", f.Name, store.ErrFenced)
	}
	return err
}

const shortTaken = "SELECT 1 FROM threads WHERE short = ? AND " + isShort + " AND id <> ?"

func (t *tx) thread(x store.ThreadChange, batch []store.Object) error {
	if x.Row.ID == "" {
		return errNoID
	}
	if x.From != nil && x.From.Status == x.Row.Status {
		err := t.named(batch, []dag.Hash{x.From.Head, x.Row.Start}, x.Row.Head, x.Row.Files)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if err == nil {
			if err := exec(t.Conn, moveThread, moveValues(x.Row, *x.From)...); err != nil || t.Changes() == 1 {
				return err
			}
		}
		// Not the common case, or not as expected: read the row.
	}
	var old store.Thread
	found, err := first(t.Conn, "SELECT head, status, wanted, start, links FROM threads WHERE id = ?", func(r *row) {
		old = store.Thread{
			Head: r.hash(), Status: store.Status(r.text()), Intent: store.Intent(r.text()), Start: r.hash(),
		}
		var l links
		r.json(&l)
		old.Files = l.Files
	}, x.Row.ID)
	switch {
	case err != nil:
		return err
	case x.From == nil && found:
		return fmt.Errorf("exists: %w", store.ErrConflict)
	case x.From != nil && !found:
		return fmt.Errorf("is gone: %w", store.ErrConflict)
	case found && *old.State() != *x.From:
		return fmt.Errorf("is %s at %s: %w", old.Status, old.Head.Short(), store.ErrConflict)
	}
	had := []dag.Hash{old.Start, old.Head, old.Files}
	if err := t.named(batch, had, x.Row.Start, x.Row.Head, x.Row.Files); err != nil {
		return err
	}
	if x.Row.Short != "" {
		taken, err := first(t.Conn, shortTaken, func(*row) {}, x.Row.Short, x.Row.ID)
		if err != nil {
			return err
		}
		if taken {
			return fmt.Errorf("another one is called %s: %w", x.Row.Short, store.ErrConflict)
		}
	}
	return exec(t.Conn, putThread, threadValues(x.Row)...)
}

func (t *tx) attempt(x store.AttemptChange, batch []store.Object) error {
	if x.Row.ID == "" {
		return errNoID
	}
	names := append([]dag.Hash{x.Row.Prompt, x.Row.Transcript, x.Row.Stderr, x.Row.Calls}, x.Row.Pins...)
	if x.From == "" {
		if err := t.named(batch, nil, names...); err != nil {
			return err
		}
		if err := exec(t.Conn, addAttempt, attemptValues(x.Row)...); err != nil || t.Changes() == 1 {
			return err
		}
		return fmt.Errorf("exists: %w", store.ErrConflict)
	}
	err := t.named(batch, nil, names...)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if err == nil {
		err := exec(t.Conn, moveAttempt, append(attemptValues(x.Row), string(x.From))...)
		if err != nil || t.Changes() == 1 {
			return err
		}
	}
	// Not the common case, or not as expected: read the row.
	var old store.Attempt
	const q = "SELECT status, prompt, transcript, stderr, calls, kept FROM attempts WHERE id = ?"
	found, err := first(t.Conn, q, func(r *row) {
		old = store.Attempt{
			Status: store.AttemptStatus(r.text()), Prompt: r.hash(), Transcript: r.hash(), Stderr: r.hash(),
			Calls: r.hash(),
		}
		r.json(&old.Pins)
	}, x.Row.ID)
	if err != nil {
		return err
	}
	if err := expect(found, x.From, old.Status); err != nil {
		return err
	}
	had := append(old.Pins, old.Prompt, old.Transcript, old.Stderr, old.Calls)
	if err := t.named(batch, had, names...); err != nil {
		return err
	}
	return exec(t.Conn, putAttempt, attemptValues(x.Row)...)
}

func (t *tx) gate(x store.GateChange, batch []store.Object) error {
	if x.Row.ID == "" {
		return errNoID
	}
	var old store.Gate
	found, err := first(t.Conn, "SELECT state, used, diff FROM gates WHERE id = ?", func(r *row) {
		old.State, old.UsedAt, old.Diff = store.GateState(r.text()), r.int(), r.hash()
	}, x.Row.ID)
	if err != nil {
		return err
	}
	if err := expect(found, x.From, old.State); err != nil {
		return err
	}
	if found && old.UsedAt != x.UsedAt {
		return fmt.Errorf("was used at %d: %w", old.UsedAt, store.ErrConflict)
	}
	if err := t.named(batch, []dag.Hash{old.Diff}, x.Row.Diff); err != nil {
		return err
	}
	return exec(t.Conn, putGate, gateValues(x.Row)...)
}

// expect compares the state of a row with the one a change starts from.
func expect[T ~string](found bool, want, is T) error {
	switch {
	case want == "" && found:
		return fmt.Errorf("exists: %w", store.ErrConflict)
	case want != "" && !found:
		return fmt.Errorf("is gone: %w", store.ErrConflict)
	case want != is:
		return fmt.Errorf("is %s, not %s: %w", is, want, store.ErrConflict)
	}
	return nil
}

func (t *tx) flow(x store.FlowChange, batch []store.Object) error {
	if x.Row.Name == "" {
		return errNoID
	}
	if x.Row.Hash.IsZero() && !x.Delete {
		return errNoHash
	}
	var old store.Flow
	const q = "SELECT " + flowColumns + " FROM flows WHERE name = ?"
	found, err := first(t.Conn, q, func(r *row) { old = scanFlow(r) }, x.Row.Name)
	switch {
	case err != nil:
		return err
	case found == x.From.IsZero() || found && old.Hash != x.From || x.Delete && !found:
		return store.ErrConflict
	case x.Delete:
		return exec(t.Conn, "DELETE FROM flows WHERE name = ?", x.Row.Name)
	}
	had, names := []dag.Hash{old.Hash}, []dag.Hash{x.Row.Hash}
	for _, v := range old.History {
		had = append(had, v.Hash)
	}
	for _, v := range x.Row.History {
		names = append(names, v.Hash)
	}
	if err := t.named(batch, had, names...); err != nil {
		return err
	}
	return exec(t.Conn, putFlow, x.Row.Name, x.Row.Hash, x.Row.Timestamp, inJSON{x.Row.History})
}

func (t *tx) request(x store.RequestChange) error {
	w := x.Row
	var err error
	switch {
	case w.ID == "":
		return errNoID
	case x.Take && w.TakenAt == 0:
		return errNoTime
	case x.Take:
		err = exec(t.Conn, takeRequest, w.TakenAt, w.ID)
	default:
		err = exec(t.Conn, addRequest,
			w.ID, w.Task, w.Thread, string(w.Kind), w.Text, w.Options, w.By, string(w.Via), w.At, w.TakenAt)
	}
	switch {
	case err != nil || t.Changes() == 1:
		return err
	case x.Take:
		return fmt.Errorf("is taken or gone: %w", store.ErrConflict)
	}
	return fmt.Errorf("exists: %w", store.ErrConflict)
}

func (t *tx) count(x store.Count) error {
	var is int64
	const q = "SELECT value FROM counts WHERE task = ? AND name = ?"
	if _, err := first(t.Conn, q, func(r *row) { is = r.int() }, x.Task, x.Name); err != nil {
		return err
	}
	if x.Add > 0 && is > x.Most-x.Add {
		return fmt.Errorf("is %d of %d: %w", is, x.Most, store.ErrConflict)
	}
	return exec(t.Conn, "INSERT OR REPLACE INTO counts (task, name, value) VALUES (?,?,?)", x.Task, x.Name,
		max(0, is+x.Add))
}

// file adds events and their leaves. Consecutive events of one task share one update of its row.
func (t *tx) file(events []store.Event) error {
	for len(events) > 0 {
		n := 1
		for n < len(events) && events[n].Task == events[0].Task {
			n++
		}
		var seq int64
		var secret store.Secret
		task, from := events[0].Task, t.log.Size()+1
		known, err := first(t.Conn, "SELECT seq, secret FROM tasks WHERE task = ?", func(r *row) {
			seq, secret = r.int(), store.Secret(r.hash())
		}, task)
		if err != nil {
			return err
		}
		if !known {
			secret = store.NewSecret()
		}
		for i := range events[:n] {
			e := &events[i]
			seq++
			e.Pos, e.Seq = t.log.Size()+1, seq
			err := exec(t.Conn, putEvent,
				e.Pos, e.Seq, e.TS, e.Type, e.Task, e.Thread, e.Instance, e.Attempt, e.Payload, e.Proof)
			if err != nil {
				return err
			}
			t.log.Append(e.Leaf(secret))
		}
		t.events += n
		if known { // an upsert with RETURNING takes twice as long
			err = exec(t.Conn, "UPDATE tasks SET seq = ?, last = ?, log = ? WHERE task = ?",
				seq, t.log.Size(), t.log.Bytes(), task)
		} else {
			err = exec(t.Conn, "INSERT INTO tasks (task, seq, first, last, secret, log) VALUES (?,?,?,?,?,?)",
				task, seq, from, t.log.Size(), secret[:], t.log.Bytes())
		}
		if err != nil {
			return err
		}
		events = events[n:]
	}
	return nil
}

// remove deletes a tree: its rows, events, numbers and pins. A pin belongs to
// the thread or attempt that it is named after.
func (t *tx) remove(root string) error {
	tree := []string{root}
	const below = "SELECT id FROM threads WHERE (task = ?1 OR root = ?1) AND id <> ?1"
	err := each(t.Conn, below, func(r *row) { tree = append(tree, r.text()) }, root)
	if err != nil {
		return err
	}
	for _, id := range tree {
		for _, q := range []string{
			"DELETE FROM threads WHERE id = ?",
			"DELETE FROM attempts WHERE thread = ?",
			"DELETE FROM gates WHERE thread = ?",
			"DELETE FROM pins WHERE pin = ?",
		} {
			if err := exec(t.Conn, q, id); err != nil {
				return err
			}
		}
		// "/" sorts right after ".".
		if err := exec(t.Conn, "DELETE FROM pins WHERE pin > ? AND pin < ?", id+".", id+"/"); err != nil {
			return err
		}
	}
	return t.forget(root)
}

// ofTask selects the events of a task.
const ofTask = "task = ?1 AND pos BETWEEN (SELECT first FROM tasks WHERE task = ?1) " +
	"AND (SELECT last FROM tasks WHERE task = ?1)"

// forget removes what is filed and counted under a task. The last position is recorded
// first; otherwise the next event could get a number that was assigned before. So is the log, which may be in the
// row of that task, and the leaves.
func (t *tx) forget(task string) error {
	err := exec(t.Conn, "UPDATE counters SET value = max(value, ?) WHERE name = 'floor'", t.log.Size())
	if err == nil {
		err = exec(t.Conn, "UPDATE log SET tree = ?", t.log.Bytes())
	}
	if err == nil {
		err = t.keepLeaves(ofTask, task)
	}
	if err != nil {
		return err
	}
	for _, q := range []string{
		"DELETE FROM gates WHERE task = ?",
		"DELETE FROM wishes WHERE task = ?",
		"DELETE FROM counts WHERE task = ?",
		"DELETE FROM events WHERE " + ofTask,
		"DELETE FROM tasks WHERE task = ?",
	} {
		if err := exec(t.Conn, q, task); err != nil {
			return err
		}
	}
	return nil
}
