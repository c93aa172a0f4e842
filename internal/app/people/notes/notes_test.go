package notes

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestComeToRest(t *testing.T) {
	for name, tt := range map[string]struct {
		changes time.Duration // for how long it changes
		want    time.Duration
	}{
		"still":           {0, 300 * time.Millisecond},
		"written":         {1000 * time.Millisecond, 1500 * time.Millisecond},
		"without an end":  {time.Hour, 5100 * time.Millisecond},
		"just a moment":   {100 * time.Millisecond, 600 * time.Millisecond},
		"a little longer": {400 * time.Millisecond, 900 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				waitUntilQuiet(t.Context(), defaultQuiet, func() time.Duration { return min(time.Since(begun), tt.changes) })
				if took := time.Since(begun); took != tt.want {
					t.Errorf("it took %s, want %s", took, tt.want)
				}
			})
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	waitUntilQuiet(ctx, time.Hour, func() int { return 0 })
}
