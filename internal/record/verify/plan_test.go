package verify_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// goalFlow plans, and continues with a call.
const goalFlow = `
version: 1
name: goal
limits: {maxRounds: 1000}
roles:
  boss: {plan: true}
  tell: {flow: leaf}
  last: {description: ends}
graph:
  $START: {new: {role: boss, prompt: "{{ prompt }}"}}
  boss: {finished: {role: tell, prompt: "{{ summary }} {{ report }} {{ paths }}"}}
  tell: {done: {role: last, prompt: on}}
  last: {done: {role: $END, prompt: over}}
`

// pathFlow plans in a path of a fork.
const pathFlow = `
version: 1
name: path
limits: {maxRounds: 1000}
roles:
  first: {description: begins}
  boss: {plan: true}
  side: {description: looks}
  last: {description: ends}
forks:
  both:
    forkPaths:
      - {pathId: left, childNodeId: boss}
      - {pathId: right, childNodeId: side}
joins:
  met: {forkPathIds: [left, right]}
graph:
  $START: {new: {role: first, prompt: "{{ prompt }}"}}
  first: {done: {role: both, prompt: go}}
  boss: {finished: {role: met}}
  side: {done: {role: met}}
  met: {joined: {role: last, prompt: "{{ paths.left.text }}"}}
  last: {done: {role: $END, prompt: over}}
`

// hireFlow has another flow plan.
const hireFlow = `
version: 1
name: hires
roles:
  hire: {flow: goal}
graph:
  $START: {new: {role: hire, prompt: "{{ prompt }}"}}
  hire: {done: {role: $END, prompt: "{{ _body }}"}, failed: {role: $END, code: 1, prompt: no}}
`

var goal = []string{goalFlow, leafFlow}

// told returns goal, but with a flow that tells the role after the planner about action a.
func told() []string {
	return []string{strings.Replace(goalFlow, "{{ paths }}", "{{ paths.a.text }} {{ paths.a.meta.summary }}", 1), leafFlow}
}

const finished = `{"finish": {"summary": "All is well.", "report": "It is."}}`

// plan writes a plan of actions, each with its id and further keys; more follows them.
func plan(more string, actions ...[2]string) string {
	list := make([]string, len(actions))
	for i, a := range actions {
		list[i] = fmt.Sprintf(`{"id": %q, "prompt": "do %s"%s}`, a[0], a[0], a[1])
	}
	return fmt.Sprintf(`{"sessionGoal": "the goal", "actions": [%s]%s}`, strings.Join(list, ", "), more)
}

func output(status, more string) string {
	return fmt.Sprintf(`{"status": %q, "summary": "It is %s."%s}`, status, status, more)
}

const (
	forked = `, "mode": "fork"`
	asks   = `, "questions": ["Which?"]`
)

