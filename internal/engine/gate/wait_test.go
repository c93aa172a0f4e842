package gate_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/mem"
)

// waiting opens g in a synctest bubble and waits for it while do runs.
func waiting(
	t *testing.T, g store.Gate, do func(ctx context.Context, cancel func(), b *gate.Service, g store.Gate),
) (got store.Gate, took time.Duration, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := mem.New(mem.Config{Proven: true})
		b, other := gate.New(gate.Config{Store: s}), gate.New(gate.Config{Store: s.Share()})
		if g.ExpiresAt != 0 {
			g.ExpiresAt += time.Now().UnixMilli()
		}
		g, openErr := b.Open(t.Context(), g)
		if openErr != nil {
			t.Fatal(openErr)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		begun := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			got, err = b.Wait(ctx, g.ID)
			took = time.Since(begun)
		})
		do(ctx, cancel, other, g)
		wg.Wait()
	})
	return got, took, err
}

func TestWaitForAnswer(t *testing.T) {
	got, took, err := waiting(t, approval("make"), func(ctx context.Context, _ func(), b *gate.Service, g store.Gate) {
		for range 3 { // unrelated events wake Wait, but do not end it
			time.Sleep(time.Minute)
			if _, err := b.Open(ctx, question(time.Now().String())); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(time.Hour)
		if _, err := b.Answer(ctx, g.ID, gate.Answer{Approve: true, Via: store.ViaWeb}); err != nil {
			t.Error(err)
		}
	})
	if err != nil || got.State != store.GateApproved || took != time.Hour+3*time.Minute {
		t.Errorf("got %s after %v, %v", got.State, took, err)
	}
}

func TestWaitForClock(t *testing.T) {
	g := approval("make")
	g.ExpiresAt = (2*time.Hour + time.Millisecond).Milliseconds()
	got, took, err := waiting(t, g, func(context.Context, func(), *gate.Service, store.Gate) {})
	if err != nil || got.State != store.GateExpired || took != 2*time.Hour+time.Millisecond {
		t.Errorf("got %s after %v, %v", got.State, took, err)
	}
}

// TestWaitBeforeClock answers a gate before it expires.
func TestWaitBeforeClock(t *testing.T) {
	g := question("?")
	g.ExpiresAt = time.Hour.Milliseconds()
	got, took, err := waiting(t, g, func(ctx context.Context, _ func(), b *gate.Service, g store.Gate) {
		time.Sleep(time.Hour - time.Millisecond)
		if _, err := b.Answer(ctx, g.ID, gate.Answer{Text: "now", Via: store.ViaCLI}); err != nil {
			t.Error(err)
		}
	})
	if err != nil || got.State != store.GateAnswered || took != time.Hour-time.Millisecond {
		t.Errorf("got %s after %v, %v", got.State, took, err)
	}
}

func TestWaitCancelled(t *testing.T) {
	for name, expires := range map[string]time.Duration{"no time": 0, "a time": time.Hour} {
		t.Run(name, func(t *testing.T) {
			g := approval("make")
			g.ExpiresAt = expires.Milliseconds()
			var left store.Gate
			_, took, err := waiting(t, g, func(ctx context.Context, cancel func(), b *gate.Service, g store.Gate) {
				time.Sleep(time.Minute)
				cancel()
				synctest.Wait()
				var err error
				if left, err = b.Gate(context.WithoutCancel(ctx), g.ID); err != nil {
					t.Error(err)
				}
			})
			if !errors.Is(err, context.Canceled) || took != time.Minute || left.State != store.GateOpen {
				t.Errorf("got %v after %v, the gate is %s", err, took, left.State)
			}
		})
	}
}

// TestWaitSlowTimer lets the clock pass the gate's expiry while the timer still runs.
func TestWaitSlowTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var skew atomic.Int64
		b := gate.New(gate.Config{
			Store: mem.New(mem.Config{Proven: true}),
			Now:   func() time.Time { return time.Now().Add(time.Duration(skew.Load())) },
		})
		g := approval("make")
		g.ExpiresAt = time.Now().Add(time.Hour).UnixMilli()
		g, err := b.Open(t.Context(), g)
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() { g, err = b.Wait(t.Context(), g.ID) })
		synctest.Wait()
		skew.Store(int64(time.Hour)) // the machine slept
		wg.Wait()
		if took := time.Since(begun); err != nil || g.State != store.GateExpired || took > time.Minute {
			t.Errorf("got %s after %v, %v", g.State, took, err)
		}
	})
}

func TestWaitOver(t *testing.T) {
	d := newDesk(t)
	g := d.answer(d.open(approval("make")), gate.Answer{Reject: true})
	if got, err := d.Wait(t.Context(), g.ID); err != nil || got.State != store.GateRejected {
		t.Errorf("got %s, %v", got.State, err)
	}
}
