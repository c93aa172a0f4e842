package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
)

// proven is what the engine knows of the evidence of a task. Other processes add to
// it, so the journal is read on before each use.
type proven struct {
	mu    sync.Mutex
	begun bool            // what a fork inherits is known
	pos   int64           // of the last event read
	ids   map[string]bool // full
	last  map[string]int  // by instance and kind of id: the highest number given
}

// proven returns the evidence of a task as it is now.
func (e *Engine) proven(ctx context.Context, task string) (*proven, error) {
	e.mu.Lock()
	if e.evidence == nil {
		e.evidence = make(map[string]*proven)
	}
	k := e.evidence[task]
	if k == nil {
		k = &proven{ids: make(map[string]bool), last: make(map[string]int)}
		e.evidence[task] = k
	}
	e.mu.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.read(ctx, e, task); err != nil {
		return nil, fmt.Errorf("read evidence of task %s: %w", task, err)
	}
	return k, nil
}

func (k *proven) read(ctx context.Context, e *Engine, task string) error {
	events, err := e.cfg.Store.Events(ctx, k.pos, store.EventFilter{Task: task, Types: []string{thread.EvidenceAdded}})
	if err != nil {
		return err
	}
	for _, ev := range events {
		k.pos = ev.Pos
		if a, ok := thread.AddedBy(ev); ok {
			k.add(a.ID)
		}
	}
	if k.begun {
		return nil
	}
	nodes, err := e.cfg.Reader.Inherited(ctx, e.cfg.Store, task)
	if errors.Is(err, store.ErrNotFound) {
		nodes, err = nil, nil // a thread that is alone in its record
	}
	if err != nil {
		return err
	}
	for _, h := range nodes {
		ev, err := e.cfg.Reader.Evidence(ctx, h)
		if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) {
			continue // verify tells of it
		}
		if err != nil {
			return err
		}
		k.add(thread.FullID(ev.By, ev.ID))
	}
	k.begun = true
	return nil
}

func (k *proven) add(id string) {
	k.ids[id] = true
	if i := strings.LastIndexByte(id, '-'); i > 0 {
		if n, err := strconv.Atoi(id[i+1:]); err == nil && n > k.last[id[:i]] {
			k.last[id[:i]] = n
		}
	}
}

// next returns the next automatic id of an instance.
func (k *proven) next(instance, kind string, given int) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return kind + "-" + strconv.Itoa(k.last[thread.FullID(instance, kind)]+given)
}

// has tells whether there is an entry of that full id.
func (k *proven) has(id string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok := k.ids[id]
	return ok
}

// list returns the full ids.
func (k *proven) list() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Sorted(maps.Keys(k.ids))
}
