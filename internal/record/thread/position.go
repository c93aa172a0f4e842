package thread

import (
	"context"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/record/dag"
)

// MainPath returns the index in s.Paths of the path whose conversation a join continues, or -1 if s
// is not a join or follows the fork point itself.
func (s *State) MainPath() int {
	if len(s.Ancestors) == 0 || s.Ancestors[0] == s.Fork {
		return -1
	}
	for i, p := range s.Paths {
		if p.Head == s.Ancestors[0] {
			return i
		}
	}
	return -1
}

// StepPaths returns, for each of steps (oldest first), the path that it belongs to: the path's id,
// prefixed with those of enclosing joined paths ("api/left"). It is "" for a step on no path, or
// on own, the path of the thread whose chain it is. For steps that do not record their path, only
// joined paths are known.
func StepPaths(steps []Step, own string) []string {
	type span struct {
		id   string
		fork dag.Hash
	}
	var open []span // outermost first
	via := make([]string, len(steps))
	for i := len(steps) - 1; i >= 0; i-- {
		s := steps[i]
		for len(open) > 0 && open[len(open)-1].fork == s.Hash {
			open = open[:len(open)-1]
		}
		ids := make([]string, len(open))
		for j, o := range open {
			ids[j] = o.id
		}
		if via[i] = strings.Join(ids, "/"); via[i] == "" && s.State.Path.ID != own {
			via[i] = s.State.Path.ID
		}
		if main := s.State.MainPath(); main >= 0 {
			open = append(open, span{s.State.Paths[main].ID, s.State.Fork})
		}
	}
	return via
}

// Summarised returns how many of steps, oldest first, the newest summary replaces: those before
// it. It is 0 without a summary.
func Summarised(steps []Step) int {
	for i := len(steps) - 1; i >= 0; i-- {
		if !steps[i].State.Compact.IsZero() {
			return i
		}
	}
	return 0
}

// ApproxTokens estimates the number of tokens in n bytes, as quotas do.
func ApproxTokens(n int) int { return (n + bytesPerToken - 1) / bytesPerToken }

// A Use is one step of a ContextUse, as shown to people.
type Use struct {
	Step  dag.Hash
	N     int // number along the chain, 0: not a step of this chain
	Role  string
	Form  string
	Bytes int // what was included of the step, 0: nothing
}

// Uses looks up which earlier steps were included in the prompt of the last of steps, oldest
// first.
func (r *Reader) Uses(ctx context.Context, steps []Step, uses []ContextUse) ([]Use, error) {
	at := make(map[dag.Hash]int, len(steps))
	for i, s := range steps {
		at[s.Hash] = i + 1
	}
	var out []Use
	for _, u := range slices.Backward(uses) {
		for s, err := range r.Walk(ctx, u.To) {
			if err != nil {
				return nil, err
			}
			use := Use{Step: s.Hash, N: at[s.Hash], Role: s.State.Role, Form: u.Form}
			told := s.State.Content
			switch u.Form {
			case FormMeta:
				use.Bytes, told = len(s.State.Meta), dag.Hash{}
			case FormSummary:
				told = s.State.Compact
			case FormBrief:
				_, alone, err := r.briefly(ctx, s.State)
				if err != nil {
					return nil, err
				}
				use.Bytes, told = len(alone), dag.Hash{}
			case FormFull:
			default:
				told = dag.Hash{}
			}
			if !told.IsZero() {
				text, err := r.Text(ctx, told)
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
