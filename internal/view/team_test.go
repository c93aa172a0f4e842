package view_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view"
)

// TestTeamTaskWaits checks that an undriven task of a team needs a person only if no worker serves.
func TestTeamTaskWaits(t *testing.T) {
	running := func(row *store.Thread) { row.Status = store.Running }
	gpu := func(row *store.Thread) { row.Options = json.RawMessage(`{"on":"team","needs":["gpu","linux"]}`) }
	lost := []store.Attempt{{N: 1, Role: "a", Instance: "a", Status: store.AttemptRunning, Host: "build-2"}}
	const since = "2027-01-15T08:00:00Z"
	none := view.Display{State: view.DisplayNeedsYou, Reason: "no worker serves: start one"}
	runs := func(reason string) view.Display { return view.Display{State: view.DisplayRunning, Reason: reason} }
	delayed := func(row *store.Thread) {
		row.Reason = &store.Reason{Kind: store.ReasonWorker, Message: "a: the disk is full", ResetAt: 1_800_000_005_000}
	}
	type changes = []func(*store.Thread)
	for name, c := range map[string]struct {
		change   changes
		attempts []store.Attempt
		leases   []string // of workers; "thread" is the thread's own
		status   store.Status
		want     view.Display
		member   store.Status
	}{
		"no worker":       {nil, nil, nil, store.Pending, none, ""},
		"no worker, runs": {changes{running}, lost, nil, view.Interrupted, none, view.Interrupted},
		"queued": {nil, nil, []string{"worker-b"}, store.Pending,
			view.Display{State: view.DisplayQueued, Reason: "waiting for a worker since " + since}, ""},
		"between steps": {changes{running}, nil, []string{"worker-b"}, store.Running,
			runs("waiting for a worker since " + since), ""},
		"labels": {changes{running, gpu}, nil, []string{"worker-b"}, store.Running,
			runs("waiting for a worker with gpu, linux since " + since), ""},
		"lost": {changes{running}, lost, []string{"worker-b"}, store.Running,
			runs("waiting for a worker: build-2 was lost, last heard of " + since), store.Pending},
		"not able": {changes{delayed}, nil, []string{"worker-b"}, store.Pending,
			view.Display{State: view.DisplayQueued, Reason: "a: the disk is full; tried again at 2027-01-15T08:00:05Z"}, ""},
		"not able before": {changes{running, delayed}, lost, []string{"worker-b", "thread"}, store.Running, runs(""),
			store.Running},
		"no worker is able": {nil, nil, []string{store.UnableLease("b.c", "the disk is full")}, store.Pending,
			view.Display{State: view.DisplayNeedsYou, Reason: "no worker serves: b.c: the disk is full"}, ""},
		"driven": {changes{running}, lost, []string{"worker-build-2", "thread"}, store.Running, runs(""), store.Running},
	} {
		t.Run(name, func(t *testing.T) {
			r, root := newRecord(t)
			row := root.row
			row.Options = json.RawMessage(`{"on":"team"}`)
			for _, f := range c.change {
				f(&row)
			}
			b := store.Batch{Threads: []store.ThreadChange{{Row: row, From: root.row.State()}}}
			for _, a := range c.attempts {
				a.ID, a.Thread, a.StartedAt = row.ID+".a", row.ID, row.UpdatedAt
				b.Attempts = append(b.Attempts, store.AttemptChange{Row: a})
			}
			r.commit(b)
			for _, name := range c.leases {
				if name == "thread" {
					name = "thread-" + row.ID
				}
				l, err := r.store.Acquire(t.Context(), name)
				if err != nil {
					t.Fatal(err)
				}
				defer l.Release()
			}
			views := r.book()
			v, err := views.Task(t.Context(), row)
			if err != nil {
				t.Fatal(err)
			}
			if v.Status != c.status || v.Display != c.want {
				t.Errorf("it is %s, %+v, want %s, %+v", v.Status, v.Display, c.status, c.want)
			}
			if goes := views.Continues(t.Context(), row); goes != slices.ContainsFunc(c.leases, func(name string) bool {
				return strings.HasPrefix(name, store.WorkerLease(""))
			}) {
				t.Errorf("it goes on: %v", goes)
			}
			if v.Next != nil {
				t.Errorf("a person can do %+v", *v.Next)
			}
			for _, m := range v.Roster {
				if m.State != c.member {
					t.Errorf("%s is %s, want %s", m.Instance, m.State, c.member)
				}
			}
			lines, _, err := views.Threads(t.Context(), view.ThreadFilter{})
			if err != nil || len(lines) != 1 || lines[0].Status != c.status {
				t.Errorf("in the list: %+v, %v", lines, err)
			}
		})
	}
}
