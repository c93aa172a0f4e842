// Package command implements the agent kind command: any program as an agent. A
// flow uses it for tests, git, linters and scripts.
//
// It takes an argument vector and a Request. The program runs in the request's
// directory with the prompt on stdin and the environment of [proc.Environ], to
// which PLAIT_PROMPT is added, what the desk's file of that has, unless it is too
// long for a variable. The result is what it printed. Laws:
//
//   - No shell and no templates: argv is what the configuration says.
//   - Stdout is the transcript: it goes to the desk's raw log byte for byte,
//     stderr to the desk's stderr log.
//   - An exit code that the configuration maps is a result with that $status.
//     Exit 0, if not mapped, is a result without one. Any other end is a failure.
//   - It enforces no sandbox, and reports that, unless it is given a host: then the program runs in the sandbox of the
//     role, as the programs of other kinds do.
package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/agent/host"
	"github.com/plait-run/plait/internal/agent/sandbox"
	"github.com/plait-run/plait/internal/sys/proc"
)

// A Config describes a program. Only Command is required.
type Config struct {
	Command []string          // program and arguments
	Dir     string            // relative to the request's directory, inside it
	Env     map[string]string // additional variables
	Pass    []string          // names of Plait's own variables to pass on
	Exit    map[string]string // exit code in decimal to $status
	Idle    time.Duration     // maximum time without output; 0: the request's
	Grace   time.Duration     // between two steps of stopping; 0: proc.DefaultGrace
	Other   string            // $status of all other exit codes; "": they are failures
	Host    *host.Host        // the program runs there, in a sandbox; nil: in none
	Terms   host.Terms        // what the sandbox grants
}

// maxInstruction is the longest instruction, in bytes, that a program also gets in a variable: Linux limits each to
// 128 KiB.
const maxInstruction = 100 << 10

// instruction returns what to do now as a variable, if there is such a file and a variable can have it.
func instruction(desk agent.Desk) []string {
	if desk.Context == "" {
		return nil
	}
	data, err := os.ReadFile(filepath.Join(desk.Context, agent.Instruction))
	if err != nil || len(data) > maxInstruction || hasNUL(string(data)) {
		return nil
	}
	return []string{"PLAIT_PROMPT=" + string(data)}
}

// An Agent runs one program per attempt. It may be used concurrently.
type Agent struct {
	cfg  Config
	exit map[int]string
}

var _ agent.Program = (*Agent)(nil)

// New checks cfg and returns an agent that runs its program.
func New(cfg Config) (*Agent, error) {
	if len(cfg.Command) == 0 || cfg.Command[0] == "" {
		return nil, errors.New("command agent: command is empty: give the program and its arguments as a list")
	}
	if slices.ContainsFunc(cfg.Command, hasNUL) || hasNUL(cfg.Dir) {
		return nil, errors.New("command agent: command and dir cannot hold a NUL byte")
	}
	if cfg.Dir != "" && !filepath.IsLocal(cfg.Dir) {
		return nil, fmt.Errorf("command agent: dir %q leaves the working tree", cfg.Dir)
	}
	if cfg.Idle < 0 || cfg.Grace < 0 {
		return nil, errors.New("command agent: idle and grace cannot be negative")
	}
	a := &Agent{cfg: cfg, exit: make(map[int]string, len(cfg.Exit))}
	for key, status := range cfg.Exit {
		code, err := strconv.Atoi(key)
		if err != nil || code < 0 || code > 255 || strconv.Itoa(code) != key {
			return nil, fmt.Errorf("command agent: exit key %q is not a number from 0 to 255", key)
		}
		if status == "" {
			return nil, fmt.Errorf("command agent: exit %s has no status", key)
		}
		a.exit[code] = status
	}
	return a, nil
}

func hasNUL(s string) bool { return strings.ContainsRune(s, 0) }

// String returns the command line for people to read.
func (a *Agent) String() string { return strings.Join(a.cfg.Command, " ") }

// Status returns the status that the configuration maps an exit code to, or "" if there is none.
func (a *Agent) Status(exit int) string { return cmp.Or(a.exit[exit], a.cfg.Other) }

// Missing looks the program up in the PATH that it will have.
func (a *Agent) Missing() string {
	name := a.cfg.Command[0]
	var se *proc.StartError
	if strings.Contains(name, "/") {
		return "" // it may be in the working tree
	}
	if _, err := proc.Lookup(name, "/", proc.Environ(a.cfg.Pass, a.cfg.Env, nil, "")); !errors.As(err, &se) {
		return ""
	}
	return startFailure(se, name).Message
}

