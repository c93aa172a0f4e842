package engine

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/store"
)

// newsEvery is the least time between two agent.item events of an attempt:
// watchers need no more, and each one is a durable write.
const newsEvery = 200 * time.Millisecond

// news writes what an agent does as agent.item events, in groups. Writing
// happens on a goroutine of its own, so that a slow disk does not hold up the
// agent; the first error comes back from the next emit and from close.
type news struct {
	commit func([]store.Event) error
	event  func(items []json.RawMessage) store.Event

	mu     sync.Mutex
	wake   chan struct{} // one buffered: there is something to do
	items  []json.RawMessage
	deeds  []func() error
	err    error
	closed bool
	done   chan struct{}
}

func (e *Engine) report(row store.Thread, a store.Attempt) *news {
	n := &news{wake: make(chan struct{}, 1), done: make(chan struct{})}
	n.commit = func(events []store.Event) error {
		return e.cfg.Store.Commit(context.Background(), store.Batch{Events: events})
	}
	n.event = func(items []json.RawMessage) store.Event {
		ev := event(row, e.now(), "agent.item", map[string]any{"role": a.Role, "items": items})
		ev.Instance, ev.Attempt = a.Instance, a.ID
		return ev
	}
	go n.loop()
	return n
}

// emit queues one event. It is the emit of agent.Agent.
func (n *news) emit(ev agent.Event) error {
	if len(ev.Text) > 2000 {
		ev.Text = clip(ev.Text)
	}
	item, err := json.Marshal(ev)
	if err != nil || len(item) > store.MaxEventPayload/2 {
		item, _ = json.Marshal(agent.Event{Kind: ev.Kind, Phase: ev.Phase, Text: ev.Text, Exit: ev.Exit})
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.items = append(n.items, item)
	n.signal()
	return n.err
}

// note queues a write that is no event.
func (n *news) note(deed func() error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.deeds = append(n.deeds, deed)
	n.signal()
}

func (n *news) signal() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// close writes what is left and returns the first error.
func (n *news) close() error {
	n.mu.Lock()
	n.closed = true
	n.signal()
	n.mu.Unlock()
	<-n.done
	return n.err
}

func (n *news) loop() {
	defer close(n.done)
	for range n.wake {
		n.mu.Lock()
		items, deeds, closed, err := n.items, n.deeds, n.closed, n.err
		n.items, n.deeds = nil, nil
		n.mu.Unlock()
		for _, deed := range deeds {
			if err == nil {
				err = deed()
			}
		}
		if err == nil && len(items) > 0 {
			err = n.commit(n.events(items))
		}
		n.mu.Lock()
		n.err = err
		n.mu.Unlock()
		if closed {
			return
		}
		n.pause()
	}
}

// pause waits out the interval, or until close.
func (n *news) pause() {
	timer := time.NewTimer(newsEvery)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			n.mu.Lock()
			if len(n.items)+len(n.deeds) > 0 || n.closed {
				n.signal()
			}
			n.mu.Unlock()
			return
		case <-n.wake:
			n.mu.Lock()
			closed := n.closed
			if closed {
				n.signal()
			}
			n.mu.Unlock()
			if closed {
				return
			}
		}
	}
}

// events splits items into events that are not too large.
func (n *news) events(items []json.RawMessage) []store.Event {
	var out []store.Event
	var group []json.RawMessage
	size := 0
	for _, item := range items {
		if size += len(item) + 1; size > store.MaxEventPayload-256 && len(group) > 0 {
			out = append(out, n.event(group))
			group, size = nil, len(item)+1
		}
		group = append(group, item)
	}
	return append(out, n.event(group))
}
