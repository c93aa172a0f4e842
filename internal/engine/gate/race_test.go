package gate_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/store/sqlite"
	"github.com/plait-run/plait/internal/testing/mem"
)

// racers is how many goroutines try the same thing concurrently.
const racers = 20

// onStores runs a test on a store of each kind, with the services of two processes.
func onStores(t *testing.T, test func(t *testing.T, s store.Store, services []*gate.Service)) {
	t.Run("mem", func(t *testing.T) {
		s := mem.New(mem.Config{Proven: true})
		test(t, s, []*gate.Service{gate.New(gate.Config{Store: s}), gate.New(gate.Config{Store: s.Share()})})
	})
	t.Run("sqlite", func(t *testing.T) {
		defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
		dir := t.TempDir()
		var services []*gate.Service
		var first store.Store
		for range 2 {
			s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}()
			if first == nil {
				first = s
			}
			services = append(services, gate.New(gate.Config{Store: s}))
		}
		test(t, first, services)
	})
}

// race runs do in many goroutines and returns the gates of those that won; the others
// must have failed with a StateError.
func race(t *testing.T, services []*gate.Service, do func(b *gate.Service, i int) (store.Gate, error)) (won []store.Gate) {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range racers {
		wg.Go(func() {
			<-start
			g, err := do(services[i%len(services)], i)
			var se *gate.StateError
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				won = append(won, g)
			case !errors.As(err, &se):
				t.Errorf("racer %d: %v", i, err)
			}
		})
	}
	close(start)
	wg.Wait()
	return won
}

func told(t *testing.T, s store.Store, typ string) (n int) {
	t.Helper()
	events, err := s.Events(t.Context(), 0, store.EventFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if e.Type == typ {
			n++
		}
	}
	return n
}

func TestRace(t *testing.T) {
	onStores(t, func(t *testing.T, s store.Store, services []*gate.Service) {
		ctx := t.Context()
		opened := race(t, services, func(b *gate.Service, i int) (store.Gate, error) {
			g := approval("make")
			g.Instance = fmt.Sprint("coder-", i)
			return b.Open(ctx, g)
		})
		if len(opened) != racers || told(t, s, "gate.blocked") != 1 {
			t.Fatalf("%d racers got a gate, %d were opened", len(opened), told(t, s, "gate.blocked"))
		}
		g := opened[0]
		for _, other := range opened {
			if other.ID != g.ID || other.Instance != g.Instance {
				t.Errorf("opened %s for %s and %s for %s", g.ID, g.Instance, other.ID, other.Instance)
			}
		}

		won := race(t, services, func(b *gate.Service, i int) (store.Gate, error) {
			return b.Answer(ctx, g.ID,
				gate.Answer{Approve: i%4 < 2, Reject: i%4 >= 2, By: fmt.Sprint("racer ", i), Via: store.ViaCLI})
		})
		kept, err := s.Gate(ctx, g.ID)
		if err != nil || len(won) != 1 || kept.By != won[0].By || kept.State != won[0].State {
			t.Fatalf("%d won; %s by %s is kept, %v", len(won), kept.State, kept.By, err)
		}
		if n := told(t, s, "gate.approved") + told(t, s, "gate.rejected"); n != 1 {
			t.Errorf("%d answers are told", n)
		}

		for i, grant := range []store.Grant{store.GrantOnce, store.GrantSession} {
			g, err := services[0].Open(ctx, approval(string(grant)))
			if err != nil {
				t.Fatal(err)
			}
			if g, err = services[1].Answer(ctx, g.ID, gate.Answer{Approve: true, Grant: grant, Via: store.ViaCLI}); err != nil {
				t.Fatal(err)
			}
			before := told(t, s, "gate.used")
			used := race(t, services, func(b *gate.Service, _ int) (store.Gate, error) { return b.Use(ctx, g) })
			want := []int{1, racers}[i]
			if n := told(t, s, "gate.used") - before; len(used) != want || n != want {
				t.Errorf("granted %s: %d used it, %d uses are told, want %d", grant, len(used), n, want)
			}
		}
	})
}

