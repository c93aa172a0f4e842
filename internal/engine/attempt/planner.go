package attempt

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/prompt"
	"github.com/plait-run/plait/internal/record/thread"
)

// planning returns what a planner is told: the agents it may use, the outcomes of its actions and of their
// files, and what is left of its limits.
func (e *Runner) planning(ctx context.Context, c *Thread, p *Prepared) (agents, told string, err error) {
	if agents, err = e.agentsText(ctx, c); err != nil {
		return "", "", err
	}
	if p.results, err = e.results(ctx, c); err != nil {
		return "", "", err
	}
	files, err := e.merged(ctx, c)
	if err != nil {
		return "", "", err
	}
	left, err := e.limitsText(ctx, c)
	return agents, p.results.text + files + left, err
}

// merged returns what a planner is told about the files that its actions changed.
func (e *Runner) merged(ctx context.Context, c *Thread) (string, error) {
	if len(c.Last) < 2 || c.Last[1].Role != thread.RoleJoin || c.Gathered.IsZero() {
		return "", nil
	}
	d, err := e.cfg.Record.Nodes().Detail(ctx, c.Gathered)
	if err != nil || d.Merge == nil {
		return "", err
	}
	return "What became of files:\n" + d.Merge.String() + "\n\n", nil
}

// agentsText tells a planner which agents its actions may name, and what they can do.
func (e *Runner) agentsText(ctx context.Context, c *Thread) (string, error) {
	def, err := e.cfg.Record.Flow(ctx, c.Row.Bundle, flow.WorkerFlow)
	if err != nil {
		return "", err
	}
	role := def.Roles[flow.WorkerFlow]
	standard, _ := e.cfg.Agents.Worker(c.Row, flow.WorkerFlow, role)
	var b strings.Builder
	b.WriteString(prompt.NamedAgents)
	seen := map[string]bool{}
	for _, name := range e.cfg.Agents.Names() {
		role.Agent = &flow.AgentRef{Name: name}
		w, err := e.cfg.Agents.Worker(c.Row, flow.WorkerFlow, role)
		if err != nil || seen[w.Name] {
			continue // it cannot be used, or never is, whatever an action names
		}
		seen[w.Name] = true
		fmt.Fprintf(&b, "- %s (%s): %s", w.Name, w.Kind, powers(w))
		if w.Name == standard.Name {
			b.WriteString("; the default")
		}
		b.WriteByte('\n')
	}
	return b.String(), nil
}

// powers returns what an agent can do in an action.
func powers(w Worker) string {
	text := "access read or write in a sandbox"
	if !w.Summarises {
		text = "a program; nothing but its own behaviour holds it to an action's access"
	}
	_, continues := w.Agent.(agent.Continuer)
	_, forks := w.Agent.(agent.Forker)
	switch {
	case continues && forks:
		text += "; its session is continued after a question, and forked for an action of mode fork"
	case continues:
		text += "; its session is continued after a question; an action of mode fork gets the conversation again"
	default:
		text += "; it gets everything again each time"
	}
	return text
}

// limitsText tells a planner its limits, and what is left of them.
func (e *Runner) limitsText(ctx context.Context, c *Thread) (string, error) {
	had, err := e.actionsOf(ctx, c.Row.Task)
	if err != nil {
		return "", err
	}
	l, left := c.Limits, Budget{}
	if c.Budget != nil {
		left = c.Budget()
	}
	var b strings.Builder
	b.WriteString("What is left to you:\n")
	line := func(format string, args ...any) { fmt.Fprintf(&b, "- "+format+"\n", args...) }
	if l.MaxActions > 0 {
		line("actions in a plan: at most %d", l.MaxActions)
	}
	if l.MaxTaskActions > 0 {
		line("actions of the whole task: %d of %d", max(l.MaxTaskActions-had, 0), l.MaxTaskActions)
	}
	if l.MaxConcurrent > 0 {
		line("agents at work at the same time: at most %d", l.MaxConcurrent)
	}
	if l.MaxRounds > 0 {
		line("rounds, of which you take one each time: %d of %d", max(l.MaxRounds-c.Rounds(), 0), l.MaxRounds)
	}
	for _, n := range []struct {
		what string
		left *int64
	}{{"attempts", left.Attempts}, {"tokens", left.Tokens}, {"millionths of a dollar", left.CostMicroUSD}} {
		if n.left != nil {
			line("%s: %d", n.what, *n.left)
		}
	}
	if left.Millis != nil {
		line("time of agents at work: %s", (time.Duration(*left.Millis) * time.Millisecond).Round(time.Second))
	}
	return b.String() + "\n", nil
}
