package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/store/sqlite"
)

// Flows with one program: it answers, or it asks first.
const (
	echoFlow = `version: 1
name: echo
roles: {say: {agent: {kind: command, command: [echo, hello]}}}
graph: {$START: {new: {role: say, prompt: "{{ prompt }}"}}, say: {done: {role: $END}}}
`
	askFlow = `version: 1
name: ask
roles: {say: {agent: {kind: command, command: [printf, '---\n$status: $SUSPEND\nreason: which?\n---\n']}}}
graph: {$START: {new: {role: say, prompt: "{{ prompt }}"}}, say: {done: {role: $END}}}
`
)

// startBound is why a run of one step misses its goal.
const startBound = "a third is the start of `plait`, the rest opens the record and makes and draws the task's directory"

// A program is plait as users run it, with its own home and workspace.
type program struct{ path, home, workspace string }

// emptyProgram does nothing: what it takes is the start of a Go program.
const emptyProgram = "package main\n\nfunc main() {}\n"

// commands measures the processor time of commands, including the processes they start, relative to that of an empty
// program.
func (b *bench) commands(ctx context.Context) error {
	p := program{filepath.Join(b.dir, "plait"), filepath.Join(b.dir, "home"), filepath.Join(b.dir, "work")}
	empty := program{filepath.Join(b.dir, "empty"), p.home, p.workspace}
	if err := os.WriteFile(empty.path+".go", []byte(emptyProgram), 0o644); err != nil {
		return err
	}
	for path, source := range map[string]string{p.path: "./cmd/plait", empty.path: empty.path + ".go"} {
		build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, source)
		build.Env, build.Stderr = append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("build %s: %w", source, err)
		}
	}
	if err := os.Mkdir(p.workspace, 0o755); err != nil {
		return err
	}
	for name, text := range map[string]string{"echo.yaml": echoFlow, "ask.yaml": askFlow} {
		if err := os.WriteFile(filepath.Join(p.workspace, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	run := []string{"run", "./echo.yaml", "-p", "x", "-q"}
	wait := []string{"run", "./ask.yaml", "-p", "x", "--wait"}
	const others = 10_000
	for _, at := range []struct {
		what   string
		most   float64 // empty programs
		why    string
		others int
		args   []string
	}{
		{"`plait version`", 4, "it is initializers of libraries, and page faults of a large program", 0, []string{"version"}},
		{"`plait run` of one step by a program", 8, startBound, 0, run},
		{fmt.Sprintf("the same among %d threads of its flow", others), 8, startBound, others, run},
	} {
		if err := p.fill(ctx, at.others); err != nil {
			return err
		}
		var used, floor []float64
		for range 5 * b.rounds {
			for _, one := range []struct {
				command *exec.Cmd
				used    *[]float64
			}{{empty.command(ctx), &floor}, {p.command(ctx, at.args...), &used}} {
				var said bytes.Buffer
				one.command.Stderr = &said
				if err := one.command.Run(); err != nil {
					return fmt.Errorf("%s: %w: %s", at.what, err, said.Bytes())
				}
				*one.used = append(*one.used, processorOf(one.command).Seconds()*1000)
			}
		}
		ms, times := median(used), median(used)/median(floor)
		row(at.what, atMost(at.most, times, " empty programs").unless(at.why), "%.1f ms of CPU, **%.1f** empty programs",
			ms, times)
	}
	for _, at := range []struct {
		what string
		most float64 // % of a core
		args []string
	}{
		{"idle `plait ui`", 0.1, []string{"ui"}},
		{"`plait run --wait` that waits for an answer", 0.3, wait},
	} {
		const settled, idle = 4 * time.Second, 16 * time.Second
		begun, err := p.stopped(ctx, settled, at.args)
		if err != nil {
			return err
		}
		all, err := p.stopped(ctx, settled+idle, at.args)
		if err != nil {
			return err
		}
		part := 100 * (all - begun).Seconds() / idle.Seconds()
		row(at.what, atMost(at.most, part, " % of a core"), "%.2f %% of a core", part)
	}
	return nil
}

func (p program) command(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, p.path, args...)
	c.Dir = p.workspace
	c.Env = append(os.Environ(), "PLAIT_HOME="+p.home)
	return c
}

// stopped returns the processor time that a command that does not end by itself has used after a while.
func (p program) stopped(ctx context.Context, after time.Duration, args []string) (time.Duration, error) {
	c := p.command(ctx, args...)
	if err := c.Start(); err != nil {
		return 0, err
	}
	time.Sleep(after)
	if err := c.Process.Signal(os.Interrupt); err != nil {
		return 0, fmt.Errorf("%s ended by itself: %w", args[0], err)
	}
	c.Wait() // its error is the interrupt
	return processorOf(c), nil
}

func processorOf(c *exec.Cmd) time.Duration {
	return c.ProcessState.UserTime() + c.ProcessState.SystemTime()
}

// fill adds copies of an ended thread to the record.
func (p program) fill(ctx context.Context, n int) error {
	if n == 0 {
		return nil
	}
	s, err := sqlite.Open(ctx, sqlite.Config{Dir: p.home})
	if err != nil {
		return err
	}
	defer s.Close()
	rows, err := s.Threads(ctx, store.ThreadFilter{Kind: store.KindRoot, Limit: 1})
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return errors.New("the record has no thread to copy")
	}
	return copies(ctx, s, rows[0], 0, n)
}

// copies adds copies of an ended thread to a record, numbered from one number up to another.
func copies(ctx context.Context, s store.Store, row store.Thread, from, to int) error {
	var b store.Batch
	for i := from; i < to; i++ {
		t := row
		t.ID, t.Short = fmt.Sprintf("01M0%022d", i), ""
		t.Task, t.Root = t.ID, t.ID
		b.Threads = append(b.Threads, store.ThreadChange{Row: t})
	}
	return s.Commit(ctx, b)
}
