package view

import (
	"context"
	"errors"
	"time"

	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
)

// A GateFeed follows the gates that match a filter.
type GateFeed struct {
	b      *Reader
	filter GateFilter

	// Closed, unless nil, is called with each gate that is no longer open.
	Closed func(store.Gate)

	begun bool
	pos   int64                 // of the last event read
	seen  int64                 // of the newest event
	shown map[string]store.Gate // as last returned, while open
	here  map[string]bool       // by thread: whether it belongs to the workspace
}

// GateFeed starts following gates. f.State is ignored.
func (b *Reader) GateFeed(f GateFilter) *GateFeed {
	return &GateFeed{b: b, filter: f, shown: map[string]store.Gate{}, here: map[string]bool{}}
}

// Next returns what happened to gates since the last call: each gate as it opened and as it was
// answered, in that order. The first call returns the open gates.
func (f *GateFeed) Next(ctx context.Context) ([]store.Gate, error) {
	if !f.begun {
		return f.first(ctx)
	}
	for _, g := range f.shown {
		if g.ExpiresAt != 0 && g.ExpiresAt <= time.Now().UnixMilli() {
			f.b.gates().Gate(ctx, g.ID) // lets it expire; in a read-only store it stays open
		}
	}
	var out []store.Gate
	err := event.Each(ctx, f.b.Store, store.EventFilter{Task: f.filter.Task}, &f.pos, func(ev store.Event) error {
		changed, err := f.event(ctx, ev)
		out = append(out, changed...)
		return err
	})
	if err != nil {
		return nil, err
	}
	f.seen = max(f.seen, f.pos)
	return out, nil
}

func (f *GateFeed) first(ctx context.Context) ([]store.Gate, error) {
	// Gates that change while they are listed are seen twice rather than never.
	some, err := f.b.Store.Events(ctx, 0, store.EventFilter{Limit: 1})
	if err == nil && len(some) > 0 {
		f.pos, err = f.b.Store.Wait(ctx, 0)
	}
	if err != nil {
		return nil, err
	}
	f.seen, f.begun = f.pos, true
	open, err := f.b.Gates(ctx, GateFilter{State: store.GateOpen, Task: f.filter.Task, All: f.filter.All})
	for _, g := range open {
		f.shown[g.ID] = g
	}
	return open, err
}

// event returns the gates that an event changed, if they are followed.
func (f *GateFeed) event(ctx context.Context, ev store.Event) ([]store.Gate, error) {
	said, ok := event.Read(ev).(event.GateChanged)
	if !ok || said.Change == event.GateUsed || said.Gate == "" {
		return nil, nil
	}
	if here, err := f.follows(ctx, ev); err != nil || !here {
		return nil, err
	}
	g, err := f.b.Store.Gate(ctx, said.Gate)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil // its task was removed
	}
	if err != nil {
		return nil, err
	}
	g = GateRow(g)
	_, known := f.shown[g.ID]
	var out []store.Gate
	if said.Change == event.GateBlocked && !known {
		opened := g
		opened.State, opened.AnsweredAt, opened.UsedAt = store.GateOpen, 0, 0
		opened.By, opened.Via, opened.Text = "", "", ""
		f.shown[g.ID], known = opened, true
		out = append(out, opened)
	}
	if known && g.State != store.GateOpen {
		delete(f.shown, g.ID)
		out = append(out, g)
		if f.Closed != nil {
			f.Closed(g)
		}
	}
	return out, nil
}

// follows reports whether an event is about a followed thread.
func (f *GateFeed) follows(ctx context.Context, ev store.Event) (bool, error) {
	if f.filter.All || f.filter.Task != "" {
		return true, nil // only events of that task are read
	}
	here, known := f.here[ev.Thread]
	if known {
		return here, nil
	}
	row, err := f.b.Store.Thread(ctx, ev.Thread)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return false, err
	}
	f.here[ev.Thread] = err == nil && f.b.here(row)
	return f.here[ev.Thread], nil
}

// Wait returns when a gate may have changed, or after most if that is not zero.
func (f *GateFeed) Wait(ctx context.Context, most time.Duration) error {
	for _, g := range f.shown {
		if g.ExpiresAt == 0 {
			continue
		}
		left := max(time.Until(time.UnixMilli(g.ExpiresAt)), 10*time.Millisecond)
		if most == 0 || left < most {
			most = left
		}
	}
	timed, cancel := ctx, context.CancelFunc(func() {})
	if most > 0 {
		timed, cancel = context.WithTimeout(ctx, most)
	}
	defer cancel()
	last, err := f.b.Store.Wait(timed, f.seen)
	switch {
	case err == nil:
		f.seen = last
	case ctx.Err() != nil:
		return ctx.Err()
	case timed.Err() == nil:
		return err
	}
	return nil
}

// Ended reports whether the followed task, if there is only one, has ended.
func (f *GateFeed) Ended(ctx context.Context) (bool, error) {
	if f.filter.Task == "" {
		return false, nil
	}
	row, err := f.b.Store.Thread(ctx, f.filter.Task)
	if errors.Is(err, store.ErrNotFound) {
		return true, nil
	}
	return row.Ended(), err
}
