package view

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/plait-run/plait/internal/record/store"
)

// A Host is a machine that runs, or ran, agents of tasks that have not ended.
type Host struct {
	Name  string     `json:"name"`  // "" if not recorded
	Now   []HostWork `json:"now"`   // running, longest first
	Lost  []HostWork `json:"lost"`  // interrupted, newest first
	Ended int        `json:"ended"` // number of attempts that ended normally
}

// HostWork is an attempt on a host.
type HostWork struct {
	Task      string `json:"task"`
	Short     string `json:"short"`
	Title     string `json:"title"`
	Thread    string `json:"thread"`
	Attempt   string `json:"attempt"`
	Role      string `json:"role"`
	Agent     string `json:"agent"`
	StartedAt Time   `json:"startedAt"`
	EndedAt   Time   `json:"endedAt"` // 0: it has not ended
	// Alone reports whether the attempt is recorded as running but no process drives its
	// thread: the host may be gone. Once that is certain, another host takes over.
	Alone bool `json:"alone"`
	// Next is the attempt that took over interrupted work, null if there is none yet.
	Next *HostNext `json:"next"`
}

// HostNext is the attempt after an interrupted one.
type HostNext struct {
	Host    string              `json:"host"`
	Attempt string              `json:"attempt"`
	Status  store.AttemptStatus `json:"status"`
}

// hostTasks limits how many unfinished tasks are searched for hosts.
const hostTasks = 500

// Hosts lists the machines on which agents of unfinished tasks were started, by name.
func (b *Reader) Hosts(ctx context.Context) ([]Host, error) {
	roots, err := b.Store.Threads(ctx, store.ThreadFilter{Kind: store.KindRoot, Newest: true, Limit: hostTasks,
		Statuses: []store.Status{store.Pending, store.Running, store.Blocked}})
	if err != nil {
		return nil, err
	}
	hosts := map[string]*Host{}
	for _, root := range roots {
		attempts, err := b.Store.Attempts(ctx, store.AttemptFilter{Task: root.ID})
		if err != nil {
			return nil, err
		}
		if len(attempts) == 0 {
			continue
		}
		title, err := b.Title(ctx, root)
		if errors.Is(err, store.ErrNotFound) {
			continue // removed in the meantime
		}
		if err != nil {
			return nil, err
		}
		alone := b.undriven(ctx, root)
		for _, a := range attempts {
			if a.Host == "" && a.Failure != nil && a.Failure.Void {
				continue // it had no agent
			}
			h := hosts[a.Host]
			if h == nil {
				h = &Host{Name: a.Host, Now: []HostWork{}, Lost: []HostWork{}}
				hosts[a.Host] = h
			}
			w := HostWork{Task: root.ID, Short: root.Short, Title: title, Thread: a.Thread, Attempt: a.ID, Role: a.Role,
				Agent: a.Agent, StartedAt: Time(a.StartedAt), EndedAt: Time(a.EndedAt)}
			switch a.Status {
			case store.AttemptRunning:
				w.Alone = alone(a.Thread)
				h.Now = append(h.Now, w)
			case store.AttemptInterrupted:
				w.Next = after(attempts, a)
				h.Lost = append(h.Lost, w)
			default:
				h.Ended++
			}
		}
	}
	list := []Host{}
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		h := hosts[name]
		slices.SortStableFunc(h.Now, func(a, b HostWork) int { return cmp.Compare(a.StartedAt, b.StartedAt) })
		slices.SortStableFunc(h.Lost, func(a, b HostWork) int { return cmp.Compare(b.EndedAt, a.EndedAt) })
		list = append(list, *h)
	}
	return list, nil
}

// after returns the attempt that followed the interrupted attempt a, nil if there is none yet.
func after(attempts []store.Attempt, a store.Attempt) (next *HostNext) {
	n := 0
	for _, b := range attempts {
		if b.Thread == a.Thread && b.From == a.From && b.N > a.N && (next == nil || b.N < n) {
			next, n = &HostNext{Host: b.Host, Attempt: b.ID, Status: b.Status}, b.N
		}
	}
	return next
}

// undriven returns a function that reports whether a thread of a task has no driver. Workers drive
// single threads, other processes whole tasks.
func (b *Reader) undriven(ctx context.Context, root store.Thread) func(thread string) bool {
	if OnTeam(root) {
		return func(thread string) bool { return !b.Driven(ctx, store.ThreadLease(thread)) }
	}
	driven := b.Driven(ctx, root.ID)
	return func(string) bool { return !driven }
}
