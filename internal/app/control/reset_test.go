package control

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/record"
	"github.com/plait-run/plait/internal/record/store"
)

// resets returns an agent that meets a usage limit, which ends after an hour, until it has ended.
func resets(t *testing.T) scripted {
	end := time.Now().Add(time.Hour)
	return func(context.Context, agent.Request, func(agent.Event) error) (agent.Result, error) {
		if time.Now().Before(end) {
			return agent.Result{}, &agent.Failure{Kind: agent.Limit, Message: "too much", ResetAt: end}
		}
		return agent.Result{Output: []byte(status("done"))}, nil
	}
}

// TestWaitForReset: a thread waits until a usage limit ends, if it is to, and that takes no attempt.
func TestWaitForReset(t *testing.T) {
	for name, tt := range map[string]struct {
		flow    string
		options record.Options
		waits   bool
	}{
		"the role":   {one("read", "\n    retry: {max: 0, waitForReset: true}"), record.Options{}, true},
		"the task":   {one("write", ""), record.Options{WaitForReset: true}, true},
		"by default": {one("read", ""), record.Options{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(t, map[string]scripted{"work": resets(t)})
				h.clock, h.options = time.Now, tt.options
				h.options.Limits.MaxAttempts = 1
				begun := time.Now()
				row := h.run(tt.flow)
				if !tt.waits {
					wantStatus(t, row, store.Blocked, store.ReasonLimit)
					return
				}
				wantStatus(t, row, store.Completed, "")
				if took := time.Since(begun); took < time.Hour || took > time.Hour+time.Minute || h.runs["work"] != 2 {
					t.Errorf("after %v, %d attempts", took, h.runs["work"])
				}
			})
		})
	}
}

// TestWaitForResetSurvives: another process waits for the rest of the time, and a person can cancel.
func TestWaitForResetSurvives(t *testing.T) {
	for _, cancel := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			h := newHouse(t, map[string]scripted{"work": resets(t)})
			h.clock, h.options = time.Now, record.Options{WaitForReset: true}
			begun := time.Now()
			first := h.controller()
			h.begin(first, one("write", ""))
			ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
			defer stop()
			row, err := first.Drive(ctx, rootID, Resume{})
			if !errors.Is(err, engine.ErrInterrupted) || row.Status != store.Running || row.Reason == nil ||
				!strings.HasPrefix(row.Reason.Message, "waiting for the usage limit until ") {
				t.Fatalf("%s %+v: %v", row.Status, row.Reason, err)
			}
			second, cancelled := h.controller(), make(chan error, 1)
			if cancel {
				time.AfterFunc(10*time.Minute, func() {
					_, err := h.controller().Cancel(t.Context(), rootID)
					cancelled <- err
				})
			} else {
				close(cancelled)
			}
			row = h.drive(second, rootID, Resume{})
			if err := <-cancelled; err != nil {
				t.Error(err)
			}
			took := time.Since(begun).Round(time.Minute)
			if want := map[bool]time.Duration{false: time.Hour, true: 20 * time.Minute}[cancel]; took != want {
				t.Errorf("it took %v, not %v", took, want)
			}
			if cancel {
				wantStatus(t, row, store.Cancelled, "")
			} else if wantStatus(t, row, store.Completed, ""); h.runs["work"] != 2 || row.Reason != nil {
				t.Errorf("%d attempts, reason %+v", h.runs["work"], row.Reason)
			}
		})
	}
}
