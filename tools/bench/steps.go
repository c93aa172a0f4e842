package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/flow/parse"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// text returns what each step of the benchmarks says: 2 KB, different each time.
func text(n int) string {
	return fmt.Sprintf("%08d ", n) + strings.Repeat("the quick brown fox jumps over the lazy dog ", 47)[:2039]
}

// encoding compares encoding and hashing a state of 2 KB with hashing it alone.
func (b *bench) encoding(context.Context) error {
	s := thread.State{Role: "worker", Meta: json.RawMessage(`{"$status":"done","note":"` + strings.Repeat("x", 1000) + `"}`),
		Start: dag.Sum([]byte("s")), Content: dag.Sum([]byte("c")), Detail: dag.Sum([]byte("d")), Timestamp: 1_700_000_000_000}
	for i := range thread.Window {
		s.Ancestors = append(s.Ancestors, dag.Sum([]byte{byte(i)}))
	}
	data, err := dag.Encode(dag.TypeState, s)
	if err != nil {
		return err
	}
	const times = 20_000
	best := func(do func()) time.Duration {
		least := time.Hour
		for range 7 {
			begin := time.Now()
			for range times {
				do()
			}
			least = min(least, time.Since(begin))
		}
		return least / times
	}
	hash := best(func() { dag.Sum(data) })
	both := best(func() {
		data, _ := dag.Encode(dag.TypeState, s)
		dag.Sum(data)
	})
	ratio := float64(both) / float64(hash)
	row(fmt.Sprintf("encode and hash a state of %d bytes", len(data)), goal{},
		"%v, %.2f× of hashing alone (%v)", both, ratio, hash)
	return nil
}

const benchFlow = `
version: 1
name: bench
limits: {maxRounds: 100000000}
roles:
  work: {description: works}
graph:
  $START: {new: {role: work, prompt: "{{ prompt }}"}}
  work: {done: {role: work, prompt: "on"}, over: {role: $END}}
`

// How many tokens of the conversation an agent is given: a flow's default, and so few that a step's
// stored prompt is about as long as the step.
const (
	usual  = 32_000
	little = 1000
)

// begin makes a thread of the benchmark's flow, whose roles are given that many tokens of
// the conversation.
func begin(ctx context.Context, s store.Store, n, tokens int) (store.Thread, error) {
	def, problems := parse.Parse(nil, "bench.yaml", []byte(benchFlow))
	if def == nil {
		return store.Thread{}, fmt.Errorf("bench flow: %v", problems)
	}
	def.Context.Tokens = tokens
	raw, err := json.Marshal(def)
	if err != nil {
		return store.Thread{}, err
	}
	objects, t, err := thread.Begin(thread.NewTask{
		Row:    store.Thread{ID: fmt.Sprintf("01J%023d", n), Workspace: "/bench", CreatedAt: 1},
		Bundle: thread.Bundle{Name: "bench", Flows: map[string]json.RawMessage{"bench": raw}}, Prompt: "go",
	})
	if err != nil {
		return t, err
	}
	return t, s.Commit(ctx, store.Batch{Objects: objects, Threads: []store.ThreadChange{{Row: t}}})
}

// A chain appends steps to one thread, one batch each.
type chain struct {
	s   store.Store
	row store.Thread
	tip thread.Tip
	n   int
}

func newChain(ctx context.Context, s store.Store, n int) (*chain, error) {
	t, err := begin(ctx, s, n, little)
	if err != nil {
		return nil, err
	}
	tip, err := thread.NewReader(s).Tip(ctx, t.Head)
	return &chain{s: s, row: t, tip: tip, n: n * 1_000_000}, err
}

// draft makes the next step without committing it.
func (c *chain) draft() (store.Batch, error) {
	c.n++
	from := c.row.State()
	ch, err := thread.Append(c.row, c.tip, thread.Draft{Role: "work", Meta: json.RawMessage(`{"$status":"done"}`), Text: text(c.n), At: int64(c.n)})
	if err != nil {
		return store.Batch{}, err
	}
	ch.Row.Status = store.Running
	c.row, c.tip = ch.Row, ch.Tip
	return store.Batch{
		Objects: ch.Objects, Threads: []store.ThreadChange{{Row: ch.Row, From: from}},
		Events: []store.Event{{TS: int64(c.n), Type: event.Type(event.AttemptCompleted{}), Task: c.row.ID, Thread: c.row.ID, Payload: []byte(`{"role":"work","status":"done"}`)}},
	}, nil
}

