package cli

import (
	"context"
	"fmt"

	"github.com/plait-run/plait/internal/engine/attempt"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

// mostRead limits the steps whose answers doctor reads: those of the newest threads.
const mostRead = 20_000

// unread looks for steps that an earlier version recorded as done although their answers cannot be read.
type unread struct {
	reader *record.Reader
	names  *view.Names
	seen   map[dag.Hash]bool // steps, which threads share
	steps  []string          // as people type them
}

// examineAnswers counts such steps, in the newest tasks first.
func examineAnswers(ctx context.Context, s store.Store, nodes *thread.Reader) []Finding {
	v := view.Reader{Store: s, Nodes: nodes, ReadOnly: true}
	u := unread{reader: record.New(nodes, s), names: v.Names(), seen: map[dag.Hash]bool{}}
	rows, err := s.Threads(ctx, store.ThreadFilter{Newest: true, Limit: mostCounted})
	for i := 0; i < len(rows) && err == nil && len(u.seen) < mostRead; i++ {
		err = u.thread(ctx, rows[i])
	}
	f := Finding{What: "answers", OK: true, Steps: u.steps,
		Text: fmt.Sprintf("those of %s can be read", text.Count(len(u.seen), "step"))}
	switch n := len(u.steps); {
	case err != nil:
		f.OK, f.Text, f.Do = false, err.Error(), "run plait verify"
	case n > 0:
		f.OK, f.Warning = false, true
		f.Text = fmt.Sprintf("%d of %d steps count as done though their answers cannot be read: an earlier version took "+
			"them as text", n, len(u.seen))
		f.Do = "list them: plait doctor --jq '.findings[].steps[]?'"
	}
	return []Finding{f}
}

// thread looks at the steps of a thread.
func (u *unread) thread(ctx context.Context, row store.Thread) error {
	n := row.Steps
	for s, err := range u.reader.Nodes().Walk(ctx, row.Head) {
		if err != nil {
			return fmt.Errorf("read the answers of thread %s: %w", row.ID, err)
		}
		if u.seen[s.Hash] || len(u.seen) >= mostRead {
			return nil
		}
		u.seen[s.Hash] = true
		if thread.Routed(s.State.Role) && s.State.Paths == nil && s.State.ChildThread.IsZero() {
			text, err := u.reader.Nodes().Text(ctx, s.State.Content)
			if err != nil {
				return fmt.Errorf("read the answers of thread %s: %w", row.ID, err)
			}
			def, err := u.reader.Definition(ctx, row)
			if err != nil {
				return fmt.Errorf("read the answers of thread %s: %w", row.ID, err)
			}
			if attempt.Unread(s.State, text, def.Roles[s.State.Role]) != nil {
				u.steps = append(u.steps, fmt.Sprintf("%s/%d", u.names.Of(ctx, row), n))
			}
		}
		n--
	}
	return nil
}
