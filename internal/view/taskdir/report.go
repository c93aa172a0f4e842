package taskdir

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

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

// Places where the results of a planned task are drawn.
const (
	reportsDir   = "shared/reports"
	contractsDir = "shared/contracts"
	decisionsDir = "shared/decisions"
)

// reports is the state of drawing plans and reports.
type reports struct {
	stale bool                // an event may have changed them
	said  map[string]dag.Hash // what was drawn, by file
}

// add records an event of the task.
func (p *reports) add(ev store.Event) {
	switch event.Read(ev).(type) {
	case event.AttemptCompleted, event.AttemptFailed, event.ThreadForked, event.ThreadJoined, event.ThreadEnded,
		event.EvidenceAdded:
		p.stale = true
	}
}

// drawReports draws plans, contracts, summaries of actions, and reports of planners. It uses the
// record only, so it draws the same each time.
func (b *DirWriter) drawReports(ctx context.Context, root *os.Root, r view.TaskRecord, p *progress) error {
	if p.complete && !p.reports.stale || len(r.Rounds)+len(r.Ends) == 0 {
		return nil
	}
	entries := make(map[string]Entry)
	for _, e := range p.proofs.list() {
		if e.Broken == "" {
			entries[e.ID] = e
		}
	}
	var err error
	if !p.complete || p.reports.said == nil {
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
	for _, at := range r.Rounds {
		if at.Join != nil {
			newest[at.Thread] = at.N
		}
	}
	for _, at := range r.Rounds {
		own(file(decisionsDir, fmt.Sprintf("plan-%d", at.N), placeOf(r.Root.ID, at.Thread, at.Label), ".md"),
			[]byte(decisionText(r.Root.ID, at, entries)))
		for _, a := range at.Plan.Actions {
			own(file(contractsDir, a.ID, placeOf(r.Root.ID, at.Thread, at.Label), ".md"),
				[]byte(contractText(r.Root.ID, at, a, entries)))
		}
		if at.Join == nil {
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
		if at.N != newest[at.Thread] {
			name = fmt.Sprintf("joined-summary-%d", at.N)
		}
		own(file(reportsDir, name, placeOf(r.Root.ID, at.Thread, at.Label), ".json"), data)
		own(file(reportsDir, name, placeOf(r.Root.ID, at.Thread, at.Label), ".md"), []byte(s.text()))
	}
	for _, f := range r.Ends {
		own(file(reportsDir, "report", placeOf(r.Root.ID, f.Thread, f.Label), ".md"),
			[]byte(reportText(r.Root.ID, f, entries)))
	}
	p.reports.stale = err != nil
	return err
}

// A page is a Markdown file about a task.
type page struct{ bytes.Buffer }

func (p *page) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// newPage begins a file with front matter: names and values.
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

// plainScalar matches words that YAML always reads as strings, with a few exceptions.
var plainScalar = regexp.MustCompile(`^[A-Za-z][A-Za-z_-]+$`)

// scalar formats a value as YAML.
func scalar(v any) string {
	s, ok := v.(string)
	if !ok {
		return fmt.Sprint(v)
	}
	switch s = text.OneLine(s, 2000); strings.ToLower(s) {
	case "null", "true", "false", "yes", "no", "on", "off":
	default:
		if plainScalar.MatchString(s) {
			return s
		}
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.Encode(s) // encoding a string cannot fail
	return strings.TrimSpace(buf.String())
}

// timestamp formats Unix milliseconds.
func timestamp(ms int64) string {
	if ms == 0 {
		return "null"
	}
	return time.UnixMilli(ms).UTC().Format(time.RFC3339)
}

// text returns joined-summary.md.
func (s Summary) text() string {
	p := newPage("task", s.Task, "thread", s.Thread, "round", s.Round, "goal", s.Goal, "outcome", s.Outcome, "strategy",
		s.Strategy,
		"decidedBy", s.DecidedBy, "plan", s.Plan.String(), "join", s.Join.String(), "startedAt", timestamp(s.StartedAt),
		"endedAt", timestamp(s.EndedAt), "tokens", s.Tokens)
	p.line("# Round %d: %s\n", s.Round, cell(s.Outcome, 40))
	p.line("%s", quote(s.Goal))
	p.line("| action | status | agent | attempts | tokens | time | title |\n|---|---|---|---|---|---|---|")
	for _, a := range s.Actions {
		p.line("| %s | %s | %s | %d | %d | %s | %s |", a.ID, a.Status, cell(a.Agent, 40), a.Attempts, a.Tokens,
			took(a.EndedAt-a.StartedAt), cell(a.Title, view.MaxTitle))
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

// text returns the section about an action.
func (a ActionSummary) text() string {
	p := &page{}
	p.line("\n## %s: %s\n", a.ID, cell(cmp.Or(a.Title, string(a.Status)), view.MaxTitle))
	p.line("%s, %s, %s, access %s; %s, %d tokens%s", a.Status, cell(a.Agent, 40), a.Mode, a.Access,
		text.Count(a.Attempts, "attempt"), a.Tokens, comma(took(a.EndedAt-a.StartedAt)))
	if len(a.DependsOn) > 0 {
		p.line("after %s", strings.Join(a.DependsOn, ", "))
	}
	if a.Reason != "" {
		p.line("\nNot completed: %s%s", failureOf(a.Failure), cell(a.Reason, 2000))
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
			p.line("| %s | %d | %s |", cell(f.Name, 300), f.Size, f.Artifact)
		}
	}
	if f := a.Files; f != nil {
		state := "merged"
		if !f.Merged {
			state = "not merged"
		}
		p.line("\nFiles: %s, on branch `%s`", state, strings.ReplaceAll(text.OneLine(f.Branch, 300), "`", "'"))
		for _, name := range f.Conflicts {
			p.line("- conflicts in %s", cell(name, 300))
		}
		for _, name := range f.Protected {
			p.line("- changes %s, which takes a person", cell(name, 300))
		}
	}
	if a.Kept != nil {
		p.line("\nIts worktree stays, since it has what cannot be merged: %s", cell(a.Kept.Holds(), 2000))
	}
	return p.String()
}

func failureOf(kind string) string {
	if kind == "" {
		return ""
	}
	return kind + ": "
}

func comma(s string) string {
	if s == "" {
		return ""
	}
	return ", " + s
}

// evidence adds a table of cited entries.
func (p *page) evidence(list []Cited) {
	if len(list) == 0 {
		return
	}
	p.line("\n## Evidence\n\n| cited as | kind | what | where |\n|---|---|---|---|")
	for _, e := range list {
		p.line("| evidence:%s | %s | %s | %s |", e.ID, cell(e.Kind, 40), cell(e.Title, view.MaxTitle), cell(e.Source, 300))
	}
}

// reportText returns report.md.
func reportText(task string, f view.Finish, entries map[string]Entry) string {
	text := qualify(f.Report, f.By, entries)
	p := newPage("task", task, "thread", f.Thread, "by", f.By, "step", f.Step.Hash.String(),
		"at", timestamp(f.Step.State.Timestamp))
	p.WriteString(document(text))
	p.evidence(cited([]string{text}, entries))
	return p.String()
}

// decisionText returns the file about a plan.
func decisionText(task string, at view.Round, entries map[string]Entry) string {
	j := at.Plan.Join
	p := newPage("task", task, "thread", at.Thread, "plan", at.N, "by", at.By,
		"step", at.Step.Hash.String(), "at", timestamp(at.Step.State.Timestamp))
	p.line("# Plan %d\n", at.N)
	p.line("%s", quote(qualify(at.Plan.SessionGoal, at.By, entries)))
	p.line("| action | title | agent | mode | access | after | inputs |\n|---|---|---|---|---|---|---|")
	for _, a := range at.Plan.Actions {
		p.line("| %s | %s | %s | %s | %s | %s | %s |", a.ID, cell(a.Title, view.MaxTitle),
			cell(cmp.Or(a.Agent, "(default)"), 40), a.Mode, a.Access,
			strings.Join(a.DependsOn, ", "), cell(strings.Join(a.Inputs, ", "), 2000))
	}
	p.line("\n## Join\n")
	p.line("| strategy | threshold | main path | timeout | losers | then | when it fails |\n|---|---|---|---|---|---|---|")
	p.line("| %s | %s | %s | %s | %s | %s | %s |", cell(j.Strategy, 40),
		unlessZero(j.Threshold), j.Main, seconds(j.Timeout), cell(j.Losers, 20),
		cell(at.Plan.Then, 20), cell(at.Plan.OnFailed, 20))
	return p.String()
}

// contractText returns the file about what an action was asked to do.
func contractText(task string, at view.Round, a flow.Action, entries map[string]Entry) string {
	p := newPage("task", task, "thread", at.Thread, "plan", at.N, "action", a.ID, "agent", a.Agent,
		"mode", a.Mode, "access", string(a.Access),
		"timeout", a.Timeout, "step", at.Step.Hash.String())
	p.line("# %s: %s\n", a.ID, cell(a.Title, view.MaxTitle))
	if len(a.DependsOn) > 0 {
		p.line("After: %s\n", strings.Join(a.DependsOn, ", "))
	}
	p.line("## What is asked\n\n%s", strings.TrimRight(quote(qualify(at.Plan.Brief(a.ID), at.By, entries)), "\n"))
	if a.OutputSchema != nil {
		var buf bytes.Buffer
		json.Indent(&buf, a.OutputSchema, "", "  ") // it was parsed before
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

// placeOf returns a name for a thread that is unique in the task and safe in a file name:
// lower-case letters, digits and dashes.
func placeOf(task, id, label string) string {
	if id == task {
		return ""
	}
	slug := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, text.Shorten(label, 80))
	if slug = strings.Trim(slug, "-"); slug != "" {
		slug += "-"
	}
	return slug + strings.ToLower(id[max(len(id)-8, 0):])
}

// file returns the name of a drawn file about a thread.
func file(dir, name, place, ext string) string {
	if place != "" {
		name += "." + place
	}
	return dir + "/" + name + ext
}
