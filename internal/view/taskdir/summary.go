package taskdir

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/view"
)

// summarySchema names the format of joined-summary.json, with its version.
const summarySchema = "plait.joined-summary/1"

// A Summary is a joined-summary.json: the results of a plan's actions.
type Summary struct {
	Schema    string          `json:"schema"`
	Task      string          `json:"task"`
	Thread    string          `json:"thread"` // the one that planned
	Goal      string          `json:"goal"`
	Round     int             `json:"round"` // among the plans of the thread, from 1
	Outcome   string          `json:"outcome"`
	Strategy  string          `json:"strategy"`
	DecidedBy string          `json:"decidedBy"` // the action whose end decided, or ""
	Plan      dag.Hash        `json:"plan"`      // steps
	Join      dag.Hash        `json:"join"`
	StartedAt int64           `json:"startedAt"` // Unix ms
	EndedAt   int64           `json:"endedAt"`
	Tokens    int64           `json:"tokens"`
	Actions   []ActionSummary `json:"actions"`
	Overlaps  []Overlap       `json:"overlaps"` // files that several actions changed
	Evidence  []Cited         `json:"evidence"` // what is cited above
}

// An ActionSummary is the result of an action.
type ActionSummary struct {
	ID          string          `json:"id"`
	Title       string          `json:"title"`
	Agent       string          `json:"agent"`
	Mode        string          `json:"mode"`
	Access      string          `json:"access"`
	DependsOn   []string        `json:"dependsOn"`
	Status      store.Status    `json:"status"`  // of its thread: completed failed cancelled
	Failure     string          `json:"failure"` // the kind of failure, or ""
	Reason      string          `json:"reason"`  // why it did not complete, if known
	Thread      string          `json:"thread"`
	Head        dag.Hash        `json:"head"`
	Attempts    int             `json:"attempts"`
	Tokens      int64           `json:"tokens"`
	StartedAt   int64           `json:"startedAt"`
	EndedAt     int64           `json:"endedAt"`
	Summary     string          `json:"summary"`
	Questions   []string        `json:"questions"`
	NextActions []string        `json:"nextActions"`
	Errors      []string        `json:"errors"`
	Result      json.RawMessage `json:"result"` // null if the plan asks for none
	Artifacts   []ActionFile    `json:"artifacts"`
	Evidence    []string        `json:"evidence"` // ids of its agent's evidence
	Files       *MergeResult    `json:"files"`    // null if it changed none in its own worktree
	// Kept is what its worktree has that cannot be merged, so that it stays; missing if it does not.
	Kept *thread.KeptTree `json:"kept,omitempty"`
}

// An ActionFile is an artifact of an action.
type ActionFile struct {
	Hash dag.Hash `json:"artifact"` // a later plan can pass it on as the input artifact:<hash>
	thread.Artifact
}

// A MergeResult says what happened to the files that an action changed.
type MergeResult struct {
	Branch    string   `json:"branch"`
	Merged    bool     `json:"merged"`
	Conflicts []string `json:"conflicts"`
	Protected []string `json:"protected"` // files that only a person may approve
}

// An Overlap is a file that several actions changed, as shown to the person who was asked about
// the merge.
type Overlap struct {
	File    string   `json:"file"`
	Actions []string `json:"actions"`
}

// A Cited is an entry of the evidence that a text cites.
type Cited struct {
	ID     string `json:"id"`
	Kind   string `json:"kind"`
	Title  string `json:"title"`
	Source string `json:"source"` // in words
}

// A material is what reports are made of.
type material struct {
	nodes   *thread.Reader
	record  view.TaskRecord
	entries map[string]Entry // of the evidence, by id
}

