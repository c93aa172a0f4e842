package evidence

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// An Index is the evidence of a task.
type Index struct {
	mu    sync.Mutex
	begun bool                  // what a fork inherits has been read
	pos   int64                 // of the last event read
	all   []event.EvidenceAdded // in order of arrival, inherited ones first
	ids   map[string]int        // full id → index in all
}

// Index returns the evidence of a task as it is now: other processes add to it.
func (c *Collector) Index(ctx context.Context, task string) (*Index, error) {
	c.mu.Lock()
	k := c.tasks[task]
	if k == nil {
		k = &Index{ids: make(map[string]int)}
		c.tasks[task] = k
	}
	c.mu.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.update(ctx, c, task); err != nil {
		return nil, fmt.Errorf("read evidence of task %s: %w", task, err)
	}
	return k, nil
}

func (k *Index) update(ctx context.Context, c *Collector, task string) error {
	if !k.begun {
		inherited, err := c.inherited(ctx, task)
		if err != nil {
			return err
		}
		for _, a := range inherited {
			k.add(a)
		}
		k.begun = true
	}
	of := store.EventFilter{Task: task, Types: event.Types(event.EvidenceAdded{})}
	return event.Each(ctx, c.cfg.Store, of, &k.pos, func(ev store.Event) error {
		if a, ok := event.Read(ev).(event.EvidenceAdded); ok {
			k.add(a)
		}
		return nil
	})
}

// inherited lists the evidence that a forked task has from before the fork.
func (c *Collector) inherited(ctx context.Context, task string) ([]event.EvidenceAdded, error) {
	nodes, err := c.cfg.Nodes.Inherited(ctx, c.cfg.Store, task)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil // the thread is the only one in its record
	}
	if err != nil {
		return nil, err
	}
	var out []event.EvidenceAdded
	for _, h := range nodes {
		ev, err := c.read(ctx, h)
		if err != nil {
			return nil, err
		}
		if ev != nil {
			out = append(out, event.EvidenceAdded{ID: thread.FullID(ev.By, ev.ID), Kind: ev.Kind, Title: ev.Title, Hash: h})
		}
	}
	return out, nil
}

func (k *Index) add(a event.EvidenceAdded) {
	if _, known := k.ids[a.ID]; known {
		return
	}
	k.ids[a.ID] = len(k.all)
	k.all = append(k.all, a)
}

// Get returns the entry with a full id.
func (k *Index) Get(id string) (event.EvidenceAdded, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	i, ok := k.ids[id]
	if !ok {
		return event.EvidenceAdded{}, false
	}
	return k.all[i], true
}

// only returns the entry with a local id, if exactly one has it.
func (k *Index) only(local string) (found event.EvidenceAdded, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, a := range k.all {
		if _, name, _ := strings.Cut(a.ID, "."); name == local {
			if ok {
				return event.EvidenceAdded{}, false
			}
			found, ok = a, true
		}
	}
	return found, ok
}

// Has reports whether an entry has a full id.
func (k *Index) Has(id string) bool {
	_, ok := k.Get(id)
	return ok
}

// list returns the entries in order of arrival.
func (k *Index) list() []event.EvidenceAdded {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.all)
}

// names returns the full ids.
func (k *Index) names() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Sorted(maps.Keys(k.ids))
}

// read reads a recorded entry. It returns nil for a lost or damaged one, which verify reports.
func (c *Collector) read(ctx context.Context, h dag.Hash) (*thread.Evidence, error) {
	ev, err := c.cfg.Nodes.Evidence(ctx, h)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) {
		return nil, nil
	}
	return ev, err
}

// maxNewest is how many entries Newest returns.
const maxNewest = 40

// Newest returns the newest evidence of a task whose ids begin with prefix, oldest first. It skips commands and
// tool calls that had no result, since they prove nothing.
func (c *Collector) Newest(ctx context.Context, task, prefix string) ([]event.EvidenceAdded, error) {
	known, err := c.Index(ctx, task)
	if err != nil {
		return nil, err
	}
	var out []event.EvidenceAdded
	for _, a := range slices.Backward(known.list()) {
		if !strings.HasPrefix(a.ID, prefix) {
			continue
		}
		if a.Kind != thread.FileAnchor {
			ev, err := c.read(ctx, a.Hash)
			if err != nil {
				return nil, err
			}
			if ev != nil && ev.Unfinished() {
				continue
			}
		}
		if out = append(out, a); len(out) == maxNewest {
			break
		}
	}
	slices.Reverse(out)
	return out, nil
}
