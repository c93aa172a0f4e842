package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/app/config"
	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/parse"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// loopFlow is a role that repeats until its agent says that it is over.
const loopFlow = `version: 1
name: loop
limits: {maxRounds: 1000}
roles: {work: {description: works}}
graph:
  $START: {new: {role: work, prompt: go}}
  work: {done: {role: work, prompt: go on}, over: {role: $END}}
`

// plans measures what the driver needs for an action of a plan, from the planner's answer
// to the join, with desks, evidence and the task's directory, relative to steps of one
// thread by the same driver.
func (b *bench) plans(ctx context.Context) error {
	const steps = 64
	flows, _ := parse.LoadBuiltIn("orchestrate")
	sizes := []int{8, 32, 128}
	took, used := make(map[int][]float64), make(map[int][]float64)
	var step, stepped []float64
	for range b.rounds {
		alone, cpu, err := b.loop(ctx, embedded, steps)
		if err != nil {
			return err
		}
		step, stepped = append(step, alone.Seconds()*1000/steps), append(stepped, cpu.Seconds()*1000/steps)
		for _, n := range sizes {
			one, cpu, err := b.driven(ctx, embedded, flows, planner(n))
			if err != nil {
				return err
			}
			took[n], used[n] = append(took[n], one.Seconds()*1000/float64(n)), append(used[n], cpu.Seconds()*1000/float64(n))
		}
	}
	one := median(step)
	row("a step of one thread by the driver, no-op agent", goal{}, "%.2f ms, %.2f of CPU", one, median(stepped))
	for _, n := range sizes {
		each := median(took[n])
		row(fmt.Sprintf("plan, dispatch and join of %d no-op actions, 8 at once", n),
			atMost(3, each/one, " driver steps an action").unless("an action is three commits and eleven new files, which are slow on ext4 without a journal"),
			"%.2f ms an action, **%.2f** driver steps; %.2f ms of CPU", each, each/one, median(used[n]))
	}
	growth := median(took[128]) / median(took[8])
	row("an action among 128 to one among 8", atMost(1.25, growth, ", flat"), "**%.2f**", growth)
	return nil
}

// driver measures what the driver needs for a step of a short and of a long thread, relative to a step of the engine
// alone.
func (b *bench) driver(ctx context.Context) error {
	used := map[int][]float64{}
	var alone []float64
	for range b.rounds {
		got, err := b.rawSteps(ctx, 1, little)
		if err != nil {
			return err
		}
		alone = append(alone, got.cpu/1000)
		for _, steps := range []int{50, 800} {
			_, cpu, err := b.loop(ctx, embedded, steps)
			if err != nil {
				return err
			}
			used[steps] = append(used[steps], cpu.Seconds()*1000/float64(steps))
		}
	}
	for _, steps := range []int{50, 800} {
		ms := median(used[steps])
		times := ms / median(alone)
		row(fmt.Sprintf("a step by the driver, of a thread of %d", steps), atMost(4, times, " steps of the engine alone"),
			"%.2f ms of CPU, **%.2f** steps of the engine alone", ms, times)
	}
	return nil
}

// loop drives a thread of that many steps.
func (b *bench) loop(ctx context.Context, by driver, steps int) (took, cpu time.Duration, err error) {
	loop, problems := parse.Parse(nil, "loop.yaml", []byte(loopFlow))
	if loop == nil {
		return 0, 0, fmt.Errorf("loop.yaml: %v", problems)
	}
	return b.driven(ctx, by, []*flow.Definition{loop}, func(r agent.Request) string {
		if r.Visit == steps-1 {
			return `{"$status": "over"}`
		}
		return `{"$status": "done"}`
	})
}

// planner answers as a planner of that many actions, and as their agents.
func planner(actions int) func(agent.Request) string {
	var list []string
	for i := range actions {
		list = append(list, fmt.Sprintf(`{"id": "a%d", "prompt": "do it"}`, i))
	}
	return func(r agent.Request) string {
		switch {
		case r.Role != "planner":
			return `{"status": "success", "summary": "done"}`
		case r.Visit == 0:
			return `{"sessionGoal": "go", "actions": [` + strings.Join(list, ",") + `]}`
		default:
			return `{"finish": {"summary": "done"}}`
		}
	}
}

// answers is an agent that answers immediately.
type answers func(agent.Request) string

func (a answers) Run(_ context.Context, r agent.Request, _ func(agent.Event) error) (agent.Result, error) {
	return agent.Result{Output: []byte(a(r)), Sandbox: "none"}, nil
}

// driven returns what the driver needs for a task of the first flow. What it leaves stays until the end of the
// run: ext4 without a journal skips recently deleted inodes for each file that it creates.
func (b *bench) driven(ctx context.Context, by driver, flows []*flow.Definition, say answers) (took, cpu time.Duration, err error) {
	s, dir, err := b.open(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer s.Close()
	workspace, err := os.MkdirTemp(b.dir, "workspace-")
	if err != nil {
		return 0, 0, err
	}
	bundle := thread.Bundle{Name: flows[0].Name, Flows: map[string]json.RawMessage{}}
	for _, f := range flows {
		if bundle.Flows[f.Name], err = json.Marshal(f); err != nil {
			return 0, 0, err
		}
	}
	c := control.New(control.Config{
		Store: s, Home: dir,
		Settings: &config.Settings{Default: config.Value[string]{V: "noop"}, Agents: map[string]config.Value[flow.Agent]{"noop": {V: flow.Agent{Kind: "replay"}}}},
		Agent:    func(string, flow.Agent, control.AgentOptions) (agent.Agent, error) { return say, nil },
	})
	options := control.Options{On: by.on, Limits: flow.Limits{MaxActions: 1000, MaxTaskActions: 1000, MaxConcurrent: 8}}
	begun, err := c.Begin(ctx, control.Spec{Bundle: bundle, Prompt: "go", Workspace: workspace, Options: options})
	if err != nil {
		return 0, 0, err
	}
	began, used := time.Now(), processor()
	end, err := by.drive(ctx, s, c, begun.ID)
	took, cpu = time.Since(began), processor()-used
	if err == nil && end.Status != store.Completed {
		err = fmt.Errorf("the task is %s: %+v", end.Status, end.Reason)
	}
	return took, cpu, err
}
