package mem

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// Commit applies b wholly or not at all.
func (s *Store) Commit(ctx context.Context, b store.Batch) error {
	return s.changing(ctx, OpCommit, func(c *contents) error {
		if err := b.Check(); err != nil {
			return err
		}
		b.Prove()
		return (&change{contents: c}).all(b, s.now(), s.cfg.Proven)
	})
}

// Forge changes what is kept as b says, like someone who writes to the storage of a record: no event proves it.
func (s *Store) Forge(ctx context.Context, b store.Batch) error {
	return s.changing(ctx, OpCommit, func(c *contents) error { return (&change{contents: c}).all(b, s.now(), false) })
}

// A change is a batch being applied, and how to undo it.
type change struct {
	*contents
	undo    []func()
	changed []string // rows whose proven columns are not what they were
}

// all applies b wholly or not at all. If proven is set, it refuses changes that no event proves.
func (c *change) all(b store.Batch, now int64, proven bool) error {
	err := c.apply(b, now)
	if err == nil && proven {
		err = c.proven(b.Events)
	}
	if err != nil {
		for _, undo := range slices.Backward(c.undo) {
			undo()
		}
		return err
	}
	if len(b.Events) > 0 {
		close(c.news)
		c.news = make(chan struct{})
	}
	return nil
}

// proven returns an error unless events say of each changed row what it is now.
func (c *change) proven(events []store.Event) error {
	said := map[string]bool{}
	for _, e := range events {
		for row := range store.ReadProof(e.Proof) {
			said[row] = true
		}
	}
	for _, row := range c.changed {
		if !said[row] {
			return fmt.Errorf("%s changes without an event: %w", row, store.ErrInvalid)
		}
	}
	return nil
}

// compare notes a row whose digest changes.
func (c *change) compare(row string, was, is dag.Hash) {
	if was != is {
		c.changed = append(c.changed, row)
	}
}

func (c *change) apply(b store.Batch, now int64) error {
	for _, f := range b.Under {
		if token, ok := c.tokens[f.Name]; !ok || token != f.Token {
			return fmt.Errorf("lease %s: %w", f.Name, store.ErrFenced)
		}
	}
	for _, root := range b.Remove {
		c.remove(root)
	}
	for _, o := range b.Objects {
		c.undo = append(c.undo, c.put(o, now))
	}
	for _, x := range b.Threads {
		if err := c.thread(x); err != nil {
			return fmt.Errorf("thread %s: %w", x.Row.ID, err)
		}
	}
	for _, x := range b.Attempts {
		if err := c.attempt(x); err != nil {
			return fmt.Errorf("attempt %s: %w", x.Row.ID, err)
		}
	}
	for _, x := range b.Gates {
		if err := c.gate(x); err != nil {
			return fmt.Errorf("gate %s: %w", x.Row.ID, err)
		}
	}
	for _, x := range b.Flows {
		if err := c.flow(x); err != nil {
			return fmt.Errorf("flow %s: %w", x.Row.Name, err)
		}
	}
	for _, x := range b.Requests {
		if err := c.request(x); err != nil {
			return fmt.Errorf("request %s: %w", x.Row.ID, err)
		}
	}
	for _, x := range b.Counts {
		if err := c.count(x); err != nil {
			return fmt.Errorf("count %s of task %s: %w", x.Name, x.Task, err)
		}
	}
	c.redact(b.Redact)
	for _, e := range b.Events {
		c.event(e)
	}
	for _, pin := range b.Unpin {
		drop(c, c.pins, pin)
	}
	return nil
}

var (
	errNoID   = errors.New("row without an id")
	errNoHash = errors.New("has no bundle hash")
	errNoTime = errors.New("taken without a time")
)

