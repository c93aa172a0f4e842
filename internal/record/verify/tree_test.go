package verify_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/engine/attempt"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/record/verify"
	"github.com/plait-run/plait/internal/testing/housetest"
	"github.com/plait-run/plait/internal/testing/mem"
)

// treeFlow forks inside a path, in a loop, and calls inside a path. %s is the rest
// of the outer join.
const treeFlow = `
version: 1
name: tree
limits: {maxRounds: 1000}
roles:
  plan: {description: plans}
  api: {description: reads}
  more: {description: reads on}
  inner-left: {description: looks}
  inner-right: {description: looks}
  sub: {flow: sub}
  ui: {description: reads}
  report: {description: reports}
forks:
  look:
    forkPaths:
      - {pathId: a, childNodeId: api, prompt: "read {{ what }}"}
      - {pathId: b, childNodeId: sub}
      - {pathId: c, childNodeId: ui}
  closer:
    forkPaths:
      - {pathId: x, childNodeId: inner-left}
      - {pathId: y, childNodeId: inner-right}
joins:
  seen: {forkPathIds: [a, b, c]%s}
  met: {forkPathIds: [x, y], joinStrategy: ANY_COMPLETED, losers: wait}
graph:
  $START: {new: {role: plan, prompt: "{{ prompt }}"}}
  plan: {ready: {role: look, prompt: "look"}}
  api: {done: {role: closer, prompt: "closer"}}
  inner-left: {done: {role: met}}
  inner-right: {done: {role: met}}
  met:
    joined: {role: more, prompt: "{{ paths.x.status }} {{ paths.y.text }} {{ decidedBy }}"}
    failed: {role: more, prompt: "neither"}
  more: {done: {role: seen}, back: {role: closer, prompt: "once more"}}
  sub: {done: {role: seen}, failed: {role: ui, prompt: "look yourself"}}
  ui: {done: {role: seen}}
  seen:
    joined: {role: report, prompt: "{{ paths.a.text }} {{ paths.b.status }} {{ decidedBy }}"}
    failed: {role: report, prompt: "no"}
    timeout: {role: report, prompt: "late"}
  report: {done: {role: $END, prompt: "over"}, again: {role: look, prompt: "again"}}
`

const subFlow = `
version: 1
name: sub
roles:
  first: {description: begins}
  leaf:
    flow: leaf
    frontmatter:
      oneOf:
        - {properties: {$status: {const: found}, n: {type: integer}}, required: [$status, n]}
        - {properties: {$status: {const: failed}}, required: [$status]}
graph:
  $START: {new: {role: first, prompt: "{{ prompt }}"}}
  first: {done: {role: leaf, prompt: "deep: {{ _body }}"}}
  leaf: {found: {role: $END, prompt: "found {{ n }}"}, failed: {role: $END, code: 1, prompt: "lost"}}
`

const leafFlow = `
version: 1
name: leaf
roles:
  dig: {description: digs}
graph:
  $START: {new: {role: dig, prompt: "{{ prompt }}"}}
  dig: {found: {role: $END, prompt: "dug"}, lost: {role: $END, code: 1, prompt: "nothing"}}
`

// A grove grows trees of threads with a real engine and scripted agents.
type grove struct {
	*world
	mem     *mem.Store
	engine  *engine.Engine
	answers map[string][]string // by role, in order, then the last one repeatedly; "" fails
	said    map[string]int
	held    map[string]int // by path: how many steps it takes before it hangs
	prompt  string
	late    bool // when the paths stop, time is up for every undecided join
}

func newGrove(t tester, flows ...string) *grove {
	w, s := memWorld(t)
	g := &grove{
		world: w, mem: s, answers: map[string][]string{}, said: map[string]int{}, held: map[string]int{},
		prompt: "do it",
	}
	w.bundle = housetest.Bundle(t, flows...)
	g.restart()
	return g
}

// restart makes a new engine, which remembers nothing.
func (g *grove) restart() {
	g.engine = engine.New(engine.Config{
		Store: g.s, Reader: thread.NewReader(g.s), Backoff: time.Microsecond,
		Desks: housetest.BareDesks{},
		Agents: attempt.Agents{
			Defined: map[string]flow.Agent{"scripted": {Kind: "scripted"}}, Default: "scripted",
			Make: func(string, flow.Agent, attempt.AgentOptions) (agent.Agent, error) {
				return housetest.Role(g.play), nil
			},
		},
		Now: func() time.Time { return time.UnixMilli(g.now()) },
	})
}

func (g *grove) answer(role string) string {
	all := g.answers[role]
	if len(all) == 0 {
		return map[string]string{
			"plan": `{"$status":"ready","what":"the API"}`, "dig": "---\n$status: found\nn: 7\n---\nGold.",
		}[role] + map[bool]string{true: "---\n$status: done\n---\nSaid by " + role + "."}[role != "plan" && role != "dig"]
	}
	n := g.said[role]
	g.said[role]++
	return all[min(n, len(all)-1)]
}

func (g *grove) play(_ context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
	text := g.answer(req.Role)
	if text == "" {
		return agent.Result{}, &agent.Failure{Kind: agent.Refused, Message: "no"}
	}
	return housetest.Answer(req, emit, text)
}

