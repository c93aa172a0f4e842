package record

import (
	"context"
	"encoding/json"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// A Result is what a thread has come to.
type Result struct {
	Text string        // of $END if the flow gives it one, else of Step
	Own  bool          // it is the text of $END
	Step *thread.State // the last step of a role or a join, nil for none
	End  string        // the text of the thread's last step, "" if it has not ended
}

// Result returns the result of a thread; of one that has not ended, what it has come to so far. An end that the
// flow did not decide, and one without a text of its own, leave the last step's.
func (r *Reader) Result(ctx context.Context, row store.Thread) (Result, error) {
	var out Result
	def, err := r.Definition(ctx, row)
	if err != nil {
		return out, err
	}
	var end *thread.State
	head := row.Head // before the end
	for s, err := range r.nodes.Walk(ctx, row.Head) {
		if err != nil {
			return out, err
		}
		if s.State.Role == thread.RoleEnd {
			end, head = s.State, s.State.Previous()
			continue
		}
		if _, gate := def.Gates[s.State.Role]; thread.Routed(s.State.Role) && !gate {
			out.Step = s.State
			break
		}
	}
	if out.Step != nil {
		if out.Text, err = r.nodes.Said(ctx, out.Step); err != nil {
			return out, err
		}
	}
	if end == nil {
		return out, nil
	}
	if out.End, err = r.nodes.Text(ctx, end.Content); err != nil {
		return out, err
	}
	start, err := r.nodes.Start(ctx, row.Start)
	if err != nil {
		return out, err
	}
	p := &Position{Row: row, Def: def}
	if p.Prompt, err = r.nodes.Text(ctx, start.Prompt); err != nil {
		return out, err
	}
	if p.Last, err = r.steps().Last(ctx, def, head); err != nil {
		return out, err
	}
	var code struct{ ReturnCode int }
	if err := json.Unmarshal(end.Meta, &code); err != nil {
		return out, err
	}
	if d, ok := p.Next().(flow.End); ok && !d.Default && d.Code == code.ReturnCode {
		out.Text, out.Own = out.End, true
	}
	return out, nil
}
