package web

import (
	"slices"
	"testing"

	"github.com/plait-run/plait/internal/view"
)

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
	d, err := drawTimeline(tl, laneTexts{}, "", "")
	if err != nil || !slices.Equal(d.Lines, want) {
		t.Errorf("lines: %v\n%v\nwant:\n%v", err, d.Lines, want)
	}
}
