package transfer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// taskRows are all rows of a task, and its events in order.
type taskRows struct {
	threads  []store.Thread
	attempts []store.Attempt
	gates    []store.Gate
	requests []store.Request
	counts   map[string]int64
	events   []store.Event
}

func readTask(ctx context.Context, s store.Store, id string) (r taskRows, err error) {
	// The journal is read first and again last: an answer to a gate needs no lease, and comes
	// with an event.
	for before := -1; before != len(r.events) || before < 0; {
		before = len(r.events)
		if r.threads, err = s.Threads(ctx, store.ThreadFilter{Task: id}); err != nil {
			return r, err
		}
		if r.attempts, err = s.Attempts(ctx, store.AttemptFilter{Task: id}); err != nil {
			return r, err
		}
		if r.gates, err = s.Gates(ctx, store.GateFilter{Task: id}); err != nil {
			return r, err
		}
		if r.requests, err = s.Requests(ctx, store.RequestFilter{Task: id}); err != nil {
			return r, err
		}
		r.events = nil
		err = event.Each(ctx, s, store.EventFilter{Task: id}, new(int64), func(ev store.Event) error {
			r.events = append(r.events, ev)
			return nil
		})
		if err != nil {
			return r, err
		}
	}
	now, err := s.Task(ctx, id)
	if err != nil {
		return r, err
	}
	r.counts = now.Counts
	if !slices.ContainsFunc(r.threads, func(t store.Thread) bool { return t.ID == id }) {
		return r, fmt.Errorf("its row is gone: %w", store.ErrNotFound)
	}
	return r, nil
}

// root returns the row of the task's root thread.
func (r taskRows) root() store.Thread {
	for _, t := range r.threads {
		if t.Root == t.ID {
			return t
		}
	}
	return store.Thread{}
}

// roots returns the hashes that the rows refer to.
func (r taskRows) roots() (all []dag.Hash) {
	add := func(names []store.Name) {
		for _, n := range names {
			if !n.Maybe {
				all = append(all, n.Hash)
			}
		}
	}
	for _, t := range r.threads {
		add(t.Names())
	}
	for _, a := range r.attempts {
		add(a.Names())
	}
	for _, g := range r.gates {
		add(g.Names())
	}
	return all
}

// seen is what To already has of a task.
type seen struct {
	there   bool
	events  int   // number of events
	removed int64 // the position of the event that it was removed, zero if it was not
}

// compare looks for the task in To. Either To has all that From has of it, or nothing but events
// of an interrupted import or that of its removal; otherwise why says how it differs.
func (c *copier) compare(ctx context.Context, rows taskRows) (s seen, why string, err error) {
	id := rows.root().ID
	_, err = c.cfg.To.Thread(ctx, id)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return s, "", err
	}
	s.there = err == nil
	kept := 0
	err = event.Each(ctx, c.cfg.To, store.EventFilter{Task: id}, new(int64), func(ev store.Event) error {
		if !s.there && kept == 0 && event.Is(ev, event.ThreadRemoved{}) {
			s.removed = ev.Pos
		}
		if kept < len(rows.events) && !sameEvent(ev, rows.events[kept]) && why == "" {
			why = fmt.Sprintf("event %d differs here", kept+1)
		}
		kept++
		return nil
	})
	if err == nil && s.removed > 0 {
		return s, "", nil
	}
	if err != nil || why != "" {
		return s, why, err
	}
	s.events = kept
	switch {
	case s.there && kept < len(rows.events):
		return s, fmt.Sprintf("it has continued: %d events, %d here", len(rows.events), kept), nil
	case s.there && kept == len(rows.events):
		why, err = c.compareRows(ctx, rows)
	case !s.there && kept > len(rows.events):
		why = "its events are here, but no row"
	}
	return s, why, err
}

// sameEvent reports whether two events are equal, except for their positions, which differ
// between records.
func sameEvent(a, b store.Event) bool {
	return a.Seq == b.Seq && a.TS == b.TS && a.Type == b.Type && a.Thread == b.Thread && a.Instance == b.Instance &&
		a.Attempt == b.Attempt && bytes.Equal(a.Payload, b.Payload) && bytes.Equal(a.Proof, b.Proof)
}

// compareRows says how the threads in To differ from those in From, which have as many events.
func (c *copier) compareRows(ctx context.Context, rows taskRows) (string, error) {
	kept, err := c.cfg.To.Threads(ctx, store.ThreadFilter{Task: rows.root().ID})
	if err != nil {
		return "", err
	}
	if len(kept) != len(rows.threads) {
		return fmt.Sprintf("it has %d threads, %d here", len(rows.threads), len(kept)), nil
	}
	for i, t := range rows.threads {
		k := kept[i]
		if k.ID != t.ID || k.Start != t.Start || k.Head != t.Head || k.Status != t.Status || k.Steps != t.Steps {
			return fmt.Sprintf("thread %s is at %s, at %s here", t.ID, t.Head.Short(), k.Head.Short()), nil
		}
	}
	return "", nil
}

