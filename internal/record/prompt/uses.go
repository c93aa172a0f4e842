package prompt

import (
	"context"
	"slices"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/thread"
)

// ApproxTokens estimates the number of tokens in n bytes, as quotas do.
func ApproxTokens(n int) int { return (n + bytesPerToken - 1) / bytesPerToken }

// A Use is one step of a [thread.ContextUse], as shown to people.
type Use struct {
	Step  dag.Hash
	N     int // number along the chain, 0: not a step of this chain
	Role  string
	Form  string
	Bytes int // what was included of the step, 0: nothing
}

// Uses looks up which earlier steps were included in the prompt of the last of steps, oldest
// first.
func Uses(ctx context.Context, nodes *thread.Reader, steps []thread.Step, uses []thread.ContextUse) ([]Use, error) {
	at := make(map[dag.Hash]int, len(steps))
	for i, s := range steps {
		at[s.Hash] = i + 1
	}
	var out []Use
	for _, u := range slices.Backward(uses) {
		for s, err := range nodes.Walk(ctx, u.To) {
			if err != nil {
				return nil, err
			}
			use := Use{Step: s.Hash, N: at[s.Hash], Role: s.State.Role, Form: u.Form}
			told := s.State.Content
			switch u.Form {
			case thread.FormMeta:
				use.Bytes, told = len(s.State.Meta), dag.Hash{}
			case thread.FormSummary:
				told = s.State.Compact
			case thread.FormBrief:
				brief, err := nodes.Brief(ctx, s.State)
				if err != nil {
					return nil, err
				}
				if told = (dag.Hash{}); brief != nil {
					use.Bytes = len(withoutMain(brief))
				}
			case thread.FormFull:
			default:
				told = dag.Hash{}
			}
			if !told.IsZero() {
				text, err := nodes.Text(ctx, told)
				if err != nil {
					return nil, err
				}
				use.Bytes = len(text)
			}
			out = append(out, use)
			if s.Hash == u.From {
				break
			}
		}
	}
	slices.Reverse(out)
	return out, nil
}
