package view

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// Waiting are threads that continue by themselves, and that no worker drives.
type Waiting struct {
	Needs  string // the labels that a worker must have, sorted, with commas between them; "" for none
	Drives int
	Oldest time.Duration // since the first of them last changed, by the record's clock
}

// Waiting returns the threads of a team's tasks that wait for a worker, by the labels they need. Those that are to be
// tried again later are not among them.
func (b *Reader) Waiting(ctx context.Context) ([]Waiting, error) {
	open := []store.Status{store.Pending, store.Running, store.Blocked}
	rows, err := b.Store.Threads(ctx, store.ThreadFilter{Statuses: open})
	if err != nil {
		return nil, fmt.Errorf("list what waits for a worker: %w", err)
	}
	tasks := map[string]teamTask{} // of teams, by root
	for _, t := range rows {
		if o, team := teamOf(t); team && t.ID == t.Root {
			tasks[t.ID] = o
		}
	}
	var ready []store.Thread
	var leases []string
	now := b.Store.Now()
	for _, t := range thread.Leaves(rows) {
		if t.Reason != nil && t.Reason.ResetAt > now.UnixMilli() {
			continue
		}
		if _, team := tasks[t.Root]; team && t.Status != store.Blocked {
			ready, leases = append(ready, t), append(leases, store.ThreadLease(t.ID))
		}
	}
	drivers, err := b.Store.Holders(ctx, leases)
	if err != nil {
		return nil, fmt.Errorf("list what waits for a worker: %w", err)
	}
	var list []Waiting
	at := map[string]int{} // of labels, in list
	for i, t := range ready {
		if _, driven := drivers[leases[i]]; driven {
			continue
		}
		needs := strings.Join(slices.Sorted(slices.Values(tasks[t.Root].Needs)), ",")
		n, found := at[needs]
		if !found {
			n = len(list)
			at[needs], list = n, append(list, Waiting{Needs: needs})
		}
		w := &list[n]
		w.Drives++
		w.Oldest = max(w.Oldest, now.Sub(time.UnixMilli(t.UpdatedAt)))
	}
	return list, nil
}