// summary returns the results of a joined round.
func (m material) summary(ctx context.Context, at view.Round) (Summary, error) {
	var meta struct {
		Status    string  `json:"$status"`
		DecidedBy *string `json:"decidedBy"`
		Paths     map[string]struct {
			Meta json.RawMessage `json:"meta"`
		} `json:"paths"`
	}
	json.Unmarshal(at.Join.State.Meta, &meta) // meta of unknown form is skipped
	detail, err := m.detail(ctx, at.Join.State.Detail)
	if err != nil {
		return Summary{}, err
	}
	s := Summary{
		Schema: summarySchema, Task: m.record.Root.ID, Thread: at.Thread, Goal: m.qualify(at.Plan.SessionGoal, at.By),
		Round:   at.N,
		Outcome: meta.Status, Strategy: at.Plan.Join.Strategy, Plan: at.Step.Hash, Join: at.Join.Hash,
		StartedAt: detail.StartedAt, EndedAt: detail.EndedAt, Overlaps: overlapsOf(m.record, at), Actions: []ActionSummary{},
	}
	if meta.DecidedBy != nil {
		s.DecidedBy = *meta.DecidedBy
	}
	threads := view.ActionThreads(m.record.Threads, at.Step.Hash)
	ends := make(map[string]thread.PathHead)
	for _, p := range at.Join.State.Paths {
		ends[p.ID] = p
	}
	for _, a := range at.Plan.Actions {
		sum := ActionSummary{
			ID: a.ID, Title: a.Title, Agent: a.Agent, Mode: a.Mode, Access: string(a.Access), DependsOn: orEmpty(a.DependsOn),
			Status: ends[a.ID].Status, Thread: ends[a.ID].Thread, Head: ends[a.ID].Head,
			Artifacts: []ActionFile{}, Evidence: []string{},
		}
		m.addOutput(&sum, meta.Paths[a.ID].Meta)
		for _, f := range detail.Failures {
			if f.Path == a.ID {
				sum.Failure, sum.Reason = string(f.Kind), f.Message
			}
		}
		if err := m.addAttempts(ctx, &sum, at, threads[a.ID]); err != nil {
			return Summary{}, err
		}
		if detail.Merge != nil {
			for _, side := range detail.Merge.Sides {
				if side.Path == a.ID {
					sum.Files = &MergeResult{side.Branch, side.Merged, orEmpty(side.Conflicts), orEmpty(side.Protected)}
				}
			}
			for _, kept := range detail.Merge.Kept {
				if kept.Path == a.ID {
					sum.Kept = &kept
				}
			}
		}
		s.Tokens += sum.Tokens
		s.Actions = append(s.Actions, sum)
	}
	s.Evidence = m.cited(s.texts()...)
	return s, nil
}

// addOutput fills in the output that an action's agent submitted.
func (m material) addOutput(s *ActionSummary, meta json.RawMessage) {
	var said map[string]any
	json.Unmarshal(meta, &said) // output of unknown form is skipped
	list := func(key string) []string {
		out := []string{}
		all, _ := said[key].([]any)
		for _, one := range all {
			if text, ok := one.(string); ok {
				out = append(out, m.qualify(text, s.ID))
			}
		}
		return out
	}
	s.Summary = m.qualify(flow.Outcome(s.ID, said), s.ID)
	for _, id := range slices.Sorted(maps.Keys(m.entries)) {
		if e := m.entries[id]; e.Thread == s.Thread && !e.Unfinished {
			s.Evidence = append(s.Evidence, id)
		}
	}
	s.Questions, s.NextActions, s.Errors = list("questions"), list("nextActions"), list("errors")
	if result := said["result"]; result != nil {
		s.Result, _ = json.Marshal(result) // it was JSON before
	}
}

// addAttempts fills in the attempts of an action and the files they changed.
func (m material) addAttempts(ctx context.Context, s *ActionSummary, at view.Round, threads []store.Thread) error {
	for _, a := range m.record.Attempts {
		if !slices.ContainsFunc(threads, func(t store.Thread) bool { return t.ID == a.Thread }) {
			continue
		}
		s.Attempts++
		s.Tokens += a.Usage.Tokens()
		s.Agent = a.Agent
		s.EndedAt = max(s.EndedAt, a.EndedAt)
		if s.StartedAt == 0 || a.StartedAt < s.StartedAt {
			s.StartedAt = a.StartedAt
		}
		if a.Failure != nil && s.Status == store.Failed && s.Failure == "" {
			s.Reason = string(a.Failure.Kind) + ": " + a.Failure.Message
		}
	}
	if n := len(threads); n > 0 && threads[n-1].Reason != nil && s.Failure == "" {
		s.Reason = string(threads[n-1].Reason.Kind) + ": " + threads[n-1].Reason.Message
	}
	// Attempts from before a fork are not in the fork's own index, but its steps record them.
	known := s.Attempts > 0
	for h := s.Head; !h.IsZero() && h != at.Step.Hash; {
		step, ok, err := m.nodes.Back(ctx, h, 0)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if thread.Routed(step.State.Role) {
			if err := m.addStep(ctx, s, step, known); err != nil || known {
				return err
			}
		}
		if len(step.State.Ancestors) == 0 {
			break
		}
		h = step.State.Ancestors[0]
	}
	return nil
}

