package task

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/event"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/store"
)

// Where what a planned task came to is drawn.
const (
	reportsDir   = "shared/reports"
	contractsDir = "shared/contracts"
	decisionsDir = "shared/decisions"
)

// reports is how far the drawing of what was planned has come.
type reports struct {
	stale bool                // something happened that they may tell of
	said  map[string]dag.Hash // what was drawn, by file
}

// hear takes in an event of the task.
func (p *reports) hear(ev store.Event) {
	switch event.Read(ev).(type) {
	case event.AttemptCompleted, event.AttemptFailed, event.ThreadForked, event.ThreadJoined, event.ThreadEnded, event.EvidenceAdded:
		p.stale = true
	}
}

// drawReports draws plans, what actions were asked, what they came to, and the reports
// of planners: all of it from what is on record, so that it is the same each time.
func (b *Board) drawReports(ctx context.Context, root *os.Root, r rows, p *progress) error {
	if p.laid && !p.reports.stale || len(r.rounds)+len(r.ends) == 0 {
		return nil
	}
	entries := make(map[string]Entry)
	for _, e := range p.proofs.list() {
		if e.Broken == "" {
			entries[e.ID] = e
		}
	}
	var err error
	if !p.laid || p.reports.said == nil {
		p.reports.said = make(map[string]dag.Hash)
	}
	own := func(name string, data []byte) {
		sum := dag.Sum(data)
		if p.reports.said[name] == sum {
			return
		}
		if one := drawOwn(root, name, data); one != nil {
			err = errors.Join(err, one)
			return
		}
		p.reports.said[name] = sum
	}
	newest := make(map[string]int) // joined round of a thread
	for _, at := range r.rounds {
		if at.join != nil {
			newest[at.thread] = at.n
		}
	}
	for _, at := range r.rounds {
		own(file(decisionsDir, fmt.Sprintf("plan-%d", at.n), at.place, ".md"), []byte(decisionText(r.root.ID, at, entries)))
		for _, a := range at.plan.Actions {
			own(file(contractsDir, a.ID, at.place, ".md"), []byte(contractText(r.root.ID, at, a, entries)))
		}
		if at.join == nil {
			continue
		}
		s, one := b.summary(ctx, r, at, entries)
		var data []byte
		if one == nil {
			data, one = pretty(s)
		}
		if one != nil {
			err = errors.Join(err, one)
			continue
		}
		name := "joined-summary"
		if at.n != newest[at.thread] {
			name = fmt.Sprintf("joined-summary-%d", at.n)
		}
		own(file(reportsDir, name, at.place, ".json"), data)
		own(file(reportsDir, name, at.place, ".md"), []byte(s.text()))
	}
	for _, f := range r.ends {
		own(file(reportsDir, "report", f.place, ".md"), []byte(reportText(r.root.ID, f, entries)))
	}
	p.reports.stale = err != nil
	return err
}

// A page is a Markdown file about a task.
type page struct{ bytes.Buffer }

func (p *page) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// newPage begins a file with what it is about: names and values.
func newPage(about ...any) *page {
	p := &page{}
	p.WriteString(drawnMarks[".md"])
	for i := 0; i+1 < len(about); i += 2 {
		p.line("%s: %s", about[i], scalar(about[i+1]))
	}
	p.line("---")
	p.line("")
	return p
}

// plainScalar are words that YAML takes for nothing but text, other than a few.
var plainScalar = regexp.MustCompile(`^[A-Za-z][A-Za-z_-]+$`)

