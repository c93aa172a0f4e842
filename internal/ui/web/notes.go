package web

import (
	"context"
	"time"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view"
	"github.com/plait-run/plait/internal/view/taskdir"
)

// notesEvery is how often the notes of tasks that have an open question and are not driven are
// checked, with one stat call each.
const notesEvery = 2 * time.Second

// A noteWatch resumes tasks whose questions were answered in their notes.
type noteWatch struct {
	*Server
	pos    int64                    // in the journal
	asking map[string]store.Thread  // tasks of the workspace with an open question
	seen   map[string]taskdir.Stamp // stamps of their notes
}

// watchNotes checks notes until ctx ends. It retries after errors.
func (s *Server) watchNotes(ctx context.Context) {
	w := &noteWatch{Server: s, asking: map[string]store.Thread{}, seen: map[string]taskdir.Stamp{}}
	tick := time.NewTicker(notesEvery)
	defer tick.Stop()
	for first := true; ; first = false {
		if w.news(ctx, first) {
			for id, row := range w.asking {
				w.look(ctx, id, row)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// news updates the tasks that have an open question, and reports whether that succeeded.
func (w *noteWatch) news(ctx context.Context, first bool) bool {
	f := store.EventFilter{Limit: 1, Types: append(event.Types(event.ThreadRemoved{}), gateTypes()...)}
	last, err := w.cfg.Store.Events(ctx, w.pos, f)
	if err != nil || len(last) == 0 && !first {
		return err == nil
	}
	pos, err := w.end(ctx)
	if err != nil {
		return false
	}
	open, err := w.views.Gates(ctx, view.GateFilter{State: store.GateOpen})
	if err != nil {
		return false
	}
	asking := map[string]store.Thread{}
	for _, g := range open {
		if g.Kind != store.GateInput {
			continue
		}
		if row, err := w.cfg.Store.Thread(ctx, g.Task); err == nil {
			asking[g.Task] = row
		}
	}
	w.pos, w.asking = pos, asking
	return true
}

// end returns the position of the last event.
func (w *noteWatch) end(ctx context.Context) (int64, error) {
	if some, err := w.cfg.Store.Events(ctx, 0, store.EventFilter{Limit: 1}); err != nil || len(some) == 0 {
		return 0, err
	}
	return w.cfg.Store.Wait(ctx, 0)
}

// look reads the notes of a task if they changed, and resumes the task if they answered it.
func (w *noteWatch) look(ctx context.Context, id string, row store.Thread) {
	stamp := taskdir.At(row.Workspace, id).NotesStamp()
	if before, known := w.seen[id]; known && before == stamp || w.work.drives(id) || w.views.Driven(ctx, id) {
		return
	}
	answered, err := w.cfg.Control.ReadNotes(ctx, row)
	if err != nil {
		return
	}
	w.seen[id] = stamp
	if answered {
		w.work.drive(row, control.Resume{}) // another process may already drive it
	}
}

// gateTypes lists the events that can change which tasks have a question.
func gateTypes() []string {
	return event.Types(
		event.GateChanged{Change: event.GateBlocked}, event.GateChanged{Change: event.Change(store.GateAnswered)},
		event.GateChanged{Change: event.Change(store.GateExpired)},
		event.GateChanged{Change: event.Change(store.GateWithdrawn)},
	)
}
