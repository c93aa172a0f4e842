package codex

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"
)

// Why a run was stopped by its watch.
var (
	errExecIdle    = errors.New("idle")
	errExecStartup = errors.New("startup")
)

// An execWatch stops a run that does not begin, or that says nothing for too
// long although no command of it runs: while one does, codex exec is silent.
type execWatch struct {
	stop context.CancelCauseFunc
	idle time.Duration

	mu      sync.Mutex
	startup *time.Timer // nil once the session is known
	timer   *time.Timer // nil without a limit
	open    int         // commands and tools that run
	over    bool
}

func newExecWatch(stop context.CancelCauseFunc, startup, idle time.Duration) *execWatch {
	w := &execWatch{stop: stop, idle: idle}
	w.startup = time.AfterFunc(startup, func() { stop(errExecStartup) })
	if idle > 0 {
		w.timer = time.AfterFunc(idle, func() { stop(errExecIdle) })
	}
	return w
}

// started stops the limit of the startup: the session is known.
func (w *execWatch) started() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.startup.Stop()
}

// pause stops the idle time while a line is handled: how long that takes is not Codex's
// doing.
func (w *execWatch) pause() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil {
		w.timer.Stop()
	}
}

// resume restarts the idle time, unless open commands run.
func (w *execWatch) resume(open int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open = open
	w.reset()
}

// touch restarts the idle time: there was output.
func (w *execWatch) touch() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reset()
}

func (w *execWatch) reset() {
	if w.timer != nil && w.open == 0 && !w.over {
		w.timer.Reset(w.idle)
	}
}

// end stops the watch.
func (w *execWatch) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.startup.Stop()
	if w.timer != nil {
		w.timer.Stop()
	}
}

// A headWriter passes stderr on and keeps its beginning, which says why a start failed.
type headWriter struct {
	to    io.Writer
	watch *execWatch
	kept  []byte
}

const headBytes = 64 << 10

func (h *headWriter) Write(p []byte) (int, error) {
	if h.to != nil {
		if n, err := h.to.Write(p); err != nil {
			return n, err
		}
	}
	h.kept = append(h.kept, p[:min(len(p), headBytes-len(h.kept))]...)
	h.watch.touch()
	return len(p), nil
}
