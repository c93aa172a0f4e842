package view

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/prompt"
	"github.com/plait-run/plait/internal/record/thread"
)

// A Prompt is the exact prompt of a step, and what it was assembled from.
type Prompt struct {
	Step    dag.Hash `json:"step"`
	N       int      `json:"n"` // along the chain
	Role    string   `json:"role"`
	Prompt  dag.Hash `json:"prompt"`
	Bytes   int      `json:"bytes"`
	Tokens  int      `json:"tokens"` // estimate
	Context []Use    `json:"context"`
	Text    string   `json:"text"`
}

// A Use is an earlier step and the form in which it was included.
type Use struct {
	Step   dag.Hash `json:"step"`
	Form   string   `json:"form"` // one of thread.Form…
	N      int      `json:"n"`    // 0: not a step of this thread
	Role   string   `json:"role"`
	Bytes  int      `json:"bytes"`  // as included, without the fence
	Tokens int      `json:"tokens"` // estimate
}

// ErrNoPrompt is the error for a step that was not made by an agent.
var ErrNoPrompt = errors.New("has no prompt: no agent was asked")

// Prompt reads the prompt of a step of the chain at head. step is a number along the chain or a
// hash prefix. It returns ErrNoPrompt if the step has none.
func (b *Reader) Prompt(ctx context.Context, head dag.Hash, step string) (*Prompt, error) {
	r := b.Nodes
	s, n, err := r.Find(ctx, head, step)
	if err != nil {
		return nil, err
	}
	if s.State == nil || s.State.Detail.IsZero() {
		return nil, fmt.Errorf("step %d %w", n, ErrNoPrompt)
	}
	d, err := r.Detail(ctx, s.State.Detail)
	if err != nil {
		return nil, err
	}
	if d.Prompt.IsZero() {
		return nil, fmt.Errorf("step %d %w", n, ErrNoPrompt)
	}
	v := &Prompt{Step: s.Hash, N: n, Role: s.State.Role, Prompt: d.Prompt, Context: []Use{}}
	if v.Text, err = prompt.Read(ctx, r, d.Prompt); err != nil {
		return nil, err
	}
	v.Bytes, v.Tokens = len(v.Text), prompt.ApproxTokens(len(v.Text))
	steps, err := r.Steps(ctx, s.Hash)
	if err != nil {
		return nil, err
	}
	uses, err := prompt.Uses(ctx, r, steps, d.Context)
	if err != nil {
		return nil, err
	}
	for _, u := range uses {
		if u.Form == thread.FormFull { // of a join perhaps without what the step before it said
			st, err := r.State(ctx, u.Step)
			if err != nil {
				return nil, err
			}
			brief, err := r.Brief(ctx, st)
			if err != nil {
				return nil, err
			}
			if brief != nil {
				if words := brief.Text(""); strings.Contains(v.Text, strings.TrimRight(words, "\n")) {
					u.Form, u.Bytes = thread.FormBrief, len(words)
				}
			}
		}
		v.Context = append(v.Context, Use{u.Step, u.Form, u.N, u.Role, u.Bytes, prompt.ApproxTokens(u.Bytes)})
	}
	return v, nil
}
