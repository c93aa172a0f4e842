package codex

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/shape"
	"github.com/plait-run/plait/internal/sys/proc"
)

// keptRollout is the name of an attempt's part of the rollout among its
// artifacts.
const keptRollout = "rollout.jsonl"

// outcome returns the attempt's outcome from how the run ended. why is the reason why the
// watchdog or the caller stopped it, or nil.
func (r *execRun) outcome(why error, res proc.Result, err error) (agent.Result, error) {
	if r.emitErr != nil {
		return agent.Result{}, r.emitErr
	}
	var se *proc.StartError
	if errors.As(err, &se) {
		return agent.Result{}, r.startFailure(se)
	}
	if err != nil {
		return agent.Result{}, fmt.Errorf("run Codex: %w", err)
	}
	thread := r.out.thread
	if thread == "" {
		thread = r.session
	}
	seen, err := r.evidence(thread)
	if err != nil {
		return agent.Result{}, err
	}
	use := r.usage(seen)
	if use != (agent.Usage{}) {
		if err := r.send(agent.Event{Kind: agent.EventUsage, Usage: &use}); err != nil {
			return agent.Result{}, err
		}
	}
	if f, verdict := r.failure(why, res); f != nil {
		f.Usage, f.Model = use, seen.Model
		if res.Exit >= 0 {
			f.Exit = &res.Exit
		}
		if sessionLost(verdict) || findRollout(r.setup.home, thread) == "" {
			thread = ""
		}
		f.Session = thread
		return agent.Result{}, f
	}
	out := agent.Result{
		Output: []byte(r.out.answer), Exit: &res.Exit, Session: thread, Turn: seen.Turn, Model: seen.Model, Usage: use,
		Version: r.setup.program.Version, Sandbox: r.setup.enforced(r.req, seen.Profile, seen.Sandbox),
	}
	if out.Sandbox == "" {
		out.Sandbox = sandboxes[r.req.Access] + " (asked for)"
	}
	out.Sandbox += r.setup.gateway.Bypassed()
	if r.req.Shaped {
		if shaped, err := shape.Unshape(r.req.Schema, out.Output); err == nil {
			out.Output = shaped
		}
	}
	return out.Clipped(), nil
}

// failure returns why the run did not do its work, or nil, and the failure's key in
// verdicts, "" if it is not Codex's own.
func (r *execRun) failure(why error, res proc.Result) (f *agent.Failure, verdict string) {
	f, verdict = r.cause(why, res)
	if len(res.Left) > 0 {
		// They may still write to the tree, so the attempt does not succeed.
		if f == nil {
			f = &agent.Failure{Kind: agent.Infra, Message: "Codex ended"}
		}
		f.Message += fmt.Sprintf("; processes %v could not be ended: kill them manually", res.Left)
	}
	return f, verdict
}

func (r *execRun) cause(why error, res proc.Result) (f *agent.Failure, verdict string) {
	s := &r.out
	fail := func(kind, format string, args ...any) (*agent.Failure, string) {
		return &agent.Failure{Kind: kind, Message: fmt.Sprintf(format, args...)}, ""
	}
	switch res.Reason {
	case proc.Cancelled:
		switch {
		case errors.Is(why, agent.ErrIdle):
			return fail(agent.TimedOut, "Codex was stopped: it said nothing for %v and no command of it ran "+
				"(idle limit)", r.req.Idle)
		case errors.Is(why, errExecStartup):
			return fail(agent.Infra, "Codex was stopped: it did not begin its session in time%s", r.hint())
		}
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(why)
		return stopFailure(ctx), ""
	case proc.WallTime:
		return fail(agent.TimedOut, "Codex was stopped: it ran longer than its timeout of %v", r.req.Timeout)
	case proc.Capped:
		return fail(agent.Limit, "Codex was stopped: it printed more than %d MiB", proc.DefaultMaxBytes>>20)
	}
	switch {
	case res.Signal != 0:
		return fail(agent.Infra, "Codex was killed by signal %s (%d)%s", execSignal(res.Signal), int(res.Signal),
			r.hint())
	case s.ended || res.Exit != 0 && s.message != "":
		return execFailure(string(r.stderr.kept), s.message, res.Exit)
	case res.Exit != 0:
		return execFailure(string(r.stderr.kept), "", res.Exit)
	case !s.done:
		return fail(agent.Infra, "Codex ended without finishing its turn, although its exit code is 0%s", r.hint())
	}
	return nil, ""
}