func (c *chain) step(ctx context.Context) error {
	batch, err := c.draft()
	if err != nil {
		return err
	}
	return c.s.Commit(ctx, batch)
}

// commits measures durable step commits: content, state, row and event.
func (b *bench) commits(ctx context.Context) error {
	for _, at := range []struct {
		writers int
		least   float64
		why     string
	}{
		{1, 0.9, "a commit writes about eight pages of 8 KB and the floor 3 KB: how much that counts depends on the disk"},
		{64, 0.37, "one connection writes, and its processor is busy: rows and pages cost more than the floor's one write"},
	} {
		name := fmt.Sprintf("durable step commits, %d threads", at.writers)
		if !b.rows.MatchString(name) {
			continue
		}
		s, _, err := b.open(ctx)
		if err != nil {
			return err
		}
		chains := make([]*chain, at.writers)
		for i := range chains {
			if chains[i], err = newChain(ctx, s, i); err != nil {
				return err
			}
		}
		got, err := b.against(at.writers, func(w int) error { return chains[w].step(ctx) })
		if err != nil {
			return err
		}
		row(fmt.Sprintf("raw floor, append 3 KB + fdatasync, %d at once", at.writers), goal{}, "%.0f/s", got.floor)
		row(name, atLeast(at.least, got.ratio, "").unless(at.why), "**%.2f** of the floor (%.0f/s, %.0f µs of CPU each)", got.ratio, got.perSecond, got.cpu)
		if err := s.Close(); err != nil {
			return err
		}
	}
	return nil
}

// noop is an agent in this process that immediately says 2 KB.
type noop struct{}

func (noop) Run(context.Context, agent.Request, func(agent.Event) error) (agent.Result, error) {
	return agent.Result{Output: []byte("---\n$status: done\n---\n" + text(0)), Sandbox: "none"}, nil
}

// engineSteps measures whole steps: decide, attempt, run, extract, commit.
func (b *bench) engineSteps(ctx context.Context) error {
	for _, at := range []struct {
		threads, tokens int
		least           float64 // 0: no goal
		why             string
	}{
		{1, usual, 0.35, "a step writes four times what the floor does, and assembles and hashes a prompt of 128 KB"}, {64, usual, 0, ""},
		{1, little, 0.6, "a step writes four times what the floor does, and half of it is writing and syncing"},
		{64, little, 0.12, "both cores are busy, and a step writes four times what the floor does"},
	} {
		name := fmt.Sprintf("whole engine steps, no-op agent, context of %d tokens, %d threads", at.tokens, at.threads)
		if !b.rows.MatchString(name) {
			continue
		}
		got, err := b.rawSteps(ctx, at.threads, at.tokens)
		if err != nil {
			return err
		}
		var reach goal
		if at.least > 0 {
			reach = atLeast(at.least, got.ratio, "").unless(at.why)
		}
		row(name, reach, "**%.2f** of the floor (%.0f/s, %.0f µs of CPU each)", got.ratio, got.perSecond, got.cpu)
	}
	return nil
}

// rawSteps measures whole steps of threads by the engine alone, against the floor.
func (b *bench) rawSteps(ctx context.Context, threads, tokens int) (speed, error) {
	s, _, err := b.open(ctx)
	if err != nil {
		return speed{}, err
	}
	defer s.Close()
	e := newEngine(s, noop{})
	rows := make([]store.Thread, threads)
	for i := range rows {
		if rows[i], err = begin(ctx, s, i, tokens); err != nil {
			return speed{}, err
		}
	}
	return b.against(threads, func(w int) error {
		next, err := e.Step(ctx, rows[w].ID, rows[w].Head)
		if err == nil && next.Head == rows[w].Head {
			err = fmt.Errorf("thread %s stands still: %s %+v", next.ID, next.Status, next.Reason)
		}
		rows[w] = next.Thread
		return err
	})
}