// Limits on a batch of events: those of a task are committed with its rows if they fit.
const (
	maxEvents     = 4000
	maxEventBytes = 8 << 20
)

// begun returns the event before the first of several batches that import a task.
func (c *copier) begun(rows taskRows, removed int64) store.Event {
	return event.New(store.Thread{}, c.cfg.Now().UnixMilli(), event.ImportBegun{Task: rows.root().ID, By: c.cfg.By,
		Events: len(rows.events), Replaces: removed})
}

// commit writes the rows to To, and the events after those that it has. If the events do not fit
// into a batch, most are written first: without rows they belong to no task, and the next import
// continues after them.
func (c *copier) commit(ctx context.Context, rows taskRows, s seen) error {
	rest := rows.events[s.events:]
	said := s.removed > 0
	for len(rest) > maxEvents || size(rest) > maxEventBytes {
		n := portion(rest)
		events := rest[:n]
		if !said {
			events, said = append([]store.Event{c.begun(rows, 0)}, events...), true
		}
		if err := c.to.Commit(ctx, store.Batch{Events: events}); err != nil {
			return err
		}
		rest = rest[n:]
	}
	id := rows.root().ID
	b := store.Batch{Events: slices.Clone(rest), Unpin: []string{id}}
	for _, a := range rows.attempts {
		b.Attempts = append(b.Attempts, store.AttemptChange{Row: a})
	}
	for _, g := range rows.gates {
		b.Gates = append(b.Gates, store.GateChange{Row: g})
	}
	for _, w := range rows.requests {
		b.Requests = append(b.Requests, store.RequestChange{Row: w})
	}
	for _, name := range slices.Sorted(maps.Keys(rows.counts)) {
		n := rows.counts[name]
		b.Counts = append(b.Counts, store.Count{Task: id, Name: name, Add: n, Most: n})
	}
	if c.cfg.Source != "" {
		b.Events = append(b.Events, event.New(rows.root(), c.cfg.Now().UnixMilli(),
			event.TaskImported{From: c.cfg.Source, By: c.cfg.By, Events: len(rows.events), Replaces: s.removed}))
	}
	for {
		b.Threads = nil
		for _, t := range rows.threads {
			t, err := c.moved(ctx, t)
			if err != nil {
				return err
			}
			b.Threads = append(b.Threads, store.ThreadChange{Row: t})
		}
		err := c.to.Commit(ctx, b)
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
		// Another task may have taken the short name in the meantime: a new one is chosen.
		root := slices.IndexFunc(b.Threads, func(t store.ThreadChange) bool { return t.Row.ID == id })
		short := b.Threads[root].Row.Short
		taken, lookErr := c.cfg.To.Threads(ctx, store.ThreadFilter{Short: short, Limit: 1})
		if short == "" || lookErr != nil || len(taken) == 0 || taken[0].ID == id {
			return err
		}
	}
}

// moved returns a row as it is in To: with a short name that is free there, and the requested
// workspace.
func (c *copier) moved(ctx context.Context, t store.Thread) (store.Thread, error) {
	if c.cfg.Workspace != "" {
		t.Tree = Within(c.cfg.Workspace, t)
		t.Workspace = c.cfg.Workspace
	}
	if t.Root != t.ID {
		return t, nil
	}
	if t.Short != "" {
		taken, err := c.cfg.To.Threads(ctx, store.ThreadFilter{Short: t.Short, Limit: 1})
		if err != nil {
			return t, err
		}
		if len(taken) > 0 {
			if t.Short, err = thread.ShortID(ctx, c.cfg.To, t.ID); err != nil {
				return t, err
			}
		}
	}
	if c.cfg.Source == "" {
		return t, nil
	}
	opts, err := record.OptionsOf(t)
	if err != nil {
		return t, err
	}
	opts.Imported = c.cfg.Source
	t.Options, err = json.Marshal(opts)
	return t, err
}

// Within returns the working tree of a thread after the move to another workspace: the same place
// inside it, or "", the workspace itself, if the tree is elsewhere.
func Within(workspace string, t store.Thread) string {
	rel, err := filepath.Rel(t.Workspace, t.Tree)
	if t.Tree == "" || t.Workspace == "" || err != nil || !filepath.IsLocal(rel) || rel == "." {
		return ""
	}
	return filepath.Join(workspace, rel)
}

// portion returns how many of events fit into a batch, at least one.
func portion(events []store.Event) int {
	n, bytes := 0, 0
	for ; n < len(events) && n < maxEvents && bytes < maxEventBytes; n++ {
		bytes += len(events[n].Payload) + len(events[n].Proof)
	}
	return n
}

func size(events []store.Event) (n int) {
	for _, ev := range events {
		n += len(ev.Payload) + len(ev.Proof)
	}
	return n
}