func (c *change) thread(x store.ThreadChange) error {
	if x.Row.ID == "" {
		return errNoID
	}
	old, ok := c.threads[x.Row.ID]
	if ok != (x.From != nil) || ok && *old.State() != *x.From {
		return store.ErrConflict
	}
	if err := c.named([]dag.Hash{old.Start, old.Head, old.Files}, x.Row.Start, x.Row.Head, x.Row.Files); err != nil {
		return err
	}
	for _, t := range c.threads {
		if x.Row.Short != "" && t.Short == x.Row.Short && t.ID != x.Row.ID {
			return store.ErrConflict
		}
	}
	c.compare("thread "+x.Row.ID, old.Proven(), x.Row.Proven())
	set(c, c.threads, x.Row.ID, cloneThread(x.Row))
	return nil
}

func (c *change) attempt(x store.AttemptChange) error {
	if x.Row.ID == "" {
		return errNoID
	}
	old, ok := c.attempts[x.Row.ID]
	if ok != (x.From != "") || ok && old.Status != x.From {
		return store.ErrConflict
	}
	had := append([]dag.Hash{old.Prompt, old.Transcript, old.Stderr, old.Calls}, old.Pins...)
	names := append([]dag.Hash{x.Row.Prompt, x.Row.Transcript, x.Row.Stderr, x.Row.Calls}, x.Row.Pins...)
	if err := c.named(had, names...); err != nil {
		return err
	}
	c.compare("attempt "+x.Row.ID, old.Proven(), x.Row.Proven())
	set(c, c.attempts, x.Row.ID, cloneAttempt(x.Row))
	return nil
}

func (c *change) gate(x store.GateChange) error {
	if x.Row.ID == "" {
		return errNoID
	}
	old, ok := c.gates[x.Row.ID]
	if ok != (x.From != "") || ok && (old.State != x.From || old.UsedAt != x.UsedAt) {
		return store.ErrConflict
	}
	if err := c.named([]dag.Hash{old.Diff}, x.Row.Diff); err != nil {
		return err
	}
	c.compare("gate "+x.Row.ID, old.Proven(), x.Row.Proven())
	set(c, c.gates, x.Row.ID, cloneGate(x.Row))
	return nil
}

func (c *change) flow(x store.FlowChange) error {
	if x.Row.Name == "" {
		return errNoID
	}
	if x.Row.Hash.IsZero() && !x.Delete {
		return errNoHash
	}
	old, ok := c.flows[x.Row.Name]
	if ok == x.From.IsZero() || ok && old.Hash != x.From || x.Delete && !ok {
		return store.ErrConflict
	}
	c.compare("flow "+x.Row.Name, old.Proven(), dag.Hash{})
	if x.Delete {
		drop(c, c.flows, x.Row.Name)
		return nil
	}
	had, names := []dag.Hash{old.Hash}, []dag.Hash{x.Row.Hash}
	for _, v := range old.History {
		had = append(had, v.Hash)
	}
	for _, v := range x.Row.History {
		names = append(names, v.Hash)
	}
	if err := c.named(had, names...); err != nil {
		return err
	}
	set(c, c.flows, x.Row.Name, cloneFlow(x.Row))
	return nil
}

func (c *change) request(x store.RequestChange) error {
	old, ok := c.requests[x.Row.ID]
	switch {
	case x.Row.ID == "":
		return errNoID
	case x.Take && x.Row.TakenAt == 0:
		return errNoTime
	case ok != x.Take || old.TakenAt != 0:
		return store.ErrConflict
	case x.Take:
		old.TakenAt = x.Row.TakenAt
		set(c, c.requests, old.ID, old)
	default:
		c.compare("request "+x.Row.ID, old.Proven(), x.Row.Proven())
		set(c, c.requests, x.Row.ID, cloneRequest(x.Row))
	}
	return nil
}

// named refuses a row that would newly name a missing object. What the row already
// named is not checked: a lost object must not keep its thread from failing.
func (c *change) named(had []dag.Hash, names ...dag.Hash) error {
	for _, h := range names {
		if h.IsZero() || slices.Contains(had, h) {
			continue
		}
		if _, err := c.object(h); err != nil {
			return err
		}
	}
	return nil
}

