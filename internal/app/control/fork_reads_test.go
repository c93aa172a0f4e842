package control

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/housetest"
)

// A counted store counts the objects that are read.
type counted struct {
	store.Store
	reads *atomic.Int64
}

func (c counted) Get(ctx context.Context, h dag.Hash) (store.Object, error) {
	c.reads.Add(1)
	return c.Store.Get(ctx, h)
}

func (c counted) Many(ctx context.Context, hs []dag.Hash) ([]store.Object, error) {
	c.reads.Add(int64(len(hs)))
	return c.Store.Many(ctx, hs)
}

// A fork near the end of a long thread reads as little as one of a short thread.
func TestForkReadsNoChain(t *testing.T) {
	const short, long = 10, 400
	read := map[int]int64{}
	for _, steps := range []int{short, long} {
		h := newHouse(t, loopAgents())
		row := h.begin(h.controller(), loop)
		for i := range steps {
			row = housetest.Append(t.Context(), t, h.store, row, thread.Draft{Role: "plan",
				Meta: []byte(`{"$status":"ready"}`), Text: "x", At: int64(i), Detail: thread.ByPerson("somebody", 1, 2)})
		}
		var reads atomic.Int64
		h.store = counted{h.store, &reads}
		at := map[int]string{short: "7", long: "397"}[steps]
		if _, err := h.controller().Fork(t.Context(), Fork{Thread: row.ID, At: at}); err != nil {
			t.Fatal(err)
		}
		read[steps] = reads.Load()
	}
	if read[long] > read[short] {
		t.Errorf("%d objects were read of %d steps, %d of %d", read[long], long, read[short], short)
	}
}
