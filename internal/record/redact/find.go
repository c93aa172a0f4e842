package redact

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/sys/secret"
)

// A found is everything that has the text.
type found struct {
	cfg     Config
	set     *secret.Set
	objects []store.Entry // in hash order
	tasks   map[string]*counts
	asked   []string // gates that are asked again
	rows    int
	events  int
}

// counts are what one task has of it.
type counts struct {
	objects, rows, events int
	gates                 map[string]dag.Hash // changed ones: what steps name their answers by
	batch                 store.Batch         // rows and events without it
}

func (f *found) report() Report {
	tasks := slices.Sorted(maps.Keys(f.tasks))
	if len(tasks) > 0 && tasks[0] == "" { // events of no task
		tasks = tasks[1:]
	}
	return Report{Tasks: tasks, Objects: len(f.objects), Rows: f.rows, Events: f.events,
		Asked: f.asked}
}

// task returns the counts of a task.
func (f *found) task(id string) *counts {
	if f.tasks[id] == nil {
		f.tasks[id] = &counts{gates: map[string]dag.Hash{}}
	}
	return f.tasks[id]
}

func find(ctx context.Context, cfg Config) (*found, error) {
	f := &found{cfg: cfg, set: &secret.Set{}, tasks: map[string]*counts{}}
	if f.set.Add(cfg.Text); f.set.Empty() {
		return nil, fmt.Errorf("it is shorter than %d bytes", secret.Least)
	}
	threads, err := cfg.Store.Threads(ctx, store.ThreadFilter{})
	if err != nil {
		return nil, err
	}
	taskOf := make(map[string]string, len(threads))
	for _, t := range threads {
		taskOf[t.ID] = t.Task
	}
	if err := f.inObjects(ctx, taskOf); err != nil {
		return nil, err
	}
	if err := f.inRows(ctx, threads, taskOf); err != nil {
		return nil, err
	}
	if err := f.inEvents(ctx); err != nil {
		return nil, err
	}
	return f, nil
}