func (c *change) count(x store.Count) error {
	of := maps.Clone(c.counts[x.Task])
	if of == nil {
		of = map[string]int64{}
	}
	if x.Add > 0 && of[x.Name] > x.Most-x.Add {
		return fmt.Errorf("is %d of %d: %w", of[x.Name], x.Most, store.ErrConflict)
	}
	of[x.Name] = max(0, of[x.Name]+x.Add)
	set(c, c.counts, x.Task, of)
	return nil
}

func (c *change) event(e store.Event) {
	tree, seq, events := c.log.Tree, c.seq[e.Task], c.events
	e.Pos, e.Seq = tree.Size()+1, seq+1
	e = cloneEvent(e)
	if _, ok := c.secrets[e.Task]; !ok {
		set(c, c.secrets, e.Task, store.NewSecret())
	}
	c.log.Tree.Append(e.Leaf(c.secrets[e.Task]))
	c.seq[e.Task], c.events = e.Seq, append(events, e)
	c.undo = append(c.undo, func() { c.log.Tree, c.seq[e.Task], c.events = tree, seq, events })
}

// keepLeaf keeps the leaf of an event that is about to be removed or changed, unless it has been before.
func (c *change) keepLeaf(e *store.Event) {
	if _, ok := c.leaves[e.Pos]; !ok {
		set(c, c.leaves, e.Pos, e.Leaf(c.secrets[e.Task]))
	}
}

// redact replaces what is kept.
func (c *change) redact(r store.Redaction) {
	for _, o := range r.Objects {
		if old, ok := c.objects[o.Hash]; ok {
			set(c, c.objects, o.Hash, object{kind: old.kind, data: bytes.Clone(o.Data), put: old.put})
		}
	}
	for _, w := range r.Requests {
		if _, ok := c.requests[w.ID]; ok {
			set(c, c.requests, w.ID, cloneRequest(w))
		}
	}
	events := c.events
	for _, e := range r.Events {
		i, ok := slices.BinarySearchFunc(c.events, e.Pos, byPosition)
		if ok {
			c.keepLeaf(&c.events[i])
			c.events = slices.Clone(c.events)
			c.events[i].Payload = slices.Clone(e.Payload)
		}
	}
	c.undo = append(c.undo, func() { c.events = events })
}

// remove deletes a tree: its rows, events, numbers, counts and pins. A pin belongs to
// the thread or attempt that it is named after.
func (c *change) remove(root string) {
	tree := map[string]bool{root: true}
	for id, t := range c.threads {
		if t.Task == root || t.Root == root {
			tree[id] = true
		}
	}
	for id := range maps.Clone(tree) {
		drop(c, c.threads, id)
	}
	for id, a := range maps.Clone(c.attempts) {
		if tree[a.Thread] {
			drop(c, c.attempts, id)
		}
	}
	for id, g := range maps.Clone(c.gates) {
		if g.Task == root || tree[g.Thread] {
			drop(c, c.gates, id)
		}
	}
	for id, w := range maps.Clone(c.requests) {
		if w.Task == root {
			drop(c, c.requests, id)
		}
	}
	for pin := range maps.Clone(c.pins) {
		thread, _, _ := strings.Cut(pin, ".")
		if tree[thread] {
			drop(c, c.pins, pin)
		}
	}
	events := c.events
	c.events = slices.DeleteFunc(slices.Clone(events), func(e store.Event) bool {
		if e.Task == root {
			c.keepLeaf(&e)
		}
		return e.Task == root
	})
	c.undo = append(c.undo, func() { c.events = events })
	drop(c, c.secrets, root)
	drop(c, c.seq, root)
	drop(c, c.counts, root)
}

func set[K comparable, T any](c *change, table map[K]T, id K, row T) {
	drop(c, table, id)
	table[id] = row
}

// drop deletes a row and remembers what was there, if anything.
func drop[K comparable, T any](c *change, table map[K]T, id K) {
	old, ok := table[id]
	delete(table, id)
	c.undo = append(c.undo, func() {
		if ok {
			table[id] = old
		} else {
			delete(table, id)
		}
	})
}
