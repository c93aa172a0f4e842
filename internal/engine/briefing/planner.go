package briefing

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/prompt"
	"github.com/plait-run/plait/internal/record/thread"
)

// Planning is what a planner is told about its means.
type Planning struct {
	Agents  []Agent
	Limits  flow.Limits
	Left    Left
	Actions int // that the task has had
	Rounds  int // that the thread has had
}

// An Agent is one that an action may name.
type Agent struct {
	Name, Kind string
	Agent      agent.Agent
	Program    bool // it has no model, and no sandbox of its own
	Default    bool
}

// Left is what is left of limits, a thread's own and its callers'; nil means unlimited.
type Left struct{ Attempts, Tokens, CostMicroUSD, Millis *int64 }

// merged returns what a planner is told about the files that its actions changed.
func (b *Briefer) merged(ctx context.Context, at *record.Position) (string, error) {
	if len(at.Last) < 2 || at.Last[1].Role != thread.RoleJoin || at.Gathered.IsZero() {
		return "", nil
	}
	d, err := b.cfg.Record.Nodes().Detail(ctx, at.Gathered)
	if err != nil || d.Merge == nil {
		return "", err
	}
	return "What became of files:\n" + d.Merge.String() + "\n\n", nil
}

// agents tells a planner which agents its actions may name, and what they can do.
func (p *Planning) agents() string {
	var b strings.Builder
	b.WriteString(prompt.NamedAgents)
	for _, a := range p.Agents {
		fmt.Fprintf(&b, "- %s (%s): %s", a.Name, a.Kind, a.capabilities())
		if a.Default {
			b.WriteString("; the default")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// capabilities returns what an agent can do in an action.
func (a Agent) capabilities() string {
	text := "access read or write in a sandbox"
	if a.Program {
		text = "a program; nothing but its own behaviour holds it to an action's access"
	}
	_, continues := a.Agent.(agent.Continuer)
	_, forks := a.Agent.(agent.Forker)
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

// limits tells a planner its limits, and what is left of them.
func (p *Planning) limits() string {
	var b strings.Builder
	b.WriteString("What is left to you:\n")
	line := func(format string, args ...any) { fmt.Fprintf(&b, "- "+format+"\n", args...) }
	l := p.Limits
	if l.MaxActions > 0 {
		line("actions in a plan: at most %d", l.MaxActions)
	}
	if l.MaxTaskActions > 0 {
		line("actions of the whole task: %d of %d", max(l.MaxTaskActions-p.Actions, 0), l.MaxTaskActions)
	}
	if l.MaxConcurrent > 0 {
		line("agents at work at the same time: at most %d", l.MaxConcurrent)
	}
	if l.MaxRounds > 0 {
		line("rounds, of which you take one each time: %d of %d", max(l.MaxRounds-p.Rounds, 0), l.MaxRounds)
	}
	for _, n := range []struct {
		what string
		left *int64
	}{{"attempts", p.Left.Attempts}, {"tokens", p.Left.Tokens}, {"millionths of a dollar", p.Left.CostMicroUSD}} {
		if n.left != nil {
			line("%s: %d", n.what, *n.left)
		}
	}
	if left := p.Left.Millis; left != nil {
		line("time of agents at work: %s", (time.Duration(*left) * time.Millisecond).Round(time.Second))
	}
	return b.String() + "\n"
}
