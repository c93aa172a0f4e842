package agenttest

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent"
)

// kill kills the process of an attempt.
func (y *try) kill() {
	if p := y.started.Load(); p != nil {
		syscall.Kill(p.PID, syscall.SIGKILL)
	}
}

// killed checks an attempt whose process was killed, and continues its session if that is possible.
func (l *lab) killed(t *testing.T, y *try, mark string, must bool) {
	t.Helper()
	failure(t, y, agent.Infra)
	var f *agent.Failure
	if !errors.As(y.err, &f) {
		return
	}
	if f.Final || must && f.Session == "" {
		t.Fatalf("got failure %+v", f)
	}
	prompt := fmt.Sprintf("case on (%s)", t.Name())
	z := l.after(t, y, prompt, f.Session)
	if a, ok := l.agent.(agent.Continuer); ok && !must && !a.Continues(z.req) {
		z.req.Session = "" // it was killed before it saved anything
	}
	l.works(t, z, nil)
	if z.req.Session != "" {
		holds(t, l.last(t, prompt), map[string]bool{mark: true})
	}
}

func (l *lab) killedAtStart(t *testing.T) {
	if l.cfg.NoProcess {
		t.Skip("this kind runs no process")
	}
	y := l.try(t, "case first killed at start")
	y.req.Started = func(p agent.Process) { y.started.Store(&p); y.kill() }
	l.runs(t.Context(), t, y, nil)
	l.killed(t, y, "case first killed at start", false)
}

func (l *lab) killedInCommand(t *testing.T) {
	if l.cfg.NoProcess {
		t.Skip("this kind runs no process")
	}
	a, continues := l.agent.(agent.Continuer)
	y := l.try(t, "case wait to be killed")
	y.begun(t, func() {
		for range 1000 { // programs write their sessions a little later
			req := y.req
			if id := y.session.Load(); id != nil {
				req.Session = *id
			}
			if !continues || req.Session != "" && a.Continues(req) {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		y.kill()
	})
	l.runs(t.Context(), t, y, nil)
	l.killed(t, y, "case wait to be killed", continues)
}

func (l *lab) killedInAnswer(t *testing.T) {
	if l.cfg.NoProcess {
		t.Skip("this kind runs no process")
	}
	y := l.try(t, "case silent and killed")
	l.when(t, "case silent and killed", y.kill)
	l.runs(t.Context(), t, y, nil)
	l.killed(t, y, "case silent and killed", false)
}

func (l *lab) cancelledInCommand(t *testing.T) {
	y := l.try(t, "case wait to be cancelled")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	y.begun(t, cancel)
	l.runs(ctx, t, y, nil)
	failure(t, y, agent.Cancelled)
	a, ok := l.agent.(agent.Continuer)
	var f *agent.Failure
	if !ok || !errors.As(y.err, &f) || f.Session == "" {
		return
	}
	if z := l.after(t, y, "case on after that", f.Session); a.Continues(z.req) {
		l.works(t, z, nil)
		holds(t, l.last(t, "case on after that"), map[string]bool{"case wait to be cancelled": true})
	}
}

func (l *lab) silent(t *testing.T) {
	for name, set := range map[string]func(*agent.Request){
		"wall": func(r *agent.Request) { r.Timeout = 2 * time.Second },
		"idle": func(r *agent.Request) { r.Idle = 2 * time.Second },
	} {
		y := l.try(t, "case silent "+name)
		set(&y.req)
		l.runs(t.Context(), t, y, nil)
		failure(t, y, agent.TimedOut)
	}
}

// cutOnce checks that the part of an answer that broke off is not in the answer to the repeated request.
func (l *lab) cutOnce(t *testing.T) {
	res := l.works(t, l.try(t, "case half"), nil)
	if want := "this is said to its end when the agent asks for it again"; string(res.Output) != want {
		t.Errorf("got output %q, want %q", res.Output, want)
	}
}
