package web

import (
	"context"
	"time"

	"github.com/plait-run/plait/internal/control"
	"github.com/plait-run/plait/internal/event"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/task"
	"github.com/plait-run/plait/internal/view"
)

// notesEvery is how often the notes of tasks are looked at that ask something and that nobody drives:
// one look at a file for each.
const notesEvery = 2 * time.Second

// A noteWatch lets tasks go on whose questions were answered in their notes.
type noteWatch struct {
	*Server
	pos    int64                   // in the journal
	asking map[string]store.Thread // tasks of the workspace with an open question
	seen   map[string]task.Stamp   // of their notes
}

// watchNotes looks until ctx ends. What cannot be read now is looked at again.
func (s *Server) watchNotes(ctx context.Context) {
	w := &noteWatch{Server: s, asking: map[string]store.Thread{}, seen: map[string]task.Stamp{}}
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

// news takes in which tasks ask something, and reports whether that is known.
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

// look reads the notes of a task when they have changed, and lets it go on when they answered it.
func (w *noteWatch) look(ctx context.Context, id string, row store.Thread) {
	stamp := task.At(row.Workspace, id).NotesStamp()
	if before, known := w.seen[id]; known && before == stamp || w.work.drives(id) || w.views.Driven(ctx, id) {
		return
	}
	answered, err := w.cfg.Control.ReadNotes(ctx, row)
	if err != nil {
		return
	}
	w.seen[id] = stamp
	if answered {
		w.work.drive(row, control.Resume{}) // whoever is quicker drives it
	}
}

// gateTypes are the events after which other tasks may ask something.
func gateTypes() []string {
	return event.Types(
		event.GateChanged{Change: event.GateBlocked}, event.GateChanged{Change: event.Change(store.GateAnswered)},
		event.GateChanged{Change: event.Change(store.GateExpired)},
		event.GateChanged{Change: event.Change(store.GateWithdrawn)},
	)
}