// scalar spells a value as YAML does.
func scalar(v any) string {
	s, ok := v.(string)
	if !ok {
		return fmt.Sprint(v)
	}
	switch s = oneLine(s, 2000); strings.ToLower(s) {
	case "null", "true", "false", "yes", "no", "on", "off":
	default:
		if plainScalar.MatchString(s) {
			return s
		}
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.Encode(s) // text can always be spelled
	return strings.TrimSpace(buf.String())
}

// moment spells Unix milliseconds.
func moment(ms int64) string {
	if ms == 0 {
		return "null"
	}
	return time.UnixMilli(ms).UTC().Format(time.RFC3339)
}

// text is joined-summary.md.
func (s Summary) text() string {
	p := newPage("task", s.Task, "thread", s.Thread, "round", s.Round, "goal", s.Goal, "outcome", s.Outcome, "strategy", s.Strategy,
		"decidedBy", s.DecidedBy, "plan", s.Plan.String(), "join", s.Join.String(), "startedAt", moment(s.StartedAt), "endedAt", moment(s.EndedAt), "tokens", s.Tokens)
	p.line("# Round %d: %s\n", s.Round, cell(s.Outcome, 40))
	p.line("%s", quote(s.Goal))
	p.line("| action | status | agent | attempts | tokens | time | title |\n|---|---|---|---|---|---|---|")
	for _, a := range s.Actions {
		p.line("| %s | %s | %s | %d | %d | %s | %s |", a.ID, a.Status, cell(a.Agent, 40), a.Attempts, a.Tokens, took(a.EndedAt-a.StartedAt), cell(a.Title, maxTitle))
	}
	for _, a := range s.Actions {
		p.WriteString(a.text())
	}
	if len(s.Overlaps) > 0 {
		p.line("\n## Overlaps\n\n| file | changed by |\n|---|---|")
		for _, o := range s.Overlaps {
			p.line("| %s | %s |", cell(o.File, 300), cell(strings.Join(o.Actions, ", "), 300))
		}
	}
	p.evidence(s.Evidence)
	return p.String()
}

// text is the part of a summary about an action.
func (a ActionSummary) text() string {
	p := &page{}
	p.line("\n## %s: %s\n", a.ID, cell(cmp.Or(a.Title, string(a.Status)), maxTitle))
	p.line("%s, %s, %s, access %s; %s, %d tokens%s", a.Status, cell(a.Agent, 40), a.Mode, a.Access, attempts(a.Attempts), a.Tokens, comma(took(a.EndedAt-a.StartedAt)))
	if len(a.DependsOn) > 0 {
		p.line("after %s", strings.Join(a.DependsOn, ", "))
	}
	if a.Reason != "" {
		p.line("\nNot completed: %s", cell(a.Reason, 500))
	}
	if a.Summary != "" {
		p.line("\n%s", strings.TrimRight(quote(a.Summary), "\n"))
	}
	for _, part := range []struct {
		title string
		list  []string
	}{{"Questions", a.Questions}, {"Next", a.NextActions}, {"Errors", a.Errors}} {
		if len(part.list) > 0 {
			p.line("\n**%s**\n", part.title)
			for _, text := range part.list {
				p.line("- %s", cell(text, 2000))
			}
		}
	}
	if len(a.Result) > 0 && string(a.Result) != "null" {
		var indented bytes.Buffer
		if json.Indent(&indented, a.Result, "", "  ") == nil && indented.Len() <= maxText {
			p.line("\n**Result**\n\n%s", strings.TrimRight(verbatim(indented.String(), "json"), "\n"))
		} else {
			p.line("\n**Result**: %d bytes of JSON; the .json file has them", len(a.Result))
		}
	}
	if len(a.Artifacts) > 0 {
		p.line("\n| artifact | bytes | hash |\n|---|---|---|")
		for _, f := range a.Artifacts {
			p.line("| %s | %d | %s |", cell(f.Name, 300), f.Size, f.Blob)
		}
	}
	if f := a.Files; f != nil {
		state := "merged"
		if !f.Merged {
			state = "not merged"
		}
		p.line("\nFiles: %s, on branch `%s`", state, strings.ReplaceAll(oneLine(f.Branch, 300), "`", "'"))
		for _, name := range f.Conflicts {
			p.line("- conflicts in %s", cell(name, 300))
		}
		for _, name := range f.Protected {
			p.line("- changes %s, which takes a person", cell(name, 300))
		}
	}
	return p.String()
}

func attempts(n int) string {
	if n == 1 {
		return "1 attempt"
	}
	return fmt.Sprintf("%d attempts", n)
}

func comma(s string) string {
	if s == "" {
		return ""
	}
	return ", " + s
}

// evidence is a table of what is cited.
func (p *page) evidence(list []Cited) {
	if len(list) == 0 {
		return
	}
	p.line("\n## Evidence\n\n| cited as | kind | what | where |\n|---|---|---|---|")
	for _, e := range list {
		p.line("| evidence:%s | %s | %s | %s |", e.ID, cell(e.Kind, 40), cell(e.Title, maxTitle), cell(e.Source, 300))
	}
}

// reportText is report.md.
func reportText(task string, f finish, entries map[string]Entry) string {
	text := qualify(f.report, f.by, entries)
	p := newPage("task", task, "thread", f.thread, "by", f.by, "step", f.step.Hash.String(), "at", moment(f.step.State.Timestamp))
	p.WriteString(document(text))
	p.evidence(cited([]string{text}, entries))
	return p.String()
}

// decisionText is what was decided: a plan.
func decisionText(task string, at round, entries map[string]Entry) string {
	j := at.plan.Join
	p := newPage("task", task, "thread", at.thread, "plan", at.n, "by", at.by, "step", at.step.Hash.String(), "at", moment(at.step.State.Timestamp))
	p.line("# Plan %d\n", at.n)
	p.line("%s", quote(qualify(at.plan.SessionGoal, at.by, entries)))
	p.line("| action | title | agent | mode | access | after | inputs |\n|---|---|---|---|---|---|---|")
	for _, a := range at.plan.Actions {
		p.line("| %s | %s | %s | %s | %s | %s | %s |", a.ID, cell(a.Title, maxTitle), cell(cmp.Or(a.Agent, "(default)"), 40), a.Mode, a.Access,
			strings.Join(a.DependsOn, ", "), cell(strings.Join(a.Inputs, ", "), 2000))
	}
	p.line("\n## Join\n\n| strategy | threshold | main path | timeout | losers | then | when it fails |\n|---|---|---|---|---|---|---|")
	p.line("| %s | %s | %s | %s | %s | %s | %s |", cell(j.Strategy, 40), unlessZero(j.Threshold), j.Main, seconds(j.Timeout), cell(j.Losers, 20),
		cell(at.plan.Then, 20), cell(at.plan.OnFailed, 20))
	return p.String()
}

// contractText is what an action was asked.
func contractText(task string, at round, a flow.Action, entries map[string]Entry) string {
	p := newPage("task", task, "thread", at.thread, "plan", at.n, "action", a.ID, "agent", a.Agent, "mode", a.Mode, "access", string(a.Access),
		"timeout", a.Timeout, "step", at.step.Hash.String())
	p.line("# %s: %s\n", a.ID, cell(a.Title, maxTitle))
	if len(a.DependsOn) > 0 {
		p.line("After: %s\n", strings.Join(a.DependsOn, ", "))
	}
	p.line("## What is asked\n\n%s", strings.TrimRight(quote(qualify(at.plan.Brief(a.ID), at.by, entries)), "\n"))
	if a.OutputSchema != nil {
		var buf bytes.Buffer
		json.Indent(&buf, a.OutputSchema, "", "  ") // it was read as JSON
		p.line("\n## What the result must be like\n\n%s", strings.TrimRight(verbatim(buf.String(), "json"), "\n"))
	}
	return p.String()
}

func unlessZero(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

func seconds(s float64) string {
	if s == 0 {
		return ""
	}
	return fmt.Sprintf("%gs", s)
}

// newestPlan returns the newest plan of the root thread, nil before the first.
func (r rows) newestPlan() *round {
	for i := len(r.rounds) - 1; i >= 0; i-- {
		if r.rounds[i].thread == r.root.ID {
			return &r.rounds[i]
		}
	}
	return nil
}

// actionOf returns the action that a thread carries out.
func (r rows) actionOf(t store.Thread) (flow.Action, bool) {
	if t.Path == nil {
		return flow.Action{}, false
	}
	return r.actionAt(t.Path.Fork, t.Path.ID)
}

func (r rows) actionAt(plan dag.Hash, id string) (flow.Action, bool) {
	for _, at := range r.rounds {
		if at.step.Hash == plan {
			return at.plan.Action(id)
		}
	}
	return flow.Action{}, false
}
