package attempt

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/store"
)

// A listener hands on to an agent at work what people say to its thread, and notes what of it the
// agent heard. That is committed with the step, before it; all else is told to the next attempt.
type listener struct {
	more chan agent.Addition
	stop func()

	mu    sync.Mutex
	heard []store.Wish
}

// listen begins to hand on what people say to a thread. heard is what the session was told of it before.
func (e *Runner) listen(ctx context.Context, row store.Thread, heard []store.Wish) *listener {
	ctx, cancel := context.WithCancel(ctx)
	l := &listener{more: make(chan agent.Addition), heard: heard}
	var done sync.WaitGroup
	done.Go(func() { e.handOn(ctx, l, row) })
	l.stop = func() { cancel(); done.Wait() }
	return l
}

// handOn hands on each wish of a thread once. What goes wrong here costs nothing: the wish stays open.
func (e *Runner) handOn(ctx context.Context, l *listener, row store.Thread) {
	told := map[string]bool{}
	for _, w := range l.heard {
		told[w.ID] = true
	}
	for pos := int64(0); ; {
		wishes, err := e.cfg.Store.Wishes(ctx, store.WishFilter{Task: row.Task, Open: true})
		if err != nil {
			return
		}
		for _, w := range wishes {
			if w.Kind != store.WishInput || cmp.Or(w.Thread, row.Root) != row.ID || told[w.ID] {
				continue
			}
			select {
			case l.more <- agent.Addition{Text: w.Text, Heard: func() { l.note(w) }}:
				told[w.ID] = true
			case <-ctx.Done():
				return
			}
		}
		if pos, err = e.cfg.Store.Wait(ctx, pos); err != nil {
			return
		}
	}
}

func (l *listener) note(w store.Wish) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = append(l.heard, w)
}

// Heard returns what people said that the agent heard while it worked, in that order.
func (p *Prepared) Heard() []store.Wish {
	if p.listens == nil {
		return nil
	}
	p.listens.mu.Lock()
	defer p.listens.mu.Unlock()
	return slices.Clone(p.listens.heard)
}
