package attempt

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
)

// newsEvery is the least time between two agent.item events of an attempt: watchers need no more, and each
// event is a durable write.
const newsEvery = 200 * time.Millisecond

// news writes what an agent does as agent.item events, in groups. A goroutine, which the first event starts,
// does the writing, so that a slow disk does not hold up the agent. The next emit, and close, return the first
// error.
type news struct {
	commit func(store.Batch) error
	event  func(items []json.RawMessage) store.Event

	writing sync.Mutex // held while writing

	mu     sync.Mutex
	begun  bool          // the goroutine has started
	wake   chan struct{} // capacity one: there is something to do
	items  []agent.Event
	writes []func() error
	err    error
	closed bool
	done   chan struct{}
}

func (e *Runner) newNews(ctx context.Context, row store.Thread, a store.Attempt) *news {
	n := &news{wake: make(chan struct{}, 1), done: make(chan struct{})}
	ctx = context.WithoutCancel(ctx)
	n.commit = func(b store.Batch) error { return e.cfg.Store.Commit(ctx, b) }
	n.event = func(items []json.RawMessage) store.Event {
		return event.OfAttempt(row, a, e.now(), event.AgentItems{Role: a.Role, Items: items})
	}
	return n
}

// emit queues one event. It is the emit of agent.Agent. Deltas of one item since the last write are joined into
// one event.
func (n *news) emit(ev agent.Event) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if last := len(n.items) - 1; last >= 0 && ev.Phase == "updated" && ev.ID != "" {
		if was := &n.items[last]; was.Phase == ev.Phase && was.ID == ev.ID && was.Kind == ev.Kind {
			was.Text += ev.Text
			was.Output += ev.Output
			ev, n.items = *was, n.items[:last]
		}
	}
	n.items = append(n.items, bounded(ev))
	n.signal()
	return n.err
}

// Bounds on the size of an event, in bytes. The raw log has the whole.
const (
	maxOutput = 4 << 10
	maxDiff   = 1 << 10
	maxFiles  = 20
)

// bounded returns an event cut to the size that the journal accepts.
func bounded(ev agent.Event) agent.Event {
	ev.Text, ev.Asked = event.Brief(ev.Text), event.Brief(ev.Asked)
	ev.Output = text.Tail(ev.Output, maxOutput)
	if len(ev.Files) > maxFiles {
		ev.Files = ev.Files[:maxFiles:maxFiles]
	}
	if len(ev.Detail) > maxOutput {
		ev.Detail = nil
	}
	ev.Files = slices.Clone(ev.Files)
	for i := range ev.Files {
		f := &ev.Files[i]
		f.Path, f.Diff = event.Brief(f.Path), text.Clip(f.Diff, maxDiff)
	}
	return ev
}

// item encodes an event. If the event is still too long, item keeps what matters most.
func item(ev agent.Event) json.RawMessage {
	data, err := json.Marshal(ev)
	if err != nil || len(data) > store.MaxEventPayload/2 {
		files := ev.Files
		for i := range files {
			files[i].Diff = ""
		}
		data, err = json.Marshal(agent.Event{Kind: ev.Kind, ID: ev.ID, Phase: ev.Phase, Text: event.Brief(ev.Text),
			Asked: ev.Asked, Exit: ev.Exit, Files: files})
	}
	if err != nil || len(data) > store.MaxEventPayload-1024 {
		data, _ = json.Marshal(agent.Event{Kind: ev.Kind, ID: ev.ID, Phase: ev.Phase, Exit: ev.Exit})
	}
	return data
}

// queue adds a write that is not an event.
func (n *news) queue(write func() error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.writes = append(n.writes, write)
	n.signal()
}

// signal wakes the goroutine. n.mu may be held.
func (n *news) signal() {
	if !n.begun && !n.closed {
		n.begun = true
		go n.loop()
	}
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// close writes what is left and returns the first error.
func (n *news) close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	if n.begun {
		n.signal()
		n.mu.Unlock()
		<-n.done
		n.mu.Lock()
	}
	return n.err
}

func (n *news) loop() {
	defer close(n.done)
	for range n.wake {
		if n.write() {
			return
		}
		n.pause()
	}
}

// write writes what is queued, and reports whether no more will come. Call it before anything that must not
// happen until the queued events are kept.
func (n *news) write() (closed bool) {
	n.writing.Lock()
	defer n.writing.Unlock()
	n.mu.Lock()
	items, writes, closed, err := n.items, n.writes, n.closed, n.err
	n.items, n.writes = nil, nil
	n.mu.Unlock()
	for _, commit := range writes {
		if err == nil {
			err = commit()
		}
	}
	if err == nil && len(items) > 0 {
		err = n.commit(store.Batch{Events: n.events(items)})
	}
	n.mu.Lock()
	n.err = err
	n.mu.Unlock()
	return closed
}

// pause waits out the interval, or until close.
func (n *news) pause() {
	timer := time.NewTimer(newsEvery)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			n.mu.Lock()
			if len(n.items)+len(n.writes) > 0 || n.closed {
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
func (n *news) events(events []agent.Event) []store.Event {
	var out []store.Event
	var group []json.RawMessage
	size := 0
	for _, ev := range events {
		item := item(ev)
		if size += len(item) + 1; size > store.MaxEventPayload-256 && len(group) > 0 {
			out = append(out, n.event(group))
			group, size = nil, len(item)+1
		}
		group = append(group, item)
	}
	return append(out, n.event(group))
}
