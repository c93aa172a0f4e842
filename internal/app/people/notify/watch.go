package notify

import (
	"context"
	"time"

	"github.com/plait-run/plait/internal/app/config"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

const (
	maxLastLook = 2 * time.Second // at the end of a drive
	maxReason   = 200             // characters
)

// A watcher reports what happens to one task while it is driven.
type watcher struct {
	reader  *view.Reader
	sender  *Sender
	task    string
	pos     int64                // in the journal
	blocked *event.ThreadBlocked // what blocks the task, nil for nothing
	at      int64                // since when
}

// Watch sends notifications about the task whose root thread is row, from now on. The caller
// calls the function it returns when the task is no longer driven.
func Watch(ctx context.Context, reader *view.Reader, sender *Sender, row store.Thread) (stop func()) {
	w := &watcher{reader: reader, sender: sender, task: row.ID}
	last, err := reader.Store.Events(ctx, 0, store.EventFilter{Task: row.ID, Newest: true, Limit: 1})
	if err != nil {
		w.missed(err)
		return func() {}
	}
	for _, ev := range last {
		w.pos = ev.Pos
	}
	following, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.follow(ctx, following)
	}()
	return func() {
		cancel()
		<-done
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxLastLook)
		defer cancel()
		if w.catchUp(ctx) == nil {
			w.notifyBlocked(ctx)
		}
	}
}

func (w *watcher) missed(err error) {
	w.sender.cfg.Log.Warn("notifications missed", "task", w.task, "error", err.Error())
}

// follow sends notifications until following ends. It finishes what it has begun to read.
func (w *watcher) follow(ctx, following context.Context) {
	var seen int64
	for following.Err() == nil && w.catchUp(ctx) == nil {
		var err error
		if seen, err = w.reader.Store.Wait(following, seen); err != nil {
			return
		}
	}
}

// catchUp sends notifications for the events since the last call.
func (w *watcher) catchUp(ctx context.Context) error {
	types := event.Types(event.GateChanged{Change: event.GateBlocked}, event.ThreadBlocked{}, event.ThreadResumed{},
		event.TaskEnded{State: string(store.Completed)}, event.TaskEnded{State: string(store.Failed)})
	of := store.EventFilter{Task: w.task, Types: types}
	err := event.Each(ctx, w.reader.Store, of, &w.pos, func(ev store.Event) error {
		w.handle(ctx, ev) // on an error, the event is not retried either
		return nil
	})
	if err != nil && ctx.Err() == nil {
		w.missed(err)
	}
	return err
}

// handle sends a notification if an event calls for one.
func (w *watcher) handle(ctx context.Context, ev store.Event) {
	switch p := event.Read(ev).(type) {
	case event.GateChanged:
		g, err := w.reader.Store.Gate(ctx, p.Gate)
		if err != nil {
			w.missed(err)
		} else if g.State == store.GateOpen { // otherwise the person is no longer needed
			text := view.About(g)
			w.send(ctx, config.OnNeedsYou, ev.TS, text, &Question{ID: g.ID, Kind: g.Kind, Text: text})
		}
	case event.ThreadBlocked:
		if ev.Thread == w.task {
			w.blocked, w.at = &p, ev.TS
		}
	case event.ThreadResumed:
		if ev.Thread == w.task {
			w.blocked = nil
		}
	case event.TaskEnded:
		w.blocked = nil
		what := config.OnDone
		if p.State == string(store.Failed) {
			what = config.OnFailed
		}
		w.send(ctx, what, ev.TS, string(p.Summary), nil)
	}
}

// notifyBlocked notifies that the task is blocked without a question. This is known only once it is no
// longer driven: until then another part may still be running.
func (w *watcher) notifyBlocked(ctx context.Context) {
	if w.blocked == nil {
		return
	}
	row, err := w.reader.Store.Thread(ctx, w.task)
	if err != nil {
		w.missed(err)
		return
	}
	if row.Status != store.Blocked {
		return // it was cancelled
	}
	open, err := w.reader.Store.Gates(ctx, store.GateFilter{Task: w.task, State: store.GateOpen})
	if err != nil {
		w.missed(err)
		return
	}
	if len(open) > 0 {
		return // it was reported before
	}
	why := thread.Plainly(string(w.blocked.Message))
	shown := view.NewDisplay(store.Blocked, &view.Reason{Kind: w.blocked.Kind, Message: why}, nil)
	what := config.OnFailed
	if shown.State == view.DisplayNeedsYou {
		what = config.OnNeedsYou
	}
	w.send(ctx, what, w.at, shown.Reason, nil)
}

func (w *watcher) send(ctx context.Context, what string, at int64, reason string, q *Question) {
	row, err := w.reader.Store.Thread(ctx, w.task)
	if err != nil {
		w.missed(err)
		return
	}
	title, err := w.reader.Title(ctx, row)
	if err != nil {
		w.missed(err) // it is reported anyway
	}
	w.sender.Send(Notification{
		Schema: Schema, Event: what, Task: row.ID, Short: row.Short, Title: title, Flow: row.Flow,
		Reason: text.OneLine(w.reader.Names().In(ctx, reason), maxReason), Question: q, Workspace: row.Workspace, At: at,
	})
}
