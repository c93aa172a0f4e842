package web

import (
	"context"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view"
)

// shownLive limits the unfinished tasks that the inbox shows.
const shownLive = 200

// attention lists what needs a person: open gates, and tasks that are not driven and ask nothing.
type attention struct {
	open []store.Gate
	rows map[string]bool // by task
}

func (n attention) count() int { return len(n.open) + len(n.rows) }

// needs reads what needs a person in the workspace.
func (s *Server) needs(ctx context.Context) (attention, error) {
	out := attention{rows: map[string]bool{}}
	var err error
	if out.open, err = s.views.Gates(ctx, view.GateFilter{State: store.GateOpen}); err != nil {
		return out, err
	}
	asks := map[string]bool{}
	for _, g := range out.open {
		asks[g.Task] = true
	}
	rows, err := s.cfg.Store.Threads(ctx, store.ThreadFilter{Kind: store.KindRoot, Newest: true,
		Workspace: s.cfg.Workspace, Statuses: []store.Status{store.Running, store.Blocked}, Limit: shownLive})
	if err != nil {
		return out, err
	}
	for _, row := range rows {
		if !asks[row.ID] && row.Intent != store.IntentDismiss && !s.work.drives(row.ID) && (row.Status == store.Blocked || !s.views.Continues(ctx, row)) {
			out.rows[row.ID] = true
		}
	}
	return out, nil
}
