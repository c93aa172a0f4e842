package command

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/sys/proc"
	"github.com/plait-run/plait/internal/sys/text"
)

// limits are the limits of a run, for messages.
type limits struct{ wall, idle time.Duration }

// result returns the attempt's outcome, given how the program ended.
func (a *Agent) result(res proc.Result, out *head, last *tail, lim limits,
	enforced string) (agent.Result, error) {
	name := a.cfg.Command[0]
	f := &agent.Failure{Kind: agent.Infra}
	if res.Exit >= 0 {
		f.Exit = &res.Exit
	}
	switch res.Reason {
	case proc.Cancelled:
		f.Kind, f.Message = agent.Cancelled, name+" was stopped: the attempt was cancelled"
	case proc.WallTime:
		f.Kind, f.Message = agent.TimedOut, fmt.Sprintf("%s was stopped: it ran longer than its timeout of %v", name,
			lim.wall)
	case proc.IdleTime:
		f.Kind, f.Message = agent.TimedOut, fmt.Sprintf("%s was stopped: it printed nothing for %v (idle limit)", name,
			lim.idle)
	case proc.Capped:
		f.Kind, f.Message = agent.Limit, fmt.Sprintf("%s was stopped: it printed more than %d MiB", name,
			proc.DefaultMaxBytes>>20)
	}
	switch {
	case f.Message != "":
	case enforced != unconfined && res.Exit == 1 && bytes.HasPrefix(out.kept, []byte("bwrap: ")):
		return agent.Result{}, agent.OfMachine("could not start the sandbox: %s", text.FirstLine(string(out.kept), 300))
	case res.Signal != 0:
		f.Message = fmt.Sprintf("%s was killed by signal %s (%d)%s", name, signalName(res.Signal), int(res.Signal),
			last.suffix())
	case a.Status(res.Exit) == "" && res.Exit != 0:
		f.Message = fmt.Sprintf("%s exited with code %d%s", name, res.Exit, last.suffix())
	}
	if len(res.Left) > 0 {
		// The attempt is not over while one of its processes may still write.
		if f.Message == "" {
			f.Message = name + " ended"
		}
		f.Message += fmt.Sprintf("; processes %v could not be ended: kill them manually", res.Left)
	}
	if f.Message != "" {
		return agent.Result{}, f
	}
	return agent.Result{
		Output: out.kept, Truncated: out.more,
		Status: a.Status(res.Exit), Exit: &res.Exit,
		Sandbox: enforced, Plain: true,
	}, nil
}

// startFailure explains why the program did not start, and what to do. Trying again
// cannot help, unless the machine was short of some resource.
func startFailure(se *proc.StartError, program string) *agent.Failure {
	f := &agent.Failure{Kind: agent.Infra, Final: true}
	what := ""
	switch {
	case se.Dir != "" && errors.Is(se.Err, fs.ErrNotExist):
		what = fmt.Sprintf("the directory %s does not exist; restore the working tree or correct the agent's dir", se.Dir)
	case se.Dir != "":
		what = fmt.Sprintf("%s: %v; correct the agent's dir", se.Dir, se.Err)
	case errors.Is(se.Err, fs.ErrNotExist) && strings.Contains(se.Path, "/"):
		if _, err := os.Stat(se.Path); err == nil || !filepath.IsAbs(se.Path) { // what is missing has its whole path
			what = fmt.Sprintf("the interpreter that the first line of %s names does not exist", program)
		} else {
			what = fmt.Sprintf("%s does not exist; correct the agent's command", program)
		}
	case errors.Is(se.Err, fs.ErrNotExist):
		what = fmt.Sprintf("program %s not found in PATH; install it or give its path in the agent's command", program)
	case errors.Is(se.Err, fs.ErrPermission):
		what = fmt.Sprintf("%s is not executable; make it so (chmod +x) or name its interpreter in the agent's command",
			program)
	case errors.Is(se.Err, syscall.ENOEXEC):
		what = fmt.Sprintf("%s is not a program of this machine and has no #! line; name its interpreter in the agent's "+
			"command", program)
	case errors.Is(se.Err, syscall.E2BIG):
		what = fmt.Sprintf("the arguments and the environment of %s are too long; shorten the agent's command, env or "+
			"pass", program)
	default:
		what, f.Final = fmt.Sprintf("%s: %v", program, se.Err), false
	}
	tree := strings.Contains(program, "/") && !filepath.IsAbs(program)
	f.Machine = se.Dir == "" && !errors.Is(se.Err, syscall.E2BIG) && !(tree && errors.Is(se.Err, fs.ErrNotExist))
	f.Message = "could not start: " + what
	return f
}

func signalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	return "unknown"
}
