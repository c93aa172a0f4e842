package transfer_test

import (
	"testing"
	"time"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/transfer"
	"github.com/plait-run/plait/internal/record/verify"
	"github.com/plait-run/plait/internal/testing/mem"
)

// TestDriven checks that a task is not copied while a worker of a team drives a thread of it, which it does under the
// lease of that thread.
func TestDriven(t *testing.T) {
	const id = "01K0ABCDEFGHJKMNPQRSTVWXYZ"
	from, to := mem.New(mem.Config{}), mem.New(mem.Config{})
	row := store.Thread{ID: id, Task: id, Root: id, Kind: store.KindRoot, Status: store.Running}
	if err := from.Commit(t.Context(), store.Batch{Threads: []store.ThreadChange{{Row: row}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := from.Acquire(t.Context(), store.ThreadLease(id)); err != nil {
		t.Fatal(err)
	}
	r, err := transfer.Tasks(t.Context(), transfer.Config{From: from, To: to, Now: time.Now})
	if err != nil || len(r.Tasks) != 1 || r.Tasks[0].State != transfer.Driven {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestReservedNames checks that an imported flow does not take a name by which people mean another one.
func TestReservedNames(t *testing.T) {
	for name, want := range map[string]string{"solo": transfer.Differs, "other": transfer.Imported} {
		from, to := mem.New(mem.Config{}), mem.New(mem.Config{})
		data := []byte(`{}`)
		o := store.Object{Hash: dag.Sum(data), Kind: store.Blob, Data: data}
		row := store.Flow{Name: name, Hash: o.Hash}
		if err := from.Commit(t.Context(), store.Batch{Objects: []store.Object{o},
			Flows: []store.FlowChange{{Row: row}}}); err != nil {
			t.Fatal(err)
		}
		r, err := transfer.Tasks(t.Context(), transfer.Config{From: from, To: to, Now: time.Now,
			Reserved: func(name string) bool { return name == "solo" }})
		if err != nil || len(r.Flows) != 1 || r.Flows[0].State != want {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// TestRedactedObject checks that a copy says what it has of an object that was redacted.
func TestRedactedObject(t *testing.T) {
	from, to := mem.New(mem.Config{}), mem.New(mem.Config{})
	o := store.Object{Hash: dag.Sum([]byte("secret")), Data: store.Redacted([]byte("******")), Redacted: true}
	err := from.Commit(t.Context(), store.Batch{Objects: []store.Object{o},
		Flows:  []store.FlowChange{{Row: store.Flow{Name: "x", Hash: o.Hash}}},
		Events: []store.Event{event.New(store.Thread{}, 1, event.TaskRedacted{Objects: 1})}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := transfer.Tasks(t.Context(), transfer.Config{From: from, To: to, Now: time.Now}); err != nil {
		t.Fatal(err)
	}
	r, err := verify.All(t.Context(), verify.Config{Store: to})
	if err != nil || !r.OK() || r.Redacted != 1 || r.Unproven != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}
