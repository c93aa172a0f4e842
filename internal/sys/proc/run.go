package proc

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// settleTime is how long processes that a child left behind may take to end by
	// themselves, so that the last writer of a pipeline can still write.
	settleTime = 100 * time.Millisecond
	// killGrace is the time between SIGTERM and SIGKILL for processes that are left,
	// unless Grace is shorter.
	killGrace = 500 * time.Millisecond
	// killWait is how long a killed process may take to vanish.
	killWait = 5 * time.Second
	// quietTime is how long a pipe that an unknown process holds open may be silent
	// before it counts as finished.
	quietTime = 200 * time.Millisecond
	// maxPipe is what a pipe holds at most, in bytes, if nobody with privileges made it larger: pipe(7).
	maxPipe = 1 << 20
)

// A running is a started child. Its fields are owned by the goroutine that runs
// run, unless noted otherwise.
type running struct {
	cfg         Config
	child       *os.Process
	descendants *descendants
	exited      chan struct{}    // closed when the leader has ended; on Linux it is not reaped yet
	state       *os.ProcessState // readable after exited, if await reaped it

	stdin          *os.File // our ends of the pipes; stdin is nil without Config.Stdin
	stdout, stderr *stream
	fed            chan struct{} // closed when the stdin goroutine is done
	full           atomic.Bool   // the child has ended: no more stdin is needed

	stop   chan cause   // the first cause to stop, from any goroutine
	active atomic.Int64 // when a byte last came or a callback last ended, ns since epoch
	busy   atomic.Int32 // callbacks that are running
	epoch  time.Time
}

// A cause is why a child must be stopped.
type cause struct {
	reason Reason
	err    error
}

// start starts the child with pipes that we create, so that waiting for it never
// waits for other processes that hold them.
func start(cfg Config) (*running, error) {
	path, err := Lookup(cfg.Path, cfg.Dir, cfg.Env)
	if err != nil {
		return nil, err
	}
	var opened []*os.File
	closeAll := func() {
		for _, f := range opened {
			f.Close()
		}
	}
	pipe := func() (r, w *os.File, err error) {
		if r, w, err = os.Pipe(); err == nil {
			opened = append(opened, r, w)
		}
		return r, w, err
	}
	outR, outW, err1 := pipe()
	errR, errW, err2 := pipe()
	var inR, inW *os.File
	var err3 error
	if cfg.Stdin != nil {
		inR, inW, err3 = pipe()
	} else {
		inR, err3 = os.Open(os.DevNull)
		if err3 == nil {
			opened = append(opened, inR)
		}
	}
	if err := errors.Join(err1, err2, err3); err != nil {
		closeAll()
		return nil, &StartError{Path: cfg.Path, Err: err}
	}
	env := cfg.Env
	if env == nil {
		env = []string{} // nil would inherit ours
	}
	mark := cfg.Tag
	if mark == "" {
		mark = rand.Text()
	}
	closeInherited()
	child, err := launch(path, append([]string{cfg.Path}, cfg.Args...), &os.ProcAttr{
		Dir:   cfg.Dir,
		Env:   env,
		Files: []*os.File{inR, outW, errW},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	}, markOf(mark))
	if err != nil {
		closeAll()
		return nil, &StartError{Path: cfg.Path, Err: err}
	}
	r := &running{
		cfg: cfg, child: child, descendants: newDescendants(child.Pid, cfg.Tag, markOf(mark)),
		exited: make(chan struct{}), fed: make(chan struct{}),
		stdin: inW, stop: make(chan cause, 1), epoch: time.Now(),
	}
	for _, f := range []*os.File{inR, outW, errW} {
		f.Close()
	}
	out, errs := cfg.Stdout, cfg.Stderr
	if out != nil && reflect.ValueOf(out).Comparable() && out == errs {
		out = &oneWriter{to: out}
		errs = out
	}
	r.stdout = &stream{r: r, name: "stdout", pipe: outR, to: out, line: cfg.Line, done: make(chan struct{})}
	r.stderr = &stream{r: r, name: "stderr", pipe: errR, to: errs, done: make(chan struct{})}
	return r, nil
}

// A oneWriter lets one goroutine write at a time.
type oneWriter struct {
	mu sync.Mutex
	to io.Writer
}

func (w *oneWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}

