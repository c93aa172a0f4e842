package view

import "time"

// Times are how long a task took, or has taken until now, in ms.
type Times struct {
	Elapsed int64            // until it ended or, if nothing continues it, until its last change
	Work    int64            // of that, while agents worked: not while all of them waited for a person
	Agents  map[string]int64 // work, by instance
}

// Times returns how long the task took, or has taken until now.
func (r TaskRecord) Times(now time.Time) Times {
	tl := NewTimeline(TimelineRecord{TaskRecord: r, Now: now.UnixMilli()})
	t := Times{Elapsed: tl.To - tl.From, Agents: map[string]int64{}}
	var busy []Stretch
	for _, l := range tl.Lanes {
		if l.Instance != "" {
			t.Agents[l.Instance] += l.Work()
		}
		busy = append(busy, l.busy()...)
	}
	t.Work = length(union(busy, tl.From, tl.To))
	return t
}
