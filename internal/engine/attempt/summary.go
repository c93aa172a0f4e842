package attempt

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine/briefing"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/prompt"
	"github.com/plait-run/plait/internal/record/thread"
)

// summaryQuota is how many times longer than a prompt's quota a conversation may be that an agent is given to
// summarize.
const summaryQuota = 8

// summaryFrame is about how many bytes a prompt has around a summary.
const summaryFrame = 200

// summarizer is the role that writes summaries.
var summarizer = flow.Role{
	Description: "Summarises what a team of agents has done, so that its work can go on without the steps themselves.",
	Goal:        "Whoever reads only the summary can do the next step as well as one who has read everything.",
	Procedure: "Keep what was decided and why, what was found out and where it can be looked up (files, " +
		"commands, hashes\n" +
		"of steps), what was tried and did not work, and what is still to be done. Leave out how it was said.",
	Access: flow.Read,
}

// PrepareSummary prepares an attempt that summarizes a thread's conversation. It writes nothing.
func (e *Runner) PrepareSummary(ctx context.Context, c *Thread, w Worker) (*Prepared, error) {
	p := &Prepared{Role: summarizer, worker: w, tries: tries{n: 1}, summary: true}
	p.Row = e.nextRow(c, thread.RoleCompact, w)
	err := e.writePrompt(ctx, c, p, prompt.Draft{
		Contract: fmt.Sprintf("Answer with the summary alone, as plain text or Markdown, in at most %d words.",
			max(c.Def.Context.Tokens/5, 1)),
		Role: briefing.Describe("summariser", summarizer), Task: c.Prompt, TaskNode: c.Task, Parent: c.Parent,
		Quota: c.Def.Context.Tokens * summaryQuota, Steps: c.Row.Steps,
		Repeats: prompt.Repeats{Answered: true},
		Route: "Summarise what happened so far. The task and what pinned roles said will be given beside your " +
			"summary: do not repeat them.",
	})
	if err != nil {
		return nil, fmt.Errorf("thread %s: role %s: %w", c.Row.ID, p.Row.Role, err)
	}
	return p, nil
}

// summary makes a step from a summary. If the summary is invalid, the error is an *agent.Failure that says why.
func (r *run) summary(ctx context.Context, result agent.Result, out *Outcome) error {
	text := r.e.cfg.Host.Secrets.Text(summaryOf(result))
	if text == "" {
		return &agent.Failure{Kind: agent.InvalidOutput, Message: "the summary is empty or not UTF-8 text"}
	}
	if quota := r.c.Def.Context.Tokens; !prompt.FitsWhole(len(text)+summaryFrame, quota) {
		return &agent.Failure{Kind: agent.InvalidOutput, Message: fmt.Sprintf("the summary has %d bytes: too much for a "+
			"context of %d tokens", len(text), quota)}
	}
	for s, err := range r.e.cfg.Record.Nodes().Walk(ctx, r.c.Row.Head) {
		if err != nil {
			return err
		}
		said, err := r.e.cfg.Record.Nodes().Text(ctx, s.State.Content)
		if err != nil {
			return err
		}
		out.steps, out.bytes = out.steps+1, out.bytes+len(said)
	}
	meta := fmt.Appendf(nil, `{"bytes":%d,"steps":%d}`, out.bytes, out.steps)
	out.Draft = thread.Draft{Meta: meta, Text: text, Compact: true}
	return nil
}

// summaryOf returns the text of a summary, "" if it cannot be used. It cuts off front matter, which some agents
// cannot leave out.
func summaryOf(result agent.Result) string {
	if result.Truncated || !utf8.Valid(result.Output) || len(result.Output) > headBytes {
		return ""
	}
	text := strings.TrimSpace(string(result.Output))
	first, rest, _ := cutLine(text)
	if _, body, closed := cutFrontMatter(rest); closed && opens(first) {
		text = strings.TrimSpace(body)
	}
	return text
}
