package engine

import (
	"sync/atomic"
	"testing"

	"github.com/plait-run/plait/internal/record/store"
)

// A task that is cancelled while its driver is dead ends, along with the unfinished attempt.
func TestCancelWhatIsLeft(t *testing.T) {
	w := newTown(t, nil)
	ctx := t.Context()
	var runs atomic.Int64
	dies, lives := w.store.Share(), w.store.Share()
	dead, a := host(dies, &runs)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		dead.Drive(ctx, w.row.ID)
	}()
	<-a.begun
	dies.Kill()
	defer func() { // what is left of that process in this one
		close(a.on)
		<-ended
	}()

	row, err := w.store.Thread(ctx, w.row.ID)
	if err != nil {
		t.Fatal(err)
	}
	from := row.State()
	row.Intent = store.IntentCancel
	if err := w.store.Forge(ctx, store.Batch{Threads: []store.ThreadChange{{Row: row, From: from}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.engine(lives, 0).Reconcile(ctx, w.row.ID); err != nil {
		t.Fatal(err)
	}
	if row, err = w.store.Thread(ctx, w.row.ID); err != nil || row.Status != store.Cancelled {
		t.Errorf("the task is %s, %v", row.Status, err)
	}
	attempts, err := w.store.Attempts(ctx, store.AttemptFilter{Task: w.row.ID})
	if err != nil || len(attempts) != 1 || attempts[0].Status != store.AttemptInterrupted {
		t.Errorf("the attempts are %+v, %v", attempts, err)
	}
}
