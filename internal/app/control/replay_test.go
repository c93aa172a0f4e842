package control

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/proc"
)

// A store without questions fails to list those that are open, once it is told to.
type withoutQuestions struct {
	store.Store
	fails *atomic.Bool
}

var errQuestions = errors.New("no questions today")

func (s withoutQuestions) Gates(ctx context.Context, f store.GateFilter) ([]store.Gate, error) {
	if f.State == store.GateOpen && s.fails.Load() {
		return nil, errQuestions
	}
	return s.Store.Gates(ctx, f)
}

// A replay whose answers cannot be given says why, and does not wait for a person.
func TestReplayWithoutAnswers(t *testing.T) {
	if proc.Bubblewrap() == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("bubblewrap is not installed")
		}
		t.Skip("NOT TESTED: bubblewrap is not installed")
	}
	h := newHouse(t, gatedAgents())
	h.repository()
	row := h.run(gated)
	h.answer(h.gates(row.ID, 1)[0].ID, true)
	row = h.drive(h.controller(), row.ID, Resume{})
	open, err := h.controller().Gates().Gates(t.Context(), store.GateFilter{Thread: row.ID, State: store.GateOpen})
	if err != nil || len(open) != 1 {
		t.Fatalf("open gates: %+v: %v", open, err)
	}
	if _, err := h.controller().Gates().Answer(t.Context(), open[0].ID,
		gate.Answer{Text: "8080", By: "ann", Via: store.ViaCLI}); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, h.drive(h.controller(), row.ID, Resume{}), store.Completed, "")

	var fails atomic.Bool
	h.store = withoutQuestions{h.store, &fails}
	r, err := h.controller().Replay(t.Context(), row.ID, false)
	if err != nil {
		t.Fatal(err)
	}
	fails.Store(true)
	done, err := r.Drive(t.Context())
	if !errors.Is(err, errQuestions) || strings.Contains(err.Error(), "cancel") {
		t.Errorf("the replay says %v, want %v", err, errQuestions)
	}
	wantStatus(t, done.Row, store.Cancelled, "")
}
