package view

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// A Step is one step of a thread.
type Step struct {
	N           int               `json:"n"` // along the chain, from 1
	Hash        dag.Hash          `json:"hash"`
	Role        string            `json:"role"`
	Meta        json.RawMessage   `json:"meta"`
	Content     dag.Hash          `json:"content"`
	Text        string            `json:"text"`
	Artifacts   []Artifact        `json:"artifacts"`
	Ancestors   []dag.Hash        `json:"ancestors"` // newest first
	Start       dag.Hash          `json:"start"`
	ChildThread dag.Hash          `json:"childThread"` // the last step of the called thread
	Child       string            `json:"child"`       // the id of that thread, or ""
	Path        string            `json:"path"`        // the path it belongs to, or ""
	Main        string            `json:"main"`        // of a join: the path whose conversation it continues, or ""
	Paths       []thread.PathHead `json:"paths"`       // of a join, else null
	Fork        dag.Hash          `json:"fork"`
	Compact     dag.Hash          `json:"compact"`
	Detail      *thread.Detail    `json:"detail"` // null if there is none
	Timestamp   int64             `json:"timestamp"`
	Usage       store.Usage       `json:"usage"`
	Attempts    int               `json:"attempts"` // including failed ones
	Done        *Activity         `json:"done"`     // null if not known

	DetailHash dag.Hash `json:"-"` // of Detail
}

// An Artifact is a file that a step produced.
type Artifact struct {
	Hash      dag.Hash `json:"hash"` // of its node
	Name      string   `json:"name"`
	MediaType string   `json:"mediaType"`
	Size      int64    `json:"size"` // bytes
	Blob      dag.Hash `json:"blob"`
}

// Failure returns why a path of a join failed, nil if it did not or the reason is not known.
func (s Step) Failure(path string) *thread.PathFailure {
	if s.Detail == nil {
		return nil
	}
	i := slices.IndexFunc(s.Detail.Failures, func(f thread.PathFailure) bool { return f.Path == path })
	if i < 0 {
		return nil
	}
	return &s.Detail.Failures[i]
}

// Plain reports whether the text of the step is to be shown as it is, see the function.
func (s Step) Plain() bool { return Plain(s.Detail, s.Meta) }

// FormatField is the field with which a program says what its text is.
const FormatField = "$format"

// Plain reports whether the text of a step is to be shown as it is: a program printed it, and its answer does not say
// $format: markdown. What models and people say is Markdown. detail may be nil.
func Plain(detail *thread.Detail, meta json.RawMessage) bool {
	var said struct {
		Format string `json:"$format"`
	}
	program := detail != nil && detail.Exit != nil && detail.Model == "" && detail.Session == ""
	return program && (json.Unmarshal(meta, &said) != nil || said.Format != "markdown")
}

// A WholeStep is one step and, if requested, the steps it summarizes.
type WholeStep struct {
	Step
	Covers []Covered `json:"covers,omitempty"` // of a summary

	Covered int `json:"-"` // number of summarized steps, listed or not
}

// A Covered step is one that a summary replaces.
type Covered struct {
	N    int      `json:"n"`
	Hash dag.Hash `json:"hash"`
	Role string   `json:"role"`
}

// Step reads the step under h; with expand, also the steps it summarizes. Path is not set.
func (b *Reader) Step(ctx context.Context, h dag.Hash, expand bool) (*WholeStep, error) {
	state, err := b.Nodes.State(ctx, h)
	if err != nil {
		return nil, err
	}
	n, err := b.Nodes.Length(ctx, h)
	if err != nil {
		return nil, err
	}
	v := &WholeStep{}
	if v.Step, err = b.step(ctx, thread.Step{Hash: h, State: state}, n); err != nil {
		return nil, err
	}
	if !state.ChildThread.IsZero() {
		child, err := b.ThreadOf(ctx, state.ChildThread)
		if err != nil {
			return nil, err
		}
		v.Child = child.ID
	}
	one := []Step{v.Step}
	if err := b.fillDone(ctx, one); err != nil {
		return nil, err
	}
	v.Step = one[0]
	if !state.Compact.IsZero() {
		v.Covered = n - 1
	}
	if expand && v.Covered > 0 {
		steps, err := b.Nodes.Steps(ctx, h)
		if err != nil {
			return nil, err
		}
		for i, s := range steps[:v.Covered] {
			v.Covers = append(v.Covers, Covered{i + 1, s.Hash, s.State.Role})
		}
	}
	return v, nil
}

// step reads the nodes of a step.
func (b *Reader) step(ctx context.Context, s thread.Step, n int) (Step, error) {
	st := s.State
	v := Step{
		N: n, Hash: s.Hash, Role: st.Role, Meta: st.Meta, Content: st.Content, Ancestors: st.Ancestors, Start: st.Start,
		ChildThread: st.ChildThread, Paths: st.Paths, Fork: st.Fork, Compact: st.Compact, Timestamp: st.Timestamp,
		Artifacts: []Artifact{}, DetailHash: st.Detail,
	}
	if main := st.MainPath(); main >= 0 {
		v.Main = st.Paths[main].ID
	}
	content, err := b.Nodes.Content(ctx, st.Content)
	if err != nil {
		return v, err
	}
	if v.Text, err = b.Nodes.Said(ctx, st); err != nil {
		return v, err
	}
	for _, h := range content.Artifacts {
		art, err := b.Nodes.Artifact(ctx, h)
		if err != nil {
			return v, err
		}
		v.Artifacts = append(v.Artifacts, Artifact{h, art.Name, art.MediaType, art.Size, art.Blob})
	}
	if v.Detail, err = b.Nodes.Detail(ctx, st.Detail); err != nil {
		return v, err
	}
	if v.Detail != nil {
		v.Usage, v.Attempts = v.Detail.Usage, len(v.Detail.Attempts)+1
	}
	return v, nil
}

// fillDone sets Done of each step.
func (b *Reader) fillDone(ctx context.Context, steps []Step) error {
	var attempts []string
	for _, s := range steps {
		if s.Detail != nil && s.Detail.Session != "" {
			attempts = append(attempts, s.Detail.Attempt)
		}
	}
	back := map[string][]*Activity{} // by attempt, newest first
	err := b.eachItems(ctx, attempts, func(attempt string, items []agent.Event) {
		back[attempt] = append(back[attempt], newActivity(items))
	})
	if err != nil {
		return err
	}
	for i := range steps {
		if steps[i].Detail == nil || back[steps[i].Detail.Attempt] == nil {
			continue
		}
		done := newActivity(nil)
		for _, d := range slices.Backward(back[steps[i].Detail.Attempt]) {
			done.Commands, done.Files, done.Tools = append(done.Commands, d.Commands...), append(done.Files, d.Files...),
				append(done.Tools, d.Tools...)
		}
		steps[i].Done = done
	}
	return nil
}
