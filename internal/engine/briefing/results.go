package briefing

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/sys/text"
)

// Bounds on what a planner is told about an action. The files in its context directory have the whole.
const (
	maxResult = 8 << 10 // bytes of a result
	maxLine   = 500     // bytes of an error, a question, a next action
)

// An actionResult is what a planner is told about an action. It never includes logs.
type actionResult struct {
	ID          string            `json:"id"`
	Title       string            `json:"title,omitempty"`
	Agent       string            `json:"agent,omitempty"`
	Status      store.Status      `json:"status"`
	Failure     store.FailureKind `json:"failure,omitempty"`
	Why         string            `json:"why,omitempty"` // why it failed, unless its summary has that
	Summary     string            `json:"summary"`
	Result      json.RawMessage   `json:"result,omitempty"` // matches its outputSchema
	ResultBytes int               `json:"resultBytes,omitempty"`
	Errors      []string          `json:"errors"`
	NextActions []string          `json:"nextActions"`
	Questions   []string          `json:"questions"`
	Artifacts   []resultFile      `json:"artifacts"`
	Evidence    []resultEvidence  `json:"evidence"`
	Tokens      int64             `json:"tokens"`
	Seconds     float64           `json:"seconds"`
	File        string            `json:"file,omitempty"` // in the context directory: the whole answer
}

// A resultFile is an artifact that an action left.
type resultFile struct {
	Name     string   `json:"name"`
	Artifact dag.Hash `json:"artifact"` // as an input of an action: artifact:<hash>
	Bytes    int64    `json:"bytes"`
	File     string   `json:"file"` // in the context directory
}

// A resultEvidence is evidence of an action.
type resultEvidence struct {
	ID    string `json:"id"` // full: evidence:<id>
	Title string `json:"title"`
}

// results are the outcomes of a thread's newest actions: what its planner is told about them, and the files it
// is lent.
type results struct {
	join  dag.Hash // zero: no plan was joined since the last prompt to the planner
	text  string
	files []input
}

// results reads the outcomes of the actions of the last joined plan.
func (b *Briefer) results(ctx context.Context, at *record.Position) (results, error) {
	var out results
	if len(at.Last) < 2 || at.Last[1].Role != thread.RoleJoin {
		return out, nil
	}
	var join thread.Step
	for s, err := range b.cfg.Record.Nodes().Walk(ctx, at.Row.Head) {
		if err != nil {
			return out, err
		}
		if s.State.Role == thread.RoleJoin {
			join = s
			break
		}
	}
	plan, err := b.cfg.Record.Plan(ctx, join.State.Fork)
	if err != nil {
		return out, err
	}
	detail, err := b.cfg.Record.Nodes().Detail(ctx, join.State.Detail)
	if err != nil {
		return out, err
	}
	all := []actionResult{}
	for _, p := range join.State.Paths {
		a, _ := plan.Action(p.ID)
		r := actionResult{ID: p.ID, Title: a.Title, Agent: a.Agent, Status: p.Status, Evidence: []resultEvidence{},
			Artifacts: []resultFile{}}
		for _, f := range detail.Failures {
			if f.Path == p.ID {
				r.Failure, r.Why = f.Kind, text.Clip(f.Message, maxResult)
			}
		}
		files, err := b.fill(ctx, at.Row.Task, &r, join.State.Fork, p)
		if err != nil {
			return out, fmt.Errorf("read what action %s came to: %w", p.ID, err)
		}
		all, out.files = append(all, r), append(out.files, files...)
	}
	var encoded bytes.Buffer
	enc := json.NewEncoder(&encoded)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(map[string]any{"actions": all}); err != nil {
		return out, err
	}
	out.join = join.Hash
	out.text = "Results of the actions. A file is in the directory that PLAIT_CONTEXT names; `file` has an action's " +
		"full answer:\n\n" + encoded.String() + "\n"
	return out, nil
}

