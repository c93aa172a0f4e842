package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/record/store"
)

// forksAndCalls measures fork+join and a call, relative to steps of one thread in
// between.
func (b *bench) forksAndCalls(ctx context.Context) error {
	const paths, each = 8, 5
	var turns []turn
	for range 8 * b.rounds {
		turns = append(turns, turn{"step", "steps", paths * each}, turn{"fork", "fork", 1}, turn{"step", "step", 5}, turn{"call", "call", 1})
	}
	p := &player{turns: turns, paths: paths, each: each}
	if err := b.play(ctx, p); err != nil {
		return err
	}
	// A turn ends with the step that requests the next one: the difference is the fork's own.
	step, steps, fork, call := p.median("step"), p.median("steps"), p.median("fork"), p.median("call")
	both, called := fork.ms-steps.ms, call.ms-step.ms
	row("whole engine steps, 40 in a row between the forks below", goal{}, "%.2f ms each, %.0f steps/s", steps.ms, 1000/steps.ms)
	gain, cost := paths*each*steps.ms/both, called/step.ms
	row(fmt.Sprintf("fork+join of %d paths × %d no-op steps", paths, each), atLeast(1, gain, "× the steps/s in a row"),
		"%.1f ms, %.0f steps/s, **%.2f×** the steps/s in a row; %.0f appends of the floor",
		both, paths*each/both*1000, gain, fork.appends-steps.appends)
	row("call of a flow of one step, and its return", atMost(5, cost, " steps"), "%.2f ms, **%.2f** steps; %.1f appends of the floor",
		called, cost, call.appends-step.appends)
	return nil
}

// joinsOverTime measures fork+join at the end of ever longer threads: all their steps
// come from forks. The threads take turns, so that a busy machine is busy for all of
// them.
func (b *bench) joinsOverTime(ctx context.Context) error {
	at := []int{10, 100, 1000, 5000}
	players, over := make([]*player, len(at)), make(chan error)
	ring := newRing(len(at))
	for i, n := range at {
		var turns []turn
		for steps := 0; steps < n; steps += 3 { // the step that requests it, the main path's and the join's
			turns = append(turns, turn{"fork", "", 1})
		}
		for range 6 * b.rounds {
			turns = append(turns, turn{"step", "step", 5}, turn{"fork", "fork", 1})
		}
		players[i] = &player{turns: turns, paths: 2, each: 1, wait: ring.wait(i), pass: ring.pass(i)}
		go func() {
			err := b.play(ctx, players[i])
			ring.leave(i)
			over <- err
		}()
	}
	var err error
	for range at {
		err = errors.Join(err, <-over)
	}
	if err != nil {
		return err
	}
	var took []float64
	for i, n := range at {
		step, fork := players[i].median("step"), players[i].median("fork")
		took = append(took, fork.ms-step.ms)
		row(fmt.Sprintf("fork+join of 2 paths × 1 step after %d steps", n), goal{}, "%.2f ms, %.1f appends of the floor; a step %.2f ms",
			took[i], fork.appends-step.appends, step.ms)
	}
	growth := took[len(took)-1] / took[0]
	row("fork+join after 5,000 steps to that after 10", atMost(1.25, growth, ", flat"), "**%.2f**", growth)
	return nil
}

// forkByHand measures a fork near the end of a short and of a long thread, done as a
// command does it: nothing has been read before.
func (b *bench) forkByHand(ctx context.Context) error {
	s, dir, err := b.open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	workspace, err := os.MkdirTemp(b.dir, "workspace-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(workspace)
	const short, long = 10, 10_000
	chains := map[int]*chain{}
	for i, n := range []int{short, long} {
		c, err := newChain(ctx, s, i)
		if err != nil {
			return err
		}
		c.row.Workspace = workspace
		if err := c.grow(ctx, n); err != nil {
			return err
		}
		chains[n] = c
	}
	var ms, bytes []float64
	for _, of := range []struct{ length, at int }{{short, short - 5}, {long, long - 5}, {long, long / 2}} {
		before, err := stored(ctx, s, dir)
		if err != nil {
			return err
		}
		took, err := b.forkOften(ctx, s, chains[of.length].row.ID, of.at)
		if err != nil {
			return err
		}
		after, err := stored(ctx, s, dir)
		if err != nil {
			return err
		}
		bytes = append(bytes, float64(after-before)/float64(len(took)))
		ms = append(ms, median(took))
		row(fmt.Sprintf("manual fork at step %d of %d, nothing read before", of.at, of.length), goal{}, "%.2f ms, %.0f bytes", ms[len(ms)-1], bytes[len(bytes)-1])
	}
	longer, larger := ms[1]/ms[0], bytes[1]/bytes[0]
	row("a fork near the end: the long thread's to the short one's", atMost(1.5, max(longer, larger), ""),
		"**%.2f** in time, **%.2f** in bytes", longer, larger)
	return nil
}

// forkOften forks a thread, as a command does, for a few seconds at most, and returns
// how many milliseconds each fork took.
func (b *bench) forkOften(ctx context.Context, s store.Store, id string, at int) ([]float64, error) {
	p := &player{} // forks run no agent, but check that there is one
	var took []float64
	for first := time.Now(); len(took) < 20*b.rounds && (len(took) < 4 || time.Since(first) < 5*b.slice); {
		begin := time.Now()
		c := control.New(control.Config{Store: s, Settings: p.settings(), Agent: p.agent})
		if _, err := c.Fork(ctx, control.Fork{Thread: id, At: fmt.Sprint(at)}); err != nil {
			return nil, err
		}
		took = append(took, time.Since(begin).Seconds()*1000)
	}
	return took, nil
}
