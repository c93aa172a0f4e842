package view

import (
	"fmt"
	"time"
)

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

// In says how long it is until a time in the future, in Unix ms: "in 2d 23h".
func In(at int64, now time.Time) string {
	left := time.UnixMilli(at).Sub(now)
	days, hours, minutes := int(left.Hours())/24, int(left.Hours())%24, int(left.Minutes())%60
	switch {
	case left <= 0:
		return "now"
	case days > 0:
		return fmt.Sprintf("in %dd %dh", days, hours)
	case hours > 0:
		return fmt.Sprintf("in %dh %dm", hours, minutes)
	case minutes > 0:
		return fmt.Sprintf("in %dm", minutes)
	}
	return fmt.Sprintf("in %ds", int(left.Seconds()))
}
