package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
)

// A frameView is one node of a call stack.
type frameView struct {
	Hash   dag.Hash `json:"hash"`
	Type   string   `json:"type"` // state or start
	Role   string   `json:"role"` // of a state
	Flow   string   `json:"flow"`
	Depth  int      `json:"depth"`
	Thread string   `json:"thread"` // "" where the index knows none
}

// showStack prints the way from a thread's head, or a step, up to the top.
func (a *app) showStack(cmd *cobra.Command, w *workplace, what shown) error {
	ctx := cmd.Context()
	frames, err := w.control.Reader().Stack(ctx, what.head)
	if err != nil {
		return err
	}
	if what.row.ID == "" {
		if what.row, err = w.threadOf(ctx, what.head); err != nil {
			return err
		}
	}
	kin, err := w.kin(ctx, what.row)
	if err != nil {
		return err
	}
	views := make([]frameView, 0, len(frames))
	row := what.row
	for _, f := range frames {
		if f.Type == dag.TypeStart {
			row = kin.Chain(row)
		}
		views = append(views, frameView{f.Hash, f.Type, f.Role, f.Flow, f.Depth, row.ID})
		if f.Type == dag.TypeStart {
			row, _ = kin.Caller(row)
		}
	}
	return a.print(cmd, map[string]any{"stack": views}, func(out io.Writer) {
		tw := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
		for _, f := range views {
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\tdepth %d\t%s\n", f.Type, f.Hash.Short(), safe(f.Role), safe(f.Flow), f.Depth, f.Thread)
		}
		tw.Flush()
	})
}

// kin reads what the index knows around row; of the zero Thread, nothing.
func (w *workplace) kin(ctx context.Context, row store.Thread) (thread.Kin, error) {
	if row.ID == "" {
		return thread.Kin{}, nil
	}
	return thread.ReadKin(ctx, w.store, row)
}

// maxLooked bounds in how many threads with the same start a step is looked for.
const maxLooked = 64

// threadOf finds the thread that a step or start belongs to, or the zero Thread:
// the one whose agent made it; else one that ends at it; else the oldest on whose
// chain it lies.
func (w *workplace) threadOf(ctx context.Context, h dag.Hash) (store.Thread, error) {
	r := w.control.Reader()
	startHash, err := r.StartOf(ctx, h)
	if err != nil {
		return store.Thread{}, err
	}
	if startHash != h {
		s, err := r.State(ctx, h)
		if err != nil {
			return store.Thread{}, err
		}
		d, err := r.Detail(ctx, s.Detail)
		if err != nil {
			return store.Thread{}, err
		}
		if d != nil && d.Attempt != "" {
			id, _, _ := strings.Cut(d.Attempt, ".")
			row, err := w.store.Thread(ctx, id)
			if !errors.Is(err, store.ErrNotFound) {
				return row, err
			}
		}
	}
	start, err := r.Start(ctx, startHash)
	if err != nil {
		return store.Thread{}, err
	}
	rows, err := w.store.Threads(ctx, store.ThreadFilter{Bundle: start.Hash})
	if err != nil {
		return store.Thread{}, err
	}
	var on []store.Thread
	for _, row := range rows {
		switch {
		case row.Start != startHash:
		case row.Head == h:
			return row, nil
		case len(on) < maxLooked:
			on = append(on, row)
		}
	}
	for _, row := range on {
		if startHash == h {
			return row, nil
		}
		for s, err := range r.Walk(ctx, row.Head) {
			if err != nil {
				return store.Thread{}, err
			}
			if s.Hash == h {
				return row, nil
			}
		}
	}
	return store.Thread{}, nil
}
