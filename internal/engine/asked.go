package engine

import (
	"context"
	"fmt"

	"github.com/plait-run/plait/internal/record/store"
)

// gateState is the state of the gate that a blocked thread waits at.
type gateState int

const (
	noGate gateState = iota
	gateOpen
	gateAnswered
)

// gates reads gates.
type gates interface {
	Gates(ctx context.Context, f store.GateFilter) ([]store.Gate, error)
}

// Continues reports whether a thread goes on by itself: one that is blocked does if its question was answered.
func Continues(ctx context.Context, from gates, row store.Thread) (bool, error) {
	state, _, err := gateOf(ctx, from, row)
	return state == gateAnswered || row.Status == store.Pending || row.Status == store.Running, err
}

// gateOf reads the state of the gate that a thread is blocked at, and when it times out if it is open, in Unix ms,
// or 0 for never.
func gateOf(ctx context.Context, from gates, row store.Thread) (state gateState, expires int64, err error) {
	why := row.Reason
	if row.Status != store.Blocked || why == nil || why.Kind != store.ReasonGate && why.Kind != store.ReasonConflict &&
		(why.Kind != store.ReasonInput || why.Gate == "") {
		return noGate, 0, nil
	}
	all, err := from.Gates(ctx, store.GateFilter{Thread: row.ID})
	if err != nil {
		return noGate, 0, fmt.Errorf("read the gates of thread %s: %w", row.ID, err)
	}
	// Reasons written by older versions do not name their gate: look for an open one.
	for _, g := range all {
		if g.ID == why.Gate || why.Gate == "" && g.From == row.Head && g.State == store.GateOpen {
			if g.State == store.GateOpen {
				return gateOpen, g.ExpiresAt, nil
			}
			return gateAnswered, 0, nil
		}
	}
	if why.Kind == store.ReasonConflict {
		return noGate, 0, nil // it waits until the files stop changing
	}
	return gateAnswered, 0, nil
}
