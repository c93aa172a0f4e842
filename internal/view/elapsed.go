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
	tl := NewTimeline(TimelineRecord{Root: r.Root, Threads: r.Threads, Attempts: r.Attempts, Gates: r.Gates,
		Driven: r.Driven, Now: now.UnixMilli()})
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

// Work returns how long agents worked in a lane, in ms.
func (l TimelineLane) Work() int64 { return length(l.busy()) }

// busy returns when agents worked in a lane.
func (l TimelineLane) busy() (busy []Stretch) {
	for _, b := range l.Bars {
		busy = append(busy, Stretch{b.From, b.To}.without(b.Waits)...)
	}
	return busy
}

func length(list []Stretch) (ms int64) {
	for _, s := range list {
		ms += s.To - s.From
	}
	return ms
}
