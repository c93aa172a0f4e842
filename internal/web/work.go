package web

import (
	"context"
	"sync"

	"github.com/plait-run/plait/internal/control"
)

// work are the tasks that this server drives, one goroutine each.
type work struct {
	control *control.Controller
	ctx     context.Context // ends with the server: what is driven then is left to be resumed

	mu     sync.Mutex
	going  map[string]error // nil while it goes on; then how it ended, if badly
	driven sync.WaitGroup
}

// drive lets a task go on in the background. How it ends badly is kept for said.
func (w *work) drive(id string, r control.Resume) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx.Err() != nil {
		return &problem{503, "ending", "this server ends"}
	}
	if err, known := w.going[id]; known && err == nil {
		return &problem{409, "conflict", "this server drives the task already"}
	}
	if w.going == nil {
		w.going = map[string]error{}
	}
	w.going[id] = nil
	w.driven.Go(func() {
		r.Wait = true // answers are given here
		_, err := w.control.Drive(w.ctx, id, r)
		w.mu.Lock()
		defer w.mu.Unlock()
		if delete(w.going, id); err != nil && w.ctx.Err() == nil {
			w.going[id] = err
		}
	})
	return nil
}

// said returns why a task that this server drove came to no end, or nil.
func (w *work) said(id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.going[id]
}
