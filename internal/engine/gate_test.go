package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plait-run/plait/internal/record/store"
)

// A run that waits for people continues when a question of its flow times out.
func TestQuestionTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, engine, row := setUpFlow(t, `
version: 1
name: test
roles: {a: {description: d}}
gates: {ask: {kind: input, question: "what?", timeout: 1h, onTimeout: late}}
graph:
  $START: {new: {role: a, prompt: "{{ prompt }}"}}
  a: {done: {role: ask}}
  ask: {answered: {role: $END}, late: {role: $END}}
`, finish)
		cfg := engine().cfg
		cfg.Now, cfg.Wait = time.Now, true
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
		defer cancel()
		begun := time.Now()
		now, err := New(cfg).Run(ctx, row.ID)
		if err != nil || now.Status != store.Completed || time.Since(begun) < time.Hour {
			t.Errorf("the task is %s after %s, %v", now.Status, time.Since(begun), err)
		}
	})
}
