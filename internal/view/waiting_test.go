package view_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/record/store"
)

// A thread of a team waits while no worker drives it, unless it waits for something else.
func TestWaiting(t *testing.T) {
	for name, c := range map[string]struct {
		options string
		status  store.Status
		driven  bool
		later   time.Duration // until it is tried again
		want    string        // the labels it is counted under, "none" if it is not
	}{
		"not begun":    {`{"on":"team"}`, store.Pending, false, 0, ""},
		"runs":         {`{"on":"team"}`, store.Running, false, 0, ""},
		"needs labels": {`{"on":"team","needs":["linux","gpu"]}`, store.Running, false, 0, "gpu,linux"},
		"driven":       {`{"on":"team"}`, store.Running, true, 0, "none"},
		"blocked":      {`{"on":"team"}`, store.Blocked, false, 0, "none"},
		"ended":        {`{"on":"team"}`, store.Completed, false, 0, "none"},
		"not a team's": {`{}`, store.Running, false, 0, "none"},
		"tried later":  {`{"on":"team"}`, store.Running, false, time.Minute, "none"},
		"tried again":  {`{"on":"team"}`, store.Running, false, -time.Minute, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, root := newRecord(t)
			row := root.row
			row.Options, row.Status = json.RawMessage(c.options), c.status
			now := r.store.Now()
			if c.later != 0 {
				row.Reason = &store.Reason{Kind: store.ReasonWorker, ResetAt: now.Add(c.later).UnixMilli()}
			}
			r.commit(store.Batch{Threads: []store.ThreadChange{{Row: row, From: root.row.State()}}})
			if c.driven {
				l, err := r.store.Acquire(t.Context(), store.ThreadLease(row.ID))
				if err != nil {
					t.Fatal(err)
				}
				defer l.Release()
			}
			got, err := r.book().Waiting(t.Context())
			switch {
			case err != nil:
				t.Fatal(err)
			case c.want == "none":
				if len(got) > 0 {
					t.Errorf("%v wait", got)
				}
			case len(got) != 1 || got[0].Needs != c.want || got[0].Drives != 1 ||
				got[0].Oldest < now.Sub(time.UnixMilli(row.UpdatedAt)):
				t.Errorf("%v wait", got)
			}
		})
	}
}

// Paths that have not begun wait too, but not the thread that forked them.
func TestPathsWait(t *testing.T) {
	r, root := newRecord(t)
	fork := root.row
	fork.Options, fork.Status = json.RawMessage(`{"on":"team"}`), store.Running
	changes := []store.ThreadChange{{Row: fork, From: root.row.State()}}
	for _, id := range []string{"one", "two"} {
		path := fork
		path.ID, path.Short, path.Kind, path.Status, path.Options = id, "", store.KindPath, store.Pending, nil
		path.Parent = &store.Parent{Thread: fork.ID, From: fork.Head}
		changes = append(changes, store.ThreadChange{Row: path})
	}
	r.commit(store.Batch{Threads: changes})
	got, err := r.book().Waiting(t.Context())
	if err != nil || len(got) != 1 || got[0].Drives != 2 {
		t.Errorf("%v wait, %v; want 2 threads", got, err)
	}
}
