// Package proc runs a child process within limits and makes sure that it ends.
//
// A Config gives the program, its whole environment, the writers for its output,
// and its limits. A Result says how the child ended and why.
// Laws:
//
//   - No shell, and nothing inherited: argv, environment and directory are what
//     the Config says, and only its streams are open. The child gets its own session, and so its own process
//     group: it cannot ask for a password on the user's terminal.
//   - Every byte reaches the writers unchanged before it is examined.
//   - Both outputs are always read, so a child never blocks on a full pipe
//     because we stopped reading, and a grandchild that keeps a pipe open never
//     blocks Run.
//   - When Run returns, the child and its descendants are gone, even if the
//     child ended by itself. Those that remain first get a short time to end,
//     then SIGTERM, then SIGKILL.
//   - A process is signaled only while its id cannot have been given to
//     another: the leader is reaped last, others are held by a pidfd and
//     compared by their start time.
//
// On Linux a process belongs to the run if one of these holds: it is in the
// leader's session or group; its parent or its session's leader belongs to the
// run; it was seen to belong to it before; its environment has PLAIT_TAG with the
// run's tag; it has the run's mark. The mark is a resource limit that the kernel
// no longer enforces, set to a number derived from the tag: unlike the tag it
// survives a cleared environment as well as fork, exec and setsid, and only root
// can raise it again. So a daemon that did all of these is found, by Run and,
// after a crash of Plait, by Sweep in another process.
//
// What cannot be guaranteed:
//
//   - A process that removes the tag and lowers (as root: raises) its own
//     limits on purpose, leaves its session, and loses its parent before it was
//     first seen, is not found. Stopping such a process takes a sandbox.
//   - The mark is set before the program runs, unless the program is setuid or
//     the kernel does not let us trace children. Then it is set right after, and
//     a daemon that was faster and also cleared its environment is not found.
//   - A process started for us by another (a daemon asked through a socket, cron,
//     systemd-run, docker) is not a descendant and is not found.
//   - A process that runs as another user (sudo) or sleeps uninterruptibly in
//     the kernel cannot be killed. Result.Left lists those.
//   - Without BecomeSubreaper orphans are reaped by init. They are found and
//     killed all the same.
//   - If Plait itself is killed, its agents live on until Sweep.
//   - Outside Linux only the process group is known.
//
// The package knows nothing of agents and stores nothing on disk. A tag belongs to
// one Run at a time: the end of a run ends every process that has its tag.
package proc

import (
	"context"
	"fmt"
	"io"
	"syscall"
	"time"
)

// Defaults of a Config's zero fields.
const (
	DefaultMaxLine  = 16 << 20  // bytes
	DefaultMaxBytes = 256 << 20 // bytes per stream
	DefaultGrace    = 2 * time.Second
)

// A Config describes one child process.
type Config struct {
	// Path is the program: a path, relative to Dir, or a name that is looked up
	// in the PATH of Env.
	Path string
	Args []string // arguments after the program's name
	Dir  string   // working directory, absolute
	Env  []string // the whole environment as KEY=value; nil means empty

	// Stdin is copied to the child, then the child's stdin is closed. Nil means
	// /dev/null. If it is also an io.Closer, Run closes it once the child has
	// ended, to release a blocked Read.
	Stdin io.Reader

	// Stdout and Stderr receive every byte, at most MaxBytes each. Nil discards
	// them. If they are the same writer, no two goroutines write to it at once. An error
	// stops the child and is returned by Run.
	Stdout, Stderr io.Writer

	// Line, if set, is called from one goroutine with each line of stdout, without
	// its newline, after Stdout received it. A line is cut if it is longer than
	// MaxLine or if MaxBytes ended it; then cut is true and the rest of the line is
	// not passed to Line. Line must not retain the slice. An error stops the child,
	// is returned by Run, and ends the calls. Line must return when the context
	// of Run ends.
	Line func(line []byte, cut bool) error

	MaxLine  int   // bytes; 0 means DefaultMaxLine
	MaxBytes int64 // bytes per stream; 0 means DefaultMaxBytes; more stops the child

	Wall  time.Duration // wall time; 0: no limit
	Idle  time.Duration // time without a byte on stdout or stderr; 0: no limit
	Grace time.Duration // between two steps of the stop ladder; 0 means DefaultGrace

	// Signals are sent in turn before SIGKILL, each Grace after the previous one.
	// Nil means SIGINT, SIGTERM.
	Signals []syscall.Signal

	// Tag identifies the run's processes later. It should also be in Env as
	// PLAIT_TAG, which Environ does. If empty, a random one is used, for the mark only.
	Tag string

	// Started is called once the child is running, before anything is read from it.
	Started func(pid int, start int64)
}

// A Reason says why a child was stopped.
type Reason string

// The reasons. A child that ended by itself has none.
const (
	Cancelled Reason = "cancelled"  // the context ended
	WallTime  Reason = "wall"       // Config.Wall passed
	IdleTime  Reason = "idle"       // Config.Idle passed without a byte
	Capped    Reason = "capped"     // a stream exceeded Config.MaxBytes
	LineError Reason = "line error" // Config.Line returned an error
	IOError   Reason = "io error"   // Stdin could not be read, or Stdout or Stderr could not be written
)

// A Result says how a child ended.
type Result struct {
	PID    int
	Exit   int            // exit code, -1 when a signal ended it or it never ran
	Signal syscall.Signal // the signal that ended it, or 0
	Reason Reason         // why it was stopped, "" if it ended by itself
	Swept  int            // processes besides the child that had to be signaled
	Left   []int          // processes that could not be ended, normally none
}

// A StartError reports that the child could not be started. Err matches
// fs.ErrNotExist or fs.ErrPermission when that is the cause.
type StartError struct {
	Path string // as in Config
	Dir  string // set if the working directory is the cause
	Err  error
}

func (e *StartError) Error() string {
	if e.Dir != "" {
		return fmt.Sprintf("start %s in %s: %v", e.Path, e.Dir, e.Err)
	}
	return fmt.Sprintf("start %s: %v", e.Path, e.Err)
}

func (e *StartError) Unwrap() error { return e.Err }

// Run starts a child, feeds its stdin, reads its output and ends it. It returns when
// the child and all its known descendants are gone. An error is a *StartError, what
// Line returned, or an error of Stdin, Stdout or Stderr; the Result is filled in
// as far as the child got. A child that fails or is stopped is not an error.
func Run(ctx context.Context, cfg Config) (Result, error) {
	if ctx.Err() != nil {
		return Result{Exit: -1, Reason: Cancelled}, nil
	}
	if cfg.MaxLine <= 0 {
		cfg.MaxLine = DefaultMaxLine
	}
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = DefaultMaxBytes
	}
	if cfg.Grace <= 0 {
		cfg.Grace = DefaultGrace
	}
	if cfg.Signals == nil {
		cfg.Signals = []syscall.Signal{syscall.SIGINT, syscall.SIGTERM}
	}
	r, err := start(cfg)
	if err != nil {
		return Result{Exit: -1}, err
	}
	return r.run(ctx)
}
