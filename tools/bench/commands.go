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

// A program is plait as users run it, with its own home and workspace.
type program struct{ path, home, workspace string }

// commands measures the processor time of commands, including the processes they start.
func (b *bench) commands(ctx context.Context) error {
	p := program{filepath.Join(b.dir, "plait"), filepath.Join(b.dir, "home"), filepath.Join(b.dir, "work")}
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", p.path, "./cmd/plait")
	build.Env, build.Stderr = append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build plait: %w", err)
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
		most   float64 // ms of CPU
		why    string
		others int
		args   []string
	}{
		{"`plait version`", 10, "half are initialisers of libraries, which nothing can put off", 0, []string{"version"}},
		{"`plait run` of one step by a program", 36, processorBound, 0, run},
		{fmt.Sprintf("the same among %d threads of its flow", others), 45, processorBound, others, run},
	} {
		if err := p.fill(ctx, at.others); err != nil {
			return err
		}
		var used []float64
		for range 5 * b.rounds {
			c := p.command(ctx, at.args...)
			var said bytes.Buffer
			c.Stderr = &said
			if err := c.Run(); err != nil {
				return fmt.Errorf("%s: %w: %s", at.what, err, said.Bytes())
			}
			used = append(used, processorOf(c).Seconds()*1000)
		}
		ms := median(used)
		row(at.what, atMost(at.most, ms, " ms of CPU").unless(at.why), "%.1f ms of CPU", ms)
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
	var b store.Batch
	for i := range n {
		t := rows[0]
		t.ID, t.Short = fmt.Sprintf("01M0%022d", i), ""
		t.Task, t.Root = t.ID, t.ID
		b.Threads = append(b.Threads, store.ThreadChange{Row: t})
	}
	return s.Commit(ctx, b)
}