// hint returns what stderr says about the cause, to be appended to a message.
func (r *execRun) hint() string {
	if line := firstError(string(r.stderr.kept)); line != "" {
		return ": " + vendorText(line)
	}
	return ""
}

// startFailure explains why the program did not start.
func (r *execRun) startFailure(se *proc.StartError) *agent.Failure {
	if se.Dir != "" {
		return agent.Final("cannot run Codex in %s: %v; restore the working tree", se.Dir, se.Err)
	}
	f := &agent.Failure{Kind: agent.Infra, Machine: true, Message: fmt.Sprintf("cannot run %s: %v", se.Path, se.Err)}
	if errors.Is(se.Err, os.ErrNotExist) || errors.Is(se.Err, os.ErrPermission) || errors.Is(se.Err, syscall.ENOEXEC) {
		f.Final = true
		f.Message += "; " + Package.Install()
	}
	return f
}

// evidence reads what the session's rollout says about this attempt, and writes that part
// of it to the artifacts. A rollout that cannot be read is treated as empty.
func (r *execRun) evidence(thread string) (rolloutTail, error) {
	file := findRollout(r.setup.home, thread)
	if file == "" {
		return rolloutTail{}, nil
	}
	from := int64(0)
	if file == r.rollout {
		from = r.offset
	}
	to, err := createArtifact(r.req.Desk.Artifacts, keptRollout)
	if err != nil {
		return rolloutTail{}, err
	}
	if to == nil {
		seen, _ := readRollout(file, from, nil)
		return seen, nil
	}
	kept := &errWriter{to: to}
	seen, _ := readRollout(file, from, kept)
	if err := errors.Join(kept.err, to.Close()); err != nil {
		return rolloutTail{}, fmt.Errorf("keep rollout: %w", err)
	}
	return seen, nil
}

// A headWriter passes stderr on and keeps its beginning, which says why a start failed.
type headWriter struct {
	to       io.Writer
	watchdog *agent.Watchdog
	kept     []byte
}

const headBytes = 64 << 10

func (h *headWriter) Write(p []byte) (int, error) {
	if h.to != nil {
		if n, err := h.to.Write(p); err != nil {
			return n, err
		}
	}
	h.kept = append(h.kept, p[:min(len(p), headBytes-len(h.kept))]...)
	h.watchdog.Active()
	return len(p), nil
}

// An errWriter distinguishes write errors from errors of reading the data to write.
type errWriter struct {
	to  io.Writer
	err error
}

func (k *errWriter) Write(p []byte) (int, error) {
	n, err := k.to.Write(p)
	if err != nil {
		k.err = err
	}
	return n, err
}

// createArtifact creates a file among the artifacts, replacing whatever the agent put there.
// It returns nil if there is no directory for artifacts.
func createArtifact(dir, name string) (*os.File, error) {
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
		return nil, nil
	}
	fail := func(err error) (*os.File, error) { return nil, fmt.Errorf("leave %s: %w", name, pathCause(err)) }
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fail(err)
	}
	defer root.Close()
	if err := root.RemoveAll(name); err != nil {
		return fail(err)
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fail(err)
	}
	return f, nil
}

// usage returns what the attempt used. The count that codex exec ends with is of the whole
// session, so for a session that was continued the earlier count is subtracted.
func (r *execRun) usage(seen rolloutTail) agent.Usage {
	if seen.HasUse {
		return seen.Usage
	}
	if r.out.usage == nil {
		return agent.Usage{}
	}
	total := r.out.usage.usage()
	if r.session != "" {
		before := r.before
		if before == (agent.Usage{}) {
			return before // not known, and the whole session's would be too much
		}
		total.InputTokens = max(0, total.InputTokens-before.InputTokens)
		total.CachedInputTokens = max(0, total.CachedInputTokens-before.CachedInputTokens)
		total.OutputTokens = max(0, total.OutputTokens-before.OutputTokens)
		total.ReasoningTokens = max(0, total.ReasoningTokens-before.ReasoningTokens)
	}
	return total
}

func execSignal(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	return "unknown"
}