// inObjects finds objects, and the tasks that reach them. taskOf has the tasks of threads.
func (f *found) inObjects(ctx context.Context, taskOf map[string]string) error {
	var mu sync.Mutex // guards has and refs while objects are scanned
	has, refs := map[dag.Hash]bool{}, map[dag.Hash][]dag.Hash{}
	examine := func(o store.Object) error {
		clean := f.cleaned(o.Kind, o.Data)
		differs := !bytes.Equal(clean, o.Data)
		var below []dag.Hash
		if o.Kind == store.Node {
			below, _ = dag.RefsOf(o.Data) // a damaged node reaches nothing
			if differs && !sameNode(o.Data, clean) {
				return fmt.Errorf("object %s: %w", o.Hash, ErrName)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		has[o.Hash], refs[o.Hash] = differs, below
		return nil
	}
	if err := f.cfg.Store.Scan(ctx, examine); err != nil {
		return err
	}
	for e, err := range f.cfg.Store.List(ctx) {
		if err != nil {
			return err
		}
		_, scanned := has[e.Hash]
		switch {
		case scanned:
		case e.Kind == store.Node:
			kept, err := read(ctx, f.cfg.Store, e.Hash)
			if err != nil {
				return err
			}
			data, _ := store.Unredacted(kept)
			if err := examine(store.Object{Hash: e.Hash, Kind: e.Kind, Data: data}); err != nil {
				return err
			}
		default:
			if has[e.Hash], err = f.inBlob(ctx, e.Hash); err != nil {
				return err
			}
		}
		if has[e.Hash] {
			f.objects = append(f.objects, e)
		}
	}
	if len(f.objects) == 0 {
		return nil
	}
	gates, err := f.cfg.Store.Gates(ctx, store.GateFilter{})
	if err != nil {
		return err
	}
	for _, g := range gates {
		taskOf[g.ID] = g.Task
	}
	roots := map[string][]dag.Hash{}
	for r, err := range f.cfg.Store.Roots(ctx) {
		if err != nil {
			return err
		}
		id, _, _ := strings.Cut(r.ID, ".") // an attempt is named after its thread
		task := taskOf[id]
		roots[task] = append(roots[task], r.Hash)
	}
	delete(roots, "") // of the registry: no task
	for task, hs := range roots {
		var w dag.Walker
		err := w.Walk(hs, func(h dag.Hash) ([]dag.Hash, error) {
			if has[h] {
				f.task(task).objects++
			}
			return refs[h], ctx.Err()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// inBlob reports whether a blob has the text: without it, it would have another hash.
func (f *found) inBlob(ctx context.Context, h dag.Hash) (bool, error) {
	r, _, err := f.cfg.Store.Open(ctx, h)
	if err != nil {
		return false, err
	}
	defer r.Close()
	was, is := sha256.New(), sha256.New()
	w := f.set.Even(is)
	if _, err := io.Copy(io.MultiWriter(was, w), r); err != nil {
		return false, err
	}
	if err := w.Flush(); err != nil {
		return false, err
	}
	return !bytes.Equal(was.Sum(nil), is.Sum(nil)), nil
}

// inRows finds rows. They are replaced by ordinary changes: who moves one meanwhile wins.
func (f *found) inRows(ctx context.Context, threads []store.Thread, taskOf map[string]string) error {
	count := func(task string) *store.Batch {
		n := f.task(task)
		n.rows++
		f.rows++
		return &n.batch
	}
	for _, t := range threads {
		is, had, err := same(f.set, t, func(t *store.Thread) []string {
			return []string{t.ID, t.Short, t.Task, t.Root, t.Flow, string(t.Status), t.Tree, t.Workspace, t.Host}
		})
		if err != nil {
			return fmt.Errorf("thread %s: %w", t.ID, err)
		}
		if had {
			b := count(t.Task)
			b.Threads = append(b.Threads, store.ThreadChange{Row: is, From: t.State()})
		}
	}
	attempts, err := f.cfg.Store.Attempts(ctx, store.AttemptFilter{})
	if err != nil {
		return err
	}
	for _, a := range attempts {
		is, had, err := same(f.set, a, func(a *store.Attempt) []string {
			return []string{a.ID, a.Thread, a.Role, a.Agent, a.Instance, a.Session, a.Turn, a.Tag}
		})
		if err != nil {
			return fmt.Errorf("attempt %s: %w", a.ID, err)
		}
		if had {
			b := count(taskOf[a.Thread])
			b.Attempts = append(b.Attempts, store.AttemptChange{Row: is, From: a.Status})
		}
	}
	gates, err := f.cfg.Store.Gates(ctx, store.GateFilter{})
	if err != nil {
		return err
	}
	heads := make(map[string]dag.Hash, len(threads))
	for _, t := range threads {
		heads[t.ID] = t.Head
	}
	for _, g := range gates {
		is, had, err := same(f.set, g, func(g *store.Gate) []string {
			return []string{g.ID, g.Task, g.Thread, g.Node, g.Instance, g.Attempt, g.By, g.OnTimeout}
		})
		if err != nil {
			return fmt.Errorf("gate %s: %w", g.ID, err)
		}
		if had {
			is = f.asks(g, is, heads[g.Thread])
			b := count(g.Task)
			b.Gates = append(b.Gates, store.GateChange{Row: is, From: g.State, UsedAt: g.UsedAt})
			f.task(g.Task).gates[g.ID] = thread.ApprovalHash(g)
		}
	}
	requests, err := f.cfg.Store.Requests(ctx, store.RequestFilter{})
	if err != nil {
		return err
	}
	for _, w := range requests {
		is, had, err := same(f.set, w, func(w *store.Request) []string { return []string{w.ID, w.Task, w.Thread, w.By} })
		if err != nil {
			return fmt.Errorf("request %s: %w", w.ID, err)
		}
		if had {
			b := count(w.Task)
			b.Redact.Requests = append(b.Redact.Requests, is)
		}
	}
	return nil
}

// asks returns is, a gate that was g, of a thread with a head. What it asks is not the same any more, so an answer that
// would still take effect is not one to it: it is asked again.
func (f *found) asks(g, is store.Gate, head dag.Hash) store.Gate {
	answered := is
	answered.Text = g.Text
	holds := g.State == store.GateApproved && g.Grant == store.GrantSession
	switch {
	case reflect.DeepEqual(answered, g) || g.State == store.GateWithdrawn: // only the answer had the text
	case holds && g.UsedAt != 0:
		is.Grant = store.GrantOnce
	case g.State == store.GateOpen || holds || g.UsedAt == 0 && g.From == head:
		f.asked = append(f.asked, g.ID)
		is.State, is.AnsweredAt, is.Text = store.GateWithdrawn, f.cfg.Now().UnixMilli(), "a text in it was redacted"
		is.By, is.Via, is.Grant, is.Edited, is.EditedDigest = "", "", "", nil, dag.Hash{}
		is.Signature = ""
	}
	return is
}

// eventPage is how many events are read at a time.
const eventPage = 1000

// inEvents finds events.
func (f *found) inEvents(ctx context.Context) error {
	for after := int64(0); ; {
		page, err := f.cfg.Store.Events(ctx, after, store.EventFilter{Limit: eventPage})
		if err != nil {
			return err
		}
		for _, e := range page {
			after = e.Pos
			if len(e.Proof) > 0 && !bytes.Equal(cleanJSON(f.set, e.Proof), e.Proof) { // a flow's name
				return fmt.Errorf("event %d: %w", e.Pos, ErrName)
			}
			if clean := cleanJSON(f.set, e.Payload); !bytes.Equal(clean, e.Payload) {
				e.Payload = clean
				n := f.task(e.Task)
				n.batch.Redact.Events = append(n.batch.Redact.Events, e)
				n.events++
				f.events++
			}
		}
		if len(page) < eventPage {
			return nil
		}
	}
}

// read returns the bytes that are kept of an object.
func read(ctx context.Context, s store.Store, h dag.Hash) ([]byte, error) {
	r, _, err := s.Open(ctx, h)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}