// plant begins a thread that no process has taken up yet.
func (g *grove) plant() store.Thread {
	g.Helper()
	row := store.Thread{ID: fmt.Sprintf("01JD%022d", g.now()), CreatedAt: g.now(), Workspace: "/w"}
	return housetest.Begin(ctx, g, g.s, row, g.bundle, g.prompt)
}

func (g *grove) row(id string) store.Thread {
	g.Helper()
	row, err := g.s.Thread(ctx, id)
	g.must(err)
	return row
}

// drive takes the task of a thread as far as it goes, one thread after the other, and returns the
// thread's row.
func (g *grove) drive(id string) store.Thread {
	g.Helper()
	task := g.row(id).Root
	for {
		agenda, err := g.engine.Reconcile(ctx, task)
		g.must(err)
		i := slices.IndexFunc(agenda.Drive, func(id string) bool { return !g.hangs(g.row(id)) })
		switch {
		case i >= 0:
			g.step(agenda.Drive[i])
		case g.late && agenda.RecheckAfter != 0:
			g.world.at += agenda.RecheckAfter.Milliseconds() + 1
			g.restart() // the engine reads the clock only once
		default:
			return g.row(id)
		}
	}
}

// step advances a thread until it has ended, hangs, is blocked or waits for others.
func (g *grove) step(id string) {
	g.Helper()
	for {
		row := g.row(id)
		if row.Ended() || row.Status == store.Blocked || g.hangs(row) {
			return
		}
		at, err := g.engine.Step(ctx, id, row.Head)
		g.must(err)
		if at.Waits {
			return
		}
	}
}

// hangs reports whether a path takes no further step of its own.
func (g *grove) hangs(row store.Thread) bool {
	if row.Kind != store.KindPath && row.Kind != store.KindWorker {
		return false
	}
	most, ok := g.held[row.Path.ID]
	if !ok {
		return false
	}
	own := 0
	for s, err := range g.reader.Walk(ctx, row.Head) {
		g.must(err)
		if s.Hash == row.Path.Fork {
			break
		}
		own++
	}
	return own >= most
}

// cancel ends a thread and everything below it.
func (g *grove) cancel(id string) {
	g.Helper()
	rows, err := g.s.Threads(ctx, store.ThreadFilter{})
	g.must(err)
	for _, t := range rows {
		if t.Parent != nil && t.Parent.Thread == id && !t.Ended() {
			g.cancel(t.ID)
		}
	}
	_, err = g.engine.Cancel(ctx, id)
	g.must(err)
}

// input commits what a person says to a thread, which then continues.
func (g *grove) input(row store.Thread, text string) {
	g.Helper()
	row = g.add(row, thread.Draft{Role: thread.RoleInput, Meta: thread.InputMeta("resume", ""), Text: text})
	was := row
	row.Status, row.Reason = store.Running, nil
	g.change(was, row)
	g.restart()
}

// path returns the newest thread of a path.
func (g *grove) path(id string) store.Thread {
	g.Helper()
	rows, err := g.s.Threads(ctx, store.ThreadFilter{})
	g.must(err)
	rows = slices.DeleteFunc(rows,
		func(t store.Thread) bool { return t.Path == nil || t.Kind == store.KindRoot || t.Path.ID != id })
	if len(rows) == 0 {
		g.Fatalf("there is no path %s", id)
	}
	return slices.MaxFunc(rows, func(x, y store.Thread) int { return int(x.CreatedAt - y.CreatedAt) })
}

// byHand makes a manual fork of a thread at its n-th step.
func (g *grove) byHand(row store.Thread, n int) store.Thread {
	g.Helper()
	at, number, err := g.reader.Find(ctx, row.Head, fmt.Sprint(n))
	g.must(err)
	f := thread.Fork(row, fmt.Sprintf("01JF%022d", g.now()), at, number, g.now())
	if row.Kind != store.KindWorker { // a separate thread
		f.Path = row.Path
	}
	g.commit(store.Batch{Threads: []store.ThreadChange{{Row: f}}})
	return f
}

// whole fails the test if anything in the record is found to be wrong.
func (g *grove) whole() {
	g.Helper()
	if r, err := verify.All(ctx, verify.Config{Store: g.s}); err != nil || !r.OK() {
		g.Fatalf("all: %v\n%s", err, lines(r))
	}
}

// sound also verifies every part of the record separately.
func (g *grove) sound() {
	g.Helper()
	g.whole()
	cfg := verify.Config{Store: g.s}
	rows, err := g.s.Threads(ctx, store.ThreadFilter{})
	g.must(err)
	for _, row := range rows {
		if r, err := verify.Thread(ctx, cfg, row.ID); err != nil || !r.OK() {
			g.Fatalf("thread %s: %v\n%s", row.ID, err, lines(r))
		}
		if r, err := verify.Object(ctx, cfg, row.Head); err != nil || !r.OK() {
			g.Fatalf("head of %s: %v\n%s", row.ID, err, lines(r))
		}
	}
}

func lines(r verify.Report) string {
	var b strings.Builder
	for _, p := range r.Problems {
		fmt.Fprintf(&b, "  %s %s\n", p.Hash.Short(), p.What)
	}
	return b.String()
}

func ended(t tester, row store.Thread, status store.Status) {
	t.Helper()
	if row.Status != status {
		t.Fatalf("thread %s is %s (%+v), want %s", row.ID, row.Status, row.Reason, status)
	}
}