func TestPlansAreSound(t *testing.T) {
	done := func(g *grove) { ended(g, g.drive(g.plant().ID), store.Completed) }
	tests := []struct {
		name  string
		flows []string
		grow  func(g *grove)
	}{
		{"spawned", goal, func(g *grove) {
			g.answers["boss"] = []string{plan("", [2]string{"a"}, [2]string{"b", `, "title": "The second"`}), finished}
			done(g)
		}},
		{"a fork is the main path", goal, func(g *grove) {
			g.answers["boss"] = []string{plan("", [2]string{"a"}, [2]string{"b", forked}, [2]string{"c", forked}), finished}
			done(g)
		}},
		{"another main path", goal, func(g *grove) {
			g.answers["boss"] = []string{
				plan(`, "join": {"mainPathId": "c"}`, [2]string{"a"}, [2]string{"b", forked}, [2]string{"c", forked}), finished,
			}
			done(g)
		}},
		{"dependencies", goal, func(g *grove) {
			g.answers["boss"] = []string{
				plan("", [2]string{"a", `, "dependsOn": ["b", "c"]`}, [2]string{"b", `, "dependsOn": ["c"]`},
					[2]string{"c", forked}),
				finished,
			}
			done(g)
		}},
		{"an action fails and another one with it", goal, func(g *grove) {
			g.answers["boss"] = []string{
				plan("", [2]string{"a"}, [2]string{"b", `, "dependsOn": ["a"]`}, [2]string{"c"}), finished,
			}
			g.answers["a"] = []string{output("failed", ""), output("success", "")}
			row := g.drive(g.plant().ID)
			ended(g, row, store.Blocked)
			g.sound()
			err := g.engine.RetryPaths(ctx, row.ID, row.Head)
			g.must(err)
			g.sound()
			ended(g, g.drive(row.ID), store.Completed)
			if n := g.path("a").Path.N; n != 2 {
				g.Fatalf("action a was tried %d times, want 2", n)
			}
		}},
		{"a forked action fails and goes on in a successor", goal, func(g *grove) {
			g.answers["boss"] = []string{plan("", [2]string{"a", forked}, [2]string{"b", forked}), finished}
			g.answers["a"] = []string{output("failed", ""), fails, output("success", "")}
			row := g.drive(g.plant().ID)
			for range 2 {
				ended(g, row, store.Blocked)
				g.sound()
				err := g.engine.RetryPaths(ctx, row.ID, row.Head)
				g.must(err)
				row = g.drive(row.ID)
			}
			ended(g, row, store.Completed)
		}},
		{"a failure is planned around", goal, func(g *grove) {
			g.answers["boss"] = []string{
				plan(`, "onFailed": "plan"`, [2]string{"a"}, [2]string{"b"}), plan("", [2]string{"c"}), finished,
			}
			g.answers["a"] = []string{output("failed", "")}
			done(g)
		}},
		{"one is enough", goal, func(g *grove) {
			g.answers["boss"] = []string{
				plan(`, "join": {"joinStrategy": "ANY_COMPLETED"}`, [2]string{"a"}, [2]string{"b", forked}, [2]string{"c"}),
				finished,
			}
			g.answers["a"] = []string{output("failed", "")}
			done(g)
		}},
		{"time is up", goal, func(g *grove) {
			g.answers["boss"] = []string{
				plan(`, "join": {"timeout": 60}, "onFailed": "plan"`, [2]string{"a"}, [2]string{"b", forked}), finished,
			}
			g.late, g.held["a"], g.held["b"] = true, 0, 0
			done(g)
		}},
		{"ends after its join", goal, func(g *grove) {
			g.answers["boss"] = []string{plan(`, "then": "end"`, [2]string{"a"}, [2]string{"b", forked})}
			done(g)
		}},
		{"what follows the join is told of its paths", told(), func(g *grove) {
			g.answers["boss"] = []string{plan(`, "then": "end"`, [2]string{"a"}, [2]string{"b", forked})}
			g.answers["a"] = []string{"---\nstatus: success\nsummary: In short.\n---\nAt length."}
			done(g)
		}},
		{"the planner asks", goal, func(g *grove) {
			g.answers["boss"] = []string{
				`{"ask": {"question": "Which way?"}}`, plan("", [2]string{"a"}), `{"ask": {"question": "Enough?"}}`, finished,
			}
			row := g.drive(g.plant().ID)
			for range 2 {
				ended(g, row, store.Blocked)
				g.sound()
				g.input(row, "that one")
				row = g.drive(row.ID)
			}
			ended(g, row, store.Completed)
		}},
		{"workers ask", goal, func(g *grove) {
			g.answers["boss"] = []string{plan("", [2]string{"a"}, [2]string{"b", forked}), finished}
			g.answers["a"] = []string{output("blocked", asks), output("success", "")}
			g.answers["b"] = []string{output("blocked", asks), output("success", "")}
			row := g.drive(g.plant().ID)
			ended(g, row, store.Blocked)
			g.sound()
			g.reply("a", "this one")
			g.reply("b", "that one")
			g.sound()
			ended(g, g.drive(row.ID), store.Completed)
		}},
		{"a person adds something before and while actions begin", goal, func(g *grove) {
			g.answers["boss"] = []string{plan("", [2]string{"a"}, [2]string{"b", forked}, [2]string{"c", forked}), finished}
			g.held["a"], g.held["b"], g.held["c"] = 0, 0, 0
			row := g.drive(g.plant().ID)
			for _, id := range []string{"a", "b", "c", "c"} {
				g.input(g.path(id), "mind the gap")
			}
			g.sound()
			clear(g.held)
			g.restart()
			ended(g, g.drive(row.ID), store.Completed)
		}},
		{"in a path of a fork", []string{pathFlow}, func(g *grove) {
			g.answers["boss"] = []string{plan("", [2]string{"a"}, [2]string{"b", forked}), finished}
			done(g)
		}},
		{"in a path of a fork, which it ends", []string{pathFlow}, func(g *grove) {
			g.answers["boss"] = []string{plan(`, "then": "end"`, [2]string{"a"}, [2]string{"b", forked})}
			done(g)
		}},
		{"in a called flow", []string{hireFlow, goalFlow, leafFlow}, func(g *grove) {
			g.answers["boss"] = []string{plan("", [2]string{"a"}, [2]string{"b", forked}), finished}
			done(g)
		}},
		{"plan after plan", goal, func(g *grove) {
			g.answers["boss"] = []string{
				plan("", [2]string{"a", forked}), plan("", [2]string{"b", forked}, [2]string{"c"}), plan("", [2]string{"d"}),
				finished,
			}
			done(g)
		}},
		{"cancelled", goal, func(g *grove) {
			g.answers["boss"] = []string{plan("", [2]string{"a"}, [2]string{"b", forked}, [2]string{"c"})}
			g.held["b"], g.held["c"] = 0, 0
			row := g.drive(g.plant().ID)
			g.cancel(row.ID)
			ended(g, g.row(row.ID), store.Cancelled)
		}},
		{"forks by hand", goal, func(g *grove) {
			g.answers["boss"] = []string{plan("", [2]string{"a"}, [2]string{"b", forked}), finished}
			g.answers["a"] = []string{output("blocked", asks), output("success", "")}
			row := g.drive(g.plant().ID)
			g.reply("a", "this one")
			row = g.drive(row.ID)
			ended(g, row, store.Completed)
			a, b := g.path("a"), g.path("b")
			forks := []store.Thread{
				g.byHand(a, 0), g.byHand(a, 1), g.byHand(a, 2), g.byHand(a, 3),
				g.byHand(b, 1), g.byHand(b, 2), g.byHand(row, 0), g.byHand(row, 3),
			}
			for _, f := range forks {
				g.sound()
				if f.Head != f.Start {
					g.input(g.row(f.ID), "differently")
				}
				g.answers["boss"] = []string{finished}
				if f = g.drive(f.ID); f.Status == store.Blocked {
					g.sound()
					g.replyTo(f, "this one")
					f = g.drive(f.ID)
				}
				ended(g, f, store.Completed)
				g.sound()
			}
			g.commit(store.Batch{Remove: []string{row.ID}})
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := newGrove(t, tt.flows...)
			g.answers["dig"] = []string{"---\n$status: found\n---\nGold."}
			for _, id := range []string{"a", "b", "c", "d"} {
				g.answers[id] = []string{output("success", "")}
			}
			tt.grow(g)
			g.sound()
		})
	}
}

// reply answers the gate at which an action of a plan waits.
func (g *grove) reply(id, text string) { g.Helper(); g.replyTo(g.path(id), text) }

func (g *grove) replyTo(row store.Thread, text string) {
	g.Helper()
	row = g.add(row,
		thread.Draft{Role: "question", Meta: []byte(fmt.Sprintf(`{"$status":"answered","answer":%q}`, text)), Text: text})
	was := row
	row.Status, row.Reason = store.Running, nil
	g.change(was, row)
	g.restart()
}
