package view

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/record/store"
)

// Waiting are threads that a worker with certain labels could drive now.
type Waiting struct {
	Needs  string // the labels, with commas between them; "" for none
	Drives int
	Since  time.Time // when the first of them last changed
}

// Waiting returns the threads of a team's tasks that wait for a worker, by the labels they need.
func (b *Reader) Waiting(ctx context.Context) ([]Waiting, error) {
	open := []store.Status{store.Pending, store.Running, store.Blocked}
	rows, err := b.Store.Threads(ctx, store.ThreadFilter{Statuses: open})
	if err != nil {
		return nil, fmt.Errorf("list what waits for a worker: %w", err)
	}
	var ready []store.Thread
	var leases []string
	for _, t := range leaves(rows) {
		if OnTeam(t) {
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
		o, _ := teamOf(t)
		needs := strings.Join(o.Needs, ",")
		n, found := at[needs]
		if !found {
			n = len(list)
			at[needs], list = n, append(list, Waiting{Needs: needs, Since: time.UnixMilli(t.UpdatedAt)})
		}
		w := &list[n]
		w.Drives++
		if since := time.UnixMilli(t.UpdatedAt); since.Before(w.Since) {
			w.Since = since
		}
	}
	return list, nil
}
