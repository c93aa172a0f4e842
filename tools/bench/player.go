package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/app/config"
	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/thread"
)

// A turn is what the role work says, how often in a row, and the name under which the
// average time until work is asked again is recorded; "" records nothing. Turns to be
// compared should take about equally long, since a busy machine interrupts long ones
// more often.
type turn struct {
	status, name string
	times        int
}

// A sample is how long a turn took, and how many appends of the floor that equals.
type sample struct{ ms, appends float64 }

// A player is the agents of a task that takes turn after turn: one more step, a call,
// or a fork of some paths of some steps each. The agents' own work is not counted.
type player struct {
	turns       []turn
	paths, each int
	floor       *floor
	// wait and pass bracket each turn that counts, for players that alternate with
	// others; nil for a single one.
	wait, pass func()

	next  int
	said  int       // times in the turn before next
	begun time.Time // when the turn before next was first answered
	base  float64   // appends per second
	fresh time.Time // when base was measured
	took  map[string][]sample
}

// baseEvery is how often the floor is measured again.
const baseEvery = 500 * time.Millisecond

// Run answers immediately for every role. Only work keeps count: it is never called
// concurrently.
func (p *player) Run(_ context.Context, r agent.Request, _ func(agent.Event) error) (agent.Result, error) {
	status := "done"
	switch {
	case r.Role == "work":
		var err error
		if status, err = p.work(); err != nil {
			return agent.Result{}, err
		}
		if p.said == 0 {
			defer func() { p.begun = time.Now() }()
		}
	case strings.HasPrefix(r.Role, "path") && r.Visit%p.each < p.each-1:
		status = "more"
	}
	return agent.Result{Output: []byte("---\n$status: " + status + "\n---\n" + text(r.Visit)), Sandbox: "none"}, nil
}

// work counts the turn that has ended and returns the next one's status.
func (p *player) work() (string, error) {
	if p.next > 0 {
		last := p.turns[p.next-1]
		if p.said++; p.said < last.times {
			return last.status, nil
		}
		if last.name != "" {
			took := time.Since(p.begun).Seconds() / float64(last.times)
			p.took[last.name] = append(p.took[last.name], sample{took * 1000, took * p.base})
			if p.pass != nil {
				p.pass()
			}
		}
	}
	if p.next == len(p.turns) {
		return "over", nil
	}
	t := p.turns[p.next]
	p.next, p.said = p.next+1, 0
	if t.name != "" && p.wait != nil {
		p.wait()
	}
	if t.name != "" && time.Since(p.fresh) > baseEvery {
		var err error
		if p.base, err = rate(1, baseEvery/5, p.floor.append); err != nil {
			return "", err
		}
		p.fresh = time.Now()
	}
	return t.status, nil
}

func (p *player) median(name string) sample {
	var ms, appends []float64
	for _, s := range p.took[name] {
		ms, appends = append(ms, s.ms), append(appends, s.appends)
	}
	return sample{median(ms), median(appends)}
}

func (p *player) agent(string, flow.Agent, control.AgentOptions) (agent.Agent, error) { return p, nil }

func (p *player) settings() *config.Settings {
	return &config.Settings{
		Default: config.Value[string]{V: "noop"}, Agents: map[string]config.Value[flow.Agent]{"noop": {V: flow.Agent{Kind: "replay"}}},
	}
}

// bundle returns the flow that is played, and the one that it calls.
func (p *player) bundle() (thread.Bundle, error) {
	p.took = make(map[string][]sample)
	limits := flow.Limits{MaxRounds: 1e8, MaxConcurrent: p.paths, MaxDepth: 4}
	main := &flow.Definition{
		Version: 1, Name: "bench", Limits: limits, Context: flow.Context{Tokens: 1000},
		Roles: map[string]flow.Role{"work": {Description: "works"}, "sub": {Flow: "called"}},
		Graph: map[string]map[string]flow.Route{
			flow.Start: {"new": {Role: "work", Prompt: "{{ prompt }}"}},
			"work":     {"step": {Role: "work", Prompt: "on"}, "fork": {Role: "look", Prompt: "look"}, "call": {Role: "sub", Prompt: "do"}, "over": {Role: flow.EndNode}},
			"sub":      {flow.CallDone: {Role: "work", Prompt: "on"}},
			"seen":     {flow.Joined: {Role: "work", Prompt: "on"}},
		},
	}
	fork := flow.ForkSpec{Strategy: flow.Parallel, Join: "seen"}
	var ids []string
	for i := range p.paths {
		id, role := fmt.Sprintf("p%d", i), fmt.Sprintf("path%d", i)
		ids = append(ids, id)
		fork.Paths = append(fork.Paths, flow.BranchPath{ID: id, Child: role})
		main.Roles[role] = flow.Role{Description: "looks"}
		main.Graph[role] = map[string]flow.Route{"more": {Role: role, Prompt: "on"}, "done": {Role: "seen"}}
	}
	main.Forks = map[string]flow.ForkSpec{"look": fork}
	main.Joins = map[string]flow.JoinSpec{"seen": {PathIDs: ids, Strategy: flow.AllCompleted, Main: ids[0], Losers: flow.CancelLosers}}
	called := &flow.Definition{
		Version: 1, Name: "called", Limits: limits, Context: flow.Context{Tokens: 1000},
		Roles: map[string]flow.Role{"do": {Description: "does"}},
		Graph: map[string]map[string]flow.Route{
			flow.Start: {"new": {Role: "do", Prompt: "{{ prompt }}"}}, "do": {"done": {Role: flow.EndNode, Prompt: "over"}},
		},
	}
	b := thread.Bundle{Name: main.Name, Flows: map[string]json.RawMessage{}}
	for _, def := range []*flow.Definition{main, called} {
		raw, err := json.Marshal(def)
		if err != nil {
			return b, err
		}
		b.Flows[def.Name] = raw
	}
	return b, nil
}
