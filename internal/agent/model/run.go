package model

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/sandbox"
	"github.com/plait-run/plait/internal/sys/proc"
)

const (
	usualTime  = 2 * time.Minute
	maxTime    = 30 * time.Minute
	maxTold    = 32 << 10  // bytes of a command's output that the model gets: the end
	maxKept    = 256 << 10 // bytes in events and the transcript
	maxWritten = 64 << 20  // bytes after which a command is stopped
)

// runCommand runs a command line, in the sandbox or where a person allowed it.
func (t *conversation) runCommand(c call, a args) (string, bool, error) {
	e := agent.Event{Kind: agent.EventCommand, ID: c.ID, Phase: "started", Text: a.Command}
	if strings.TrimSpace(a.Command) == "" {
		return t.invalidCall(c, "The command is missing.")
	}
	if err := t.event(e); err != nil {
		return "", false, err
	}
	free := t.req.Access == agent.Full
	if out := a.Outside && t.sandbox.Enforced; out || !t.sandbox.Enforced && !free {
		no, instead, err := t.question(agent.Question{Text: a.Reason, Editable: true,
			Action: agent.Action{Type: "command", Command: a.Command, Cwd: t.dir}})
		if err != nil {
			return "", false, err
		}
		if no != "" {
			e.Phase = "declined"
			return no, true, t.ended(c, no, e)
		}
		if free = true; instead != nil {
			e.Asked, e.Text, a.Command = a.Command, instead.Command, instead.Command
		}
	}
	t.watchdog.SetTools(1)
	out, res, err := t.sh(a, free)
	t.watchdog.Active()
	t.watchdog.SetTools(0)
	var se *proc.StartError
	switch {
	case errors.As(err, &se):
		e.Phase = "failed"
		return se.Error(), true, t.ended(c, se.Error(), e)
	case err != nil:
		return "", false, fmt.Errorf("run a command: %w", err)
	case t.ctx.Err() != nil: // the attempt ends
		e.Phase, e.Output = "failed", out.tail(maxKept)
		return "It was stopped.", true, t.ended(c, e.Output, e)
	}
	e.Phase, e.Output = "completed", out.tail(maxKept)
	text := out.tail(maxTold)
	switch {
	case res.Reason == proc.WallTime:
		e.Phase, text = "failed", fmt.Sprintf("Stopped after %v.\n%s", limitOf(a), text)
	case res.Reason != "" || res.Signal != 0:
		e.Phase, text = "failed", fmt.Sprintf("Stopped (%s%s).\n%s", res.Reason, signal(res.Signal), text)
	default:
		e.Exit = &res.Exit
		if res.Exit != 0 {
			text = fmt.Sprintf("Exit code %d\n%s", res.Exit, text)
		}
	}
	if strings.TrimSpace(text) == "" {
		text = "[no output]"
	}
	if e.Output == "" {
		e.Output = " " // it printed nothing
	}
	if e.Asked != "" {
		text = "A person changed the command. This was run instead: " + a.Command + "\n" + text
	}
	return text, false, t.ended(c, e.Output, e)
}

func signal(s syscall.Signal) string {
	if s == 0 {
		return ""
	}
	return "signal " + s.String()
}

// limitOf returns how long a command may run.
func limitOf(a args) time.Duration {
	if a.Timeout <= 0 {
		return usualTime
	}
	return time.Duration(min(a.Timeout, int(maxTime/time.Second))) * time.Second
}

// sh runs a command line. All of its output is in the stderr log.
func (t *conversation) sh(a args, free bool) (*output, proc.Result, error) {
	path, line := "/bin/sh", []string{"-c", a.Command}
	if free {
		path, line = t.req.CommandLine(path, line, agent.Needs{})
	} else {
		path, line = t.sandbox.Around(t.dir, path, line)
	}
	out := &output{to: t.req.Desk.Stderr, seen: t.watchdog.Active}
	res, err := proc.Run(t.ctx, proc.Config{Path: path, Args: line, Dir: t.dir, Tag: t.req.Tag,
		Env:    sandbox.Environ(t.req, t.agent.cfg.Pass, t.vars, t.agent.server.KeyEnv),
		Stdout: out, Stderr: out, MaxBytes: maxWritten, Wall: limitOf(a),
		Signals: []syscall.Signal{syscall.SIGTERM}, Grace: time.Second})
	return out, res, err
}

// An output keeps the end of what a command writes to both streams.
type output struct {
	to   io.Writer // nil: nowhere
	seen func()
	kept []byte
	cut  bool
}

func (o *output) Write(p []byte) (int, error) {
	o.seen()
	if o.to != nil {
		if _, err := o.to.Write(p); err != nil {
			return 0, err
		}
	}
	o.kept = append(o.kept, p...)
	if over := len(o.kept) - 2*maxKept; over > 0 {
		o.kept, o.cut = append(o.kept[:0], o.kept[len(o.kept)-maxKept:]...), true
	}
	return len(p), nil
}

// tail returns the end of the output as text, and marks a cut.
func (o *output) tail(limit int) string {
	text, cut := o.kept, o.cut
	if len(text) > limit {
		text, cut = text[len(text)-limit:], true
	}
	s := strings.ToValidUTF8(string(text), "\uFFFD")
	if cut {
		s = "…" + s
	}
	return s
}