// Run runs the program once. See [agent.Agent].
func (a *Agent) Run(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
	dir, failure := a.dir(req)
	if failure != nil {
		return agent.Result{}, failure
	}
	name := a.cfg.Command[0]
	shown := a.String()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	out := &head{to: req.Desk.Raw}
	last := &tail{to: req.Desk.Stderr}
	says := &progress{emit: emit, stop: stop}
	idle := a.cfg.Idle
	if idle == 0 {
		idle = req.Idle
	}
	set, around, enforced, err := a.confine(req, dir)
	if err != nil {
		return agent.Result{}, err
	}
	env := proc.First(req.Bin(), proc.Environ(a.cfg.Pass, set, slices.Concat(req.Env, instruction(req.Desk)), req.Tag))
	program := name
	var se *proc.StartError
	// What wraps a program that is missing would exit with a code of its own.
	if req.Wrap != nil || enforced != unconfined {
		found, err := proc.Lookup(name, dir, env)
		if errors.As(err, &se) {
			return agent.Result{}, startFailure(se, name)
		}
		program = found
	}
	path, args := around(program, a.cfg.Command[1:])
	var errs io.Writer = last
	if a.cfg.Host != nil {
		errs = out // its output is read by agents: what compilers say is there
	}
	res, err := proc.Run(ctx, proc.Config{
		Path: path, Args: args, Dir: dir, Env: env,
		Stdin:  strings.NewReader(req.Prompt),
		Stdout: out, Stderr: errs, Line: says.line, MaxLine: 64 << 10,
		Wall: req.Timeout, Idle: idle, Grace: a.cfg.Grace, Tag: req.Tag,
		Started: func(pid int, start int64) {
			if req.Started != nil {
				req.Started(agent.Process{PID: pid, Start: start})
			}
			says.event(agent.Event{Kind: agent.EventCommand, Text: shown, Phase: "started"})
		},
	})
	if errors.As(err, &se) {
		return agent.Result{}, startFailure(se, name)
	}
	says.flush()
	if res.PID != 0 {
		done := agent.Event{Kind: agent.EventCommand, Text: shown, Phase: "completed"}
		if res.Signal != 0 || res.Reason != "" {
			done.Phase = "failed"
		}
		if res.Exit >= 0 {
			done.Exit = &res.Exit
		}
		says.event(done)
	}
	if says.err != nil {
		return agent.Result{}, says.err
	}
	if err != nil {
		return agent.Result{}, fmt.Errorf("run command %s: %w", name, err)
	}
	return a.result(res, out, last, limits{wall: req.Timeout, idle: idle}, enforced)
}

// unconfined is the sandbox of a program that has none.
const unconfined = "none"

// confine returns the variables to set, what makes the command line, and what is enforced.
func (a *Agent) confine(req agent.Request, dir string) (set map[string]string,
	around func(path string, args []string) (string, []string), enforced string, err error) {
	if a.cfg.Host == nil {
		return a.cfg.Env, func(path string, args []string) (string, []string) {
			return req.CommandLine(path, args, agent.Needs{})
		}, unconfined, nil
	}
	s, err := a.cfg.Host.Setup(req, a.cfg.Command[0], a.cfg.Terms, nil, sandbox.Use{Alone: true})
	if err != nil {
		return nil, nil, "", err
	}
	maps.Copy(s.Vars, a.cfg.Env)
	enforced = unconfined
	if s.Sandbox.Enforced {
		enforced = s.Sandbox.String()
	}
	return s.Vars, func(path string, args []string) (string, []string) {
		return s.Sandbox.Around(dir, path, args)
	}, enforced, nil
}

// dir returns the working directory. It refuses a link that leads out of the
// tree.
func (a *Agent) dir(req agent.Request) (string, error) {
	if a.cfg.Dir == "" || a.cfg.Dir == "." {
		return req.Dir, nil
	}
	dir := filepath.Join(req.Dir, a.cfg.Dir)
	root, err := filepath.EvalSymlinks(req.Dir)
	if err != nil {
		return dir, nil // gone: the error of starting explains it better
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return dir, nil
	}
	if rel, err := filepath.Rel(root, real); err != nil || !filepath.IsLocal(rel) {
		return "", &agent.Failure{Kind: agent.Infra, Final: true,
			Message: fmt.Sprintf("dir %q is a link that leaves the working tree: point the command's dir at a "+
				"directory inside it", a.cfg.Dir)}
	}
	return real, nil
}
