package web

import (
	"slices"
	"testing"

	"github.com/plait-run/plait/internal/view"
)

// TestAddresses checks that an address of a task's page keeps what is not changed.
func TestAddresses(t *testing.T) {
	here := address{"T", "s1", "log", "needs you"}
	for got, want := range map[string]string{
		here.Item("s2"):      "/tasks/T?at=s2&state=needs+you&tab=log#chosen",
		here.Tab("events"):   "/tasks/T?state=needs+you&tab=events",
		here.lanes("failed"): "/tasks/T?at=s1&state=failed&tab=log",
		address{task: "T", tab: "events"}.Item("s1"): "/tasks/T?at=s1#chosen",
		address{task: "T"}.lanes(""):                 "/tasks/T",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestTimelineLinks checks that lines between lanes are drawn once if they begin at one place, and each by itself
// if they only look alike when they are written one after the other: lane 1 at 23 %, lane 12 at 3 %.
func TestTimelineLinks(t *testing.T) {
	tl := view.Timeline{To: 100, Axis: view.Axis{Pieces: []view.Piece{{To: 100, Width: 1}}}, Links: []view.Link{
		{Kind: "fork", From: 1, To: 2, At: 23}, {Kind: "fork", From: 1, To: 4, At: 23},
		{Kind: "fork", From: 12, To: 13, At: 3},
	}}
	want := []timelineLine{
		{Class: "fork", X1: "23.000%", X2: "23.000%", Y1: rowMiddle(1), Y2: rowMiddle(4)},
		{Class: "fork", X1: "3.000%", X2: "3.000%", Y1: rowMiddle(12), Y2: rowMiddle(13)},
	}
	d, err := drawTimeline(tl, laneTexts{}, address{}, "")
	if err != nil || !slices.Equal(d.Lines, want) {
		t.Errorf("lines: %v\n%v\nwant:\n%v", err, d.Lines, want)
	}
}
