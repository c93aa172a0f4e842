package attempt

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
)

// A listener passes people's input to a thread on to its running agent, and notes which of it the agent heard.
// That input is committed just before the step; the next attempt is told the rest.
type listener struct {
	more chan agent.Addition
	stop func()

	mu    sync.Mutex
	heard []store.Request
}

// heardBefore returns the input that the last attempt at the step after the head heard while it worked, if its
// answer could not be used: its session continues.
func (e *Runner) heardBefore(ctx context.Context, c *Thread) ([]store.Request, error) {
	if len(c.Tries) == 0 {
		return nil, nil
	}
	last := c.Tries[len(c.Tries)-1]
	if last.Failure == nil || last.Failure.Kind != store.FailureInvalidOutput {
		return nil, nil
	}
	events, err := e.cfg.Store.Events(ctx, 0, store.EventFilter{Task: c.Row.Task, Thread: c.Row.ID,
		Types: event.Types(event.AttemptFailed{}), Newest: true, Limit: 1})
	if err != nil || len(events) == 0 || events[0].Attempt != last.ID {
		return nil, err
	}
	failed, _ := event.Read(events[0]).(event.AttemptFailed)
	if len(failed.Heard) == 0 {
		return nil, nil
	}
	open, err := e.cfg.Store.Requests(ctx, store.RequestFilter{Task: c.Row.Task, Open: true})
	return slices.DeleteFunc(open, func(w store.Request) bool { return !slices.Contains(failed.Heard, w.ID) }), err
}

// Knows reports whether the next attempt continues a session that has heard an input. That input becomes a step
// before the attempt's, and the prompt does not repeat it.
func (e *Runner) Knows(c *Thread, w store.Request) bool {
	if len(c.Tries) == 0 || !slices.ContainsFunc(c.heard, func(h store.Request) bool { return h.ID == w.ID }) {
		return false
	}
	role := c.Tries[len(c.Tries)-1].Role
	worker, err := e.Worker(c, role)
	return err == nil && e.sessions.Continues(&c.Position, c.sessions, role, worker.Agent)
}

// listen begins to pass on people's input to a thread. heard is the input that the session already has.
func (e *Runner) listen(ctx context.Context, row store.Thread, heard []store.Request) *listener {
	ctx, cancel := context.WithCancel(ctx)
	l := &listener{more: make(chan agent.Addition), heard: heard}
	var done sync.WaitGroup
	done.Go(func() { e.passOn(ctx, l, row) })
	l.stop = func() { cancel(); done.Wait() }
	return l
}

// passOn passes on each request of a thread once. Errors are ignored: the request stays open.
func (e *Runner) passOn(ctx context.Context, l *listener, row store.Thread) {
	told := map[string]bool{}
	for _, w := range l.heard {
		told[w.ID] = true
	}
	for pos := int64(0); ; {
		requests, err := e.cfg.Store.Requests(ctx, store.RequestFilter{Task: row.Task, Open: true})
		if err != nil {
			return
		}
		for _, w := range requests {
			if w.Kind != store.RequestInput || cmp.Or(w.Thread, row.Root) != row.ID || told[w.ID] {
				continue
			}
			select {
			case l.more <- agent.Addition{Text: w.Text, Delivered: func() { l.note(w) }}:
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

func (l *listener) note(w store.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = append(l.heard, w)
}

// all returns the input that the agent heard while it worked, in that order.
func (l *listener) all() []store.Request {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.heard)
}
