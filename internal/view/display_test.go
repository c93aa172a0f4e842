package view

import (
	"testing"

	"github.com/plait-run/plait/internal/record/store"
)

func TestDisplay(t *testing.T) {
	why := func(kind store.ReasonKind) *Reason { return &Reason{kind, "the reason\nand more"} }
	question := &Gate{Question: "which?\nsay"}
	for _, c := range []struct {
		status   store.Status
		why      *Reason
		question *Gate
		want     Display
	}{
		{store.Pending, nil, nil, Display{DisplayQueued, ""}},
		{store.Running, nil, nil, Display{DisplayRunning, ""}},
		{store.Running, nil, question, Display{DisplayNeedsYou, "which? say"}},
		{Interrupted, nil, nil, Display{DisplayNeedsYou, "interrupted: resume it"}},
		{Interrupted, nil, question, Display{DisplayNeedsYou, "interrupted: resume it"}},
		{store.Blocked, why(store.ReasonGate), question, Display{DisplayNeedsYou, "which? say"}},
		{store.Blocked, why(store.ReasonInput), nil, Display{DisplayNeedsYou, "the reason and more"}},
		{store.Blocked, why(store.ReasonConflict), nil, Display{DisplayNeedsYou, "the reason and more"}},
		{store.Blocked, why(store.ReasonAttempts), nil, Display{DisplayFailed, "the reason and more"}},
		{store.Blocked, why(store.ReasonLimit), nil, Display{DisplayFailed, "the reason and more"}},
		{store.Blocked, why(store.ReasonChild), nil, Display{DisplayFailed, "the reason and more"}},
		{store.Blocked, why(store.ReasonChild), question, Display{DisplayNeedsYou, "which? say"}},
		{store.Completed, nil, question, Display{DisplayDone, ""}},
		{store.Failed, why(store.ReasonFailed), nil, Display{DisplayFailed, "the reason and more"}},
		{store.Cancelled, why(store.ReasonCancelled), question, Display{DisplayCancelled, "the reason and more"}},
	} {
		if got := NewDisplay(c.status, c.why, c.question); got != c.want {
			t.Errorf("%s, %+v: got %+v, want %+v", c.status, c.why, got, c.want)
		}
	}
}