// fill fills in what an action returned and used, and returns the files that have the whole.
func (b *Briefer) fill(ctx context.Context, task string, r *actionResult, fork dag.Hash, p thread.PathHead) (
	files []input, err error) {
	row := store.Thread{ID: p.Thread, Head: p.Head, Path: &store.Path{ID: p.ID, Fork: fork, Join: thread.RoleJoin}}
	end, steps, err := b.cfg.Record.PathEnd(ctx, row)
	if err != nil {
		return nil, err
	}
	if p.Status == store.Cancelled {
		end.Meta, end.Text = nil, "" // unfinished work is not a result
	}
	r.setAnswer(end)
	if strings.Contains(r.Summary, r.Why) {
		r.Why = "" // the summary has it
	}
	instance := p.ID
	var first, last int64
	used := func(u store.Usage, begun, ended int64) {
		r.Tokens += u.Tokens()
		if first == 0 || begun < first {
			first = begun
		}
		last = max(last, ended)
	}
	for _, s := range slices.Backward(steps) {
		d, err := b.cfg.Record.Nodes().Detail(ctx, s.State.Detail)
		if err != nil {
			return nil, err
		}
		if d != nil {
			used(d.Usage, d.StartedAt, d.EndedAt)
			if d.Instance != "" {
				instance, r.Agent = d.Instance, d.Agent
			}
		}
	}
	if files, err = b.filesOf(ctx, r, steps); err != nil {
		return nil, err
	}
	from, err := b.cfg.Record.Nodes().BeforeEnd(ctx, p.Head)
	if err != nil {
		return nil, err
	}
	tries, err := b.cfg.Store.Attempts(ctx, store.AttemptFilter{Thread: p.Thread, From: from})
	if err != nil {
		return nil, err
	}
	for _, a := range tries {
		if a.From == from && a.Status != store.AttemptDone {
			used(a.Usage, a.StartedAt, a.EndedAt)
			r.Agent = a.Agent
		}
	}
	r.Seconds = float64(last-first) / 1000
	if len(end.Meta) > 0 {
		r.File = "result-" + p.ID + ".json"
		files = append(files, input{file: r.File, data: end.Meta})
	}
	return files, b.addEvidence(ctx, task, r, instance)
}

// setAnswer fills in the answer of an action's agent.
func (r *actionResult) setAnswer(end thread.PathEnd) {
	var said struct {
		Result                         json.RawMessage
		Errors, NextActions, Questions []string
	}
	_ = json.Unmarshal(end.Meta, &said) // skip what does not fit
	r.Summary = end.Text
	if string(said.Result) != "null" {
		r.Result = said.Result
	}
	if len(r.Result) > maxResult {
		r.Result, r.ResultBytes = nil, len(r.Result)
	}
	clipped := func(list []string) []string {
		out := make([]string, len(list))
		for i, s := range list {
			out[i] = text.Clip(s, maxLine)
		}
		return out
	}
	r.Errors, r.NextActions, r.Questions = clipped(said.Errors), clipped(said.NextActions), clipped(said.Questions)
}

// filesOf fills in the artifacts that the steps of an action left, and returns them as files.
func (b *Briefer) filesOf(ctx context.Context, r *actionResult, steps []thread.Step) (files []input, err error) {
	err = b.eachLeft(ctx, steps, func(h dag.Hash, a *thread.Artifact) error {
		f := resultFile{Name: a.Name, Artifact: h, Bytes: a.Size, File: "result-" + r.ID + "-" + h.Short()}
		r.Artifacts = append(r.Artifacts, f)
		files = append(files, input{file: f.File, blob: a.Blob})
		return nil
	})
	return files, err
}

// addEvidence fills in the newest evidence of the instance that did an action.
func (b *Briefer) addEvidence(ctx context.Context, task string, r *actionResult, instance string) error {
	entries, err := b.cfg.Evidence.Newest(ctx, task, instance+".")
	for _, a := range entries {
		r.Evidence = append(r.Evidence, resultEvidence{"evidence:" + a.ID, a.Title})
	}
	return err
}