// run runs the child until it ends.
func (r *running) run(ctx context.Context) (Result, error) {
	go func() {
		r.state = await(r.child)
		close(r.exited)
	}()
	if r.cfg.Started != nil {
		r.cfg.Started(r.child.Pid, r.descendants.start)
	}
	go r.stdout.read()
	go r.stderr.read()
	go r.feed()

	why := r.watch(ctx)
	gone := true
	if why.reason != "" {
		gone = r.terminate()
	}
	res := Result{PID: r.child.Pid, Exit: -1}
	res.Swept, res.Left = r.descendants.end(settleTime, min(killGrace, r.cfg.Grace))
	r.stdout.finish()
	r.stderr.finish()
	r.stopFeeding()

	if gone {
		if state := reap(r.child, r.state); state != nil {
			if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
				res.Signal = ws.Signal()
			} else {
				res.Exit = state.ExitCode()
			}
		}
	} else {
		res.Left = append(res.Left, r.child.Pid)
	}
	if why.reason == "" {
		// The last bytes may have been read only now.
		select {
		case why = <-r.stop:
		default:
		}
	}
	res.Reason = why.reason
	return res, why.err
}

// watch waits until the leader has ended or must be stopped.
func (r *running) watch(ctx context.Context) cause {
	var wall, idle <-chan time.Time
	if r.cfg.Wall > 0 {
		t := time.NewTimer(r.cfg.Wall)
		defer t.Stop()
		wall = t.C
	}
	var idler *time.Timer
	if r.cfg.Idle > 0 {
		idler = time.NewTimer(r.cfg.Idle)
		defer idler.Stop()
		idle = idler.C
	}
	for {
		select {
		case <-r.exited:
			return cause{}
		case why := <-r.stop:
			return why
		case <-ctx.Done():
			return cause{reason: Cancelled}
		case <-wall:
			return cause{reason: WallTime}
		case <-idle:
			// Time spent in a callback does not count as idle.
			left := r.cfg.Idle - (time.Since(r.epoch) - time.Duration(r.active.Load()))
			if r.busy.Load() > 0 {
				left = r.cfg.Idle
			}
			if left <= 0 {
				return cause{reason: IdleTime}
			}
			idler.Reset(left)
		}
	}
}

// touch records that the child was active just now.
func (r *running) touch() { r.active.Store(int64(time.Since(r.epoch))) }

// fail asks for a stop; only the first cause counts.
func (r *running) fail(reason Reason, err error) {
	select {
	case r.stop <- cause{reason, err}:
	default:
	}
}

// terminate sends the group the configured signals and finally SIGKILL, and reports
// whether the leader has ended.
func (r *running) terminate() bool {
	// Before the first signal, descendants can still be found by their parents.
	r.descendants.find()
	for _, sig := range r.cfg.Signals {
		r.descendants.signal(sig)
		if r.endsWithin(r.cfg.Grace) {
			return true
		}
		r.descendants.find()
	}
	r.descendants.signal(syscall.SIGKILL)
	return r.endsWithin(killWait)
}

// endsWithin reports whether the leader ends within d.
func (r *running) endsWithin(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-r.exited:
		return true
	case <-t.C:
		return false
	}
}

// feed copies stdin to the child. The child need not read all of it, but an error
// reading Config.Stdin fails the run.
func (r *running) feed() {
	defer close(r.fed)
	if r.stdin == nil {
		return
	}
	defer r.stdin.Close()
	from := &source{r: r.cfg.Stdin}
	if _, err := io.Copy(r.stdin, from); err != nil && from.err != nil && !r.full.Load() {
		r.fail(IOError, fmt.Errorf("read stdin for %s: %w", r.cfg.Path, from.err))
	}
}

// stopFeeding ends the stdin goroutine. A Read that cannot be released is abandoned
// after killWait.
func (r *running) stopFeeding() {
	if r.stdin == nil {
		return
	}
	r.full.Store(true)
	r.stdin.Close()
	if c, ok := r.cfg.Stdin.(io.Closer); ok {
		c.Close()
	}
	t := time.NewTimer(killWait)
	defer t.Stop()
	select {
	case <-r.fed:
	case <-t.C:
	}
}

// A source keeps the read error, to tell it from a write error.
type source struct {
	r   io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}