// TestRaceOfEnds races answers with a withdrawal.
func TestRaceOfEnds(t *testing.T) {
	onStores(t, func(t *testing.T, s store.Store, services []*gate.Service) {
		ctx := t.Context()
		g, err := services[0].Open(ctx, question("?"))
		if err != nil {
			t.Fatal(err)
		}
		waited := make(chan store.Gate, 1)
		go func() {
			got, err := services[1].Wait(ctx, g.ID)
			if err != nil {
				t.Error(err)
			}
			waited <- got
		}()
		won := race(t, services, func(b *gate.Service, i int) (store.Gate, error) {
			if i == 0 {
				return b.Withdraw(ctx, g, "gone")
			}
			return b.Answer(ctx, g.ID, gate.Answer{Text: fmt.Sprint(i), Via: store.ViaWeb})
		})
		if len(won) != 1 {
			t.Fatalf("%d ended the gate", len(won))
		}
		if got := <-waited; got.State != won[0].State || got.Text != won[0].Text {
			t.Errorf("waited for %s %q, won %s %q", got.State, got.Text, won[0].State, won[0].Text)
		}
		n := 0
		for _, typ := range []string{"gate.withdrawn", "gate.expired", "gate.answered"} {
			n += told(t, s, typ)
		}
		if n != 1 {
			t.Errorf("%d ends are told", n)
		}
	})
}

// A meddler lets another process act once, just before a gate is read or a batch is
// committed.
type meddler struct {
	*mem.Store
	read, commit func()
}

func once(f *func()) {
	if do := *f; do != nil {
		*f = nil
		do()
	}
}

func (m *meddler) Gate(ctx context.Context, id string) (store.Gate, error) {
	once(&m.read)
	return m.Store.Gate(ctx, id)
}

func (m *meddler) Commit(ctx context.Context, b store.Batch) error {
	once(&m.commit)
	return m.Store.Commit(ctx, b)
}

// TestMeddler lets the other process act at the worst possible times.
func TestMeddler(t *testing.T) {
	ctx := t.Context()
	m := &meddler{Store: mem.New(mem.Config{Proven: true})}
	b, other := gate.New(gate.Config{Store: m}), gate.New(gate.Config{Store: m.Share()})
	var g store.Gate
	do := func(f func() (store.Gate, error)) func() {
		return func() {
			var err error
			if g, err = f(); err != nil {
				t.Error(err)
			}
		}
	}
	for name, at := range map[string]*func(){"the id is chosen": &m.read, "the row is written": &m.commit} {
		*at = do(func() (store.Gate, error) { return other.Open(ctx, approval(name)) })
		if got, err := b.Open(ctx, approval(name)); err != nil || got.ID != g.ID {
			t.Errorf("opened just before %s: got %s, %v, want %s", name, got.ID, err, g.ID)
		}
	}
	if n := told(t, m, "gate.blocked"); n != 2 {
		t.Errorf("%d gates were opened, want 2", n)
	}
	m.commit = do(func() (store.Gate, error) {
		return other.Answer(ctx, g.ID, gate.Answer{Approve: true, By: "the other", Via: store.ViaCLI})
	})
	got, err := b.Answer(ctx, g.ID, gate.Answer{Reject: true, Via: store.ViaCLI})
	inState(t, err, store.GateApproved)
	if got.By != "the other" {
		t.Errorf("the winner is %q", got.By)
	}
	m.commit = do(func() (store.Gate, error) { return other.Use(ctx, g) })
	_, err = b.Use(ctx, g)
	inState(t, err, store.GateApproved)
	if n := told(t, m, "gate.used"); n != 1 {
		t.Errorf("%d uses are told, want 1", n)
	}
}

// An answer ends with the conflict if what is committed beside it conflicts, and the gate stays open.
func TestConflictBeside(t *testing.T) {
	d := newDesk(t)
	g := d.open(question("?"))
	w := store.Request{ID: "01JD0000000000000000000009", Task: "T", Kind: store.RequestInput, Text: "this", By: "p",
		Via: store.ViaCLI, At: 1}
	if err := d.store.Forge(t.Context(), store.Batch{Requests: []store.RequestChange{{Row: w}}}); err != nil {
		t.Fatal(err)
	}
	w.TakenAt = 1
	take := store.Batch{Requests: []store.RequestChange{{Row: w, Take: true}}}
	if err := d.store.Commit(t.Context(), take); err != nil {
		t.Fatal(err)
	}
	m := &meddler{Store: d.store}
	m.commit = func() { m.commit = func() { t.Fatal("it is committed again") } }
	got, err := gate.New(gate.Config{Store: m}).Answer(t.Context(), g.ID,
		gate.Answer{Text: "this", By: "p", Via: store.ViaResume, Beside: take})
	if !errors.Is(err, store.ErrConflict) || got.State != store.GateOpen {
		t.Errorf("the gate is %s, %v", got.State, err)
	}
}
