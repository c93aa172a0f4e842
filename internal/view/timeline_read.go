package view

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/sys/text"
)

// maxTimeline limits the steps of each thread, and the attempts of a task, on its timeline. It
// shows the newest.
const maxTimeline = 1000

// Timeline reads the steps of a task's threads, and lays out the task as of now.
func (b *Reader) Timeline(ctx context.Context, task TaskRecord, now time.Time) (Timeline, error) {
	r := TimelineRecord{TaskRecord: task, Chains: map[string][]ChainStep{}, Now: now.UnixMilli()}
	if r.Cut = len(r.Attempts) > maxTimeline; r.Cut {
		r.Attempts = slices.SortedStableFunc(slices.Values(r.Attempts),
			func(a, b store.Attempt) int { return cmp.Compare(b.StartedAt, a.StartedAt) })[:maxTimeline]
	}
	for _, row := range r.Threads {
		var chain []ChainStep
		for s, err := range b.ownSteps(ctx, row, shared(row)) {
			if err != nil {
				return Timeline{}, err
			}
			if len(chain) == maxTimeline {
				r.Cut = true
				break
			}
			one := newChainStep(s)
			if one.Said = cameOf(s.State.Meta, task.Rounds, s.Hash); one.Said == "" && len(chain) < maxSaid {
				said, err := b.Nodes.Text(ctx, s.State.Content)
				if err != nil {
					return Timeline{}, err
				}
				if one.Said = text.FirstLine(strings.TrimLeft(said, "# \n"), maxCameOf); strings.HasPrefix(one.Said, "{") {
					one.Said = "" // fields, not words
				}
			}
			chain = append(chain, one)
		}
		slices.Reverse(chain)
		r.Chains[row.ID] = chain
	}
	return NewTimeline(r), nil
}

// maxSaid limits for how many steps of a thread, the newest, their text is read, maxCameOf what is kept of it, in
// characters.
const (
	maxSaid   = 100
	maxCameOf = 100
)

// cameOf returns what came of a step: the summary that it gives, or how much it planned; "" if its fields do not say.
func cameOf(meta json.RawMessage, rounds []Round, step dag.Hash) string {
	for _, r := range rounds {
		if r.Step.Hash == step {
			return "planned " + text.Count(len(r.Plan.Actions), "action")
		}
	}
	var m struct {
		Summary string
		Finish  struct{ Summary string }
	}
	json.Unmarshal(meta, &m) // fields of another type are no summary
	return text.FirstLine(cmp.Or(m.Summary, m.Finish.Summary), maxCameOf)
}

func newChainStep(s thread.NumberedStep) ChainStep {
	st := s.State
	c := ChainStep{N: s.N, Hash: s.Hash, Before: st.Start, Role: st.Role, Kind: MarkStep,
		Outcome: Outcome(st.Role, st.Meta), At: st.Timestamp, Child: st.ChildThread}
	if len(st.Ancestors) > 0 {
		c.Before = st.Ancestors[0]
	}
	for _, p := range st.Paths {
		c.Joins = append(c.Joins, p.Thread)
	}
	switch {
	case st.Paths != nil:
		c.Kind = MarkJoin
	case !st.ChildThread.IsZero():
		c.Kind = MarkCall
	case st.Role == thread.RoleEnd:
		c.Kind = MarkEnd
	case !st.Compact.IsZero():
		c.Kind = MarkSummary
	case st.Role == thread.RoleInput:
		c.Kind = MarkInput
	}
	return c
}