// addStep fills in the files of an action's newest step, and the usage of its steps.
func (m material) addStep(ctx context.Context, s *ActionSummary, step thread.Step, known bool) error {
	if s.StartedAt == 0 || known {
		c, err := m.nodes.Content(ctx, step.State.Content)
		if err != nil {
			return err
		}
		for _, h := range c.Artifacts {
			file, err := m.nodes.Artifact(ctx, h)
			if err != nil {
				return err
			}
			s.Artifacts = append(s.Artifacts, ActionFile{h, *file})
		}
	}
	if known {
		return nil
	}
	d, err := m.detail(ctx, step.State.Detail)
	if err != nil {
		return err
	}
	s.Agent, s.Attempts, s.Tokens = cmp.Or(s.Agent, d.Agent), s.Attempts+1+len(d.Attempts), s.Tokens+d.Usage.Tokens()
	s.StartedAt, s.EndedAt = d.StartedAt, max(s.EndedAt, d.EndedAt)
	return nil
}

// detail reads a detail; without one it is empty.
func (m material) detail(ctx context.Context, h dag.Hash) (*thread.Detail, error) {
	d, err := m.nodes.Detail(ctx, h)
	if err == nil && d == nil || errors.Is(err, store.ErrNotFound) {
		return &thread.Detail{}, nil
	}
	return d, err
}

// overlapsOf returns the files that several actions of a round changed, if a person was asked
// about their merge.
func overlapsOf(r view.TaskRecord, at view.Round) []Overlap {
	out := []Overlap{}
	for _, g := range r.Gates {
		if g.Source != store.SourceMerge || g.From != at.Step.Hash {
			continue
		}
		var act struct {
			Params struct {
				Overlaps map[string][]string `json:"overlaps"`
			} `json:"params"`
		}
		if json.Unmarshal(g.Action, &act) != nil {
			continue
		}
		out = out[:0] // only the newest question counts
		for _, name := range slices.Sorted(maps.Keys(act.Params.Overlaps)) {
			out = append(out, Overlap{name, act.Params.Overlaps[name]})
		}
	}
	return out
}

// texts returns what agents wrote in a summary.
func (s Summary) texts() []string {
	texts := []string{s.Goal}
	for _, a := range s.Actions {
		texts = append(texts, a.Summary, string(a.Result))
		texts = append(append(append(texts, a.Questions...), a.NextActions...), a.Errors...)
	}
	return texts
}

// qualify replaces an instance's citations of its own evidence with full ids.
func (m material) qualify(text, instance string) string {
	return flow.EachCitation(text, func(c, id string) string {
		full := thread.FullID(instance, id)
		if !strings.Contains(id, ".") {
			if _, ok := m.entries[full]; ok {
				return "evidence:" + full
			}
		}
		return c
	})
}

// cited lists the entries that texts cite, in order.
func (m material) cited(texts ...string) []Cited {
	out := []Cited{}
	for _, id := range flow.Citations(strings.Join(texts, "\n")) {
		if e, ok := m.entries[id]; ok {
			out = append(out, Cited{e.ID, e.Kind, e.Title, sources(e)})
		}
	}
	return out
}

// Took says how long an action took, "" if that is not known.
func (s ActionSummary) Took() string { return took(s.EndedAt - s.StartedAt) }

// sources describes where the bytes of an entry came from.
func sources(e Entry) string {
	lines := func(from, to int) string {
		if from == to {
			return fmt.Sprint(from)
		}
		return fmt.Sprintf("%d-%d", from, to)
	}
	var parts []string
	for _, s := range e.Sources {
		var text string
		switch {
		case s.Path != nil && s.StartLine != nil && s.EndLine != nil:
			text = *s.Path + ":" + lines(*s.StartLine, *s.EndLine)
		case s.Path != nil:
			text = *s.Path
		case len(s.Command) > 0:
			if text = strings.Join(s.Command, " "); text == e.Title {
				text = "the command"
			}
			switch {
			case s.Unfinished():
				text += ", which was declined or interrupted and proves nothing"
			case s.ExitCode != nil:
				text += fmt.Sprintf(" (exit %d)", *s.ExitCode)
			}
		case s.StartLine != nil && s.EndLine != nil:
			text = "events " + lines(*s.StartLine, *s.EndLine)
		default:
			text = "events"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}
