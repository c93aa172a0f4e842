package attempt

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// A Budget is what is left of limits, a thread's own and its callers'; nil is no limit.
type Budget struct{ Attempts, Tokens, CostMicroUSD, Millis *int64 }

// Rounds counts the steps that the thread's limit on rounds is about.
func (c *Thread) Rounds() (n int) {
	for role, visits := range c.Visits {
		if !c.Def.Roles[role].Chat { // a person asks for each of those
			n += visits
		}
	}
	return n
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
