package web

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/view"
)

// Measures of a map, in the units of its view box. A row of the drawing is as high as a
// line of the list beside it.
const (
	mapRow  = 24
	mapLane = 14
	mapEdge = 10
)

// A threadMap is ready to be drawn: lines and marks, and beside them a list
// with a line for each row.
type threadMap struct {
	Width, Height int
	Wide, High    string // the same, in heights of letters
	Lines         []stroke
	Marks         []mark
	Rows          []mapped
}

// A stroke is a line of a lane.
type stroke struct{ Class, Path, Title string }

// A mark is where a row stands.
type mark struct {
	Class string
	X, Y  int
	Shape string // dot, ring, box or diamond
	Path  string // of a diamond
}

// A mapped row is what stands beside its mark.
type mapped struct {
	view.LaneRow
	Link  string // of what it names, "" for none
	Text  string
	Child string // the link of a called thread
	Back  string // the link of the step that the flow came back to
	More  string // what else is to be said
	Open  bool   // Status is the state of a thread
	Class string // of the status of an end, else ""
}

// stepLink leads to a step of a thread: to the page that has it.
func stepLink(thread string, n int) string {
	if n < 1 {
		return "/threads/" + thread + "?from=1"
	}
	return fmt.Sprintf("/threads/%s?from=%d#s%d", thread, (n-1)/shownSteps*shownSteps+1, n)
}

// newThreadMap draws a window of a thread.
func newThreadMap(l *view.Lanes) *threadMap {
	c := &threadMap{Width: 2*mapEdge + (l.Width-1)*mapLane, Height: len(l.Rows) * mapRow}
	c.Wide, c.High = fmt.Sprintf("%.3fem", float64(c.Width)/12), fmt.Sprintf("%.3fem", float64(c.Height)/12)
	for i, lane := range slices.Backward(l.Lanes) { // the thread's own lies on top
		c.Lines = append(c.Lines, c.stroke(lane, i == 0, len(l.Rows)))
	}
	for i, row := range l.Rows {
		c.Marks = append(c.Marks, newMark(row, i))
		c.Rows = append(c.Rows, newMapped(l, row))
	}
	return c
}

func laneX(lane int) int { return mapEdge + lane*mapLane }
func rowY(row int) int   { return row*mapRow + mapRow/2 }

// stroke draws a lane: from the one it parts from, down, and to the one it meets.
func (c *threadMap) stroke(l view.Lane, own bool, rows int) stroke {
	x, of := laneX(l.Lane), laneX(l.Of)
	var d strings.Builder
	switch {
	case l.From < 0:
		fmt.Fprintf(&d, "M%d 0", x)
	case own:
		fmt.Fprintf(&d, "M%d %d", x, rowY(l.From))
	default:
		y := rowY(l.From)
		fmt.Fprintf(&d, "M%d %dC%d %d %d %d %d %d", of, y, of, y+mapRow/2, x, y, x, y+mapRow/2)
	}
	switch {
	case l.To >= rows:
		fmt.Fprintf(&d, "V%d", c.Height)
	case l.Meets && !own:
		y := rowY(l.To)
		fmt.Fprintf(&d, "V%dC%d %d %d %d %d %d", y-mapRow/2, x, y, of, y-mapRow/2, of, y)
	default:
		fmt.Fprintf(&d, "V%d", rowY(l.To))
	}
	return stroke{Class: "line " + string(l.Status), Path: d.String(),
		Title: strings.TrimSpace(string(l.Kind) + " " + l.Name + ": " + string(l.Status))}
}

func newMark(row view.LaneRow, at int) mark {
	m := mark{X: laneX(row.Lane), Y: rowY(at), Shape: "dot"}
	switch row.Kind {
	case view.RowStart, view.RowMore, view.RowRest:
		m.Shape = "ring"
	case view.RowGate, view.RowInput:
		m.Shape = "diamond"
		m.Path = fmt.Sprintf("M%d %dl5 5l-5 5l-5 -5z", m.X, m.Y-5)
	case view.RowCompact, view.RowCall, view.RowJoin:
		m.Shape = "box"
	case view.RowPath, view.RowChild, view.RowBranch, view.RowNow:
		m.Shape, m.Class = "ring", row.Status
	case view.RowEnd:
		m.Class = string(view.EndStatus(row.Status))
	}
	m.Class = strings.TrimSpace("mark " + row.Kind + "-row " + m.Class)
	return m
}

func newMapped(l *view.Lanes, row view.LaneRow) mapped {
	m := mapped{LaneRow: row, Text: row.Role}
	own := row.Thread == l.Thread && row.N > 0
	if row.N > 0 {
		m.Link = stepLink(row.Thread, row.N)
		if own {
			m.Link = fmt.Sprintf("#s%d", row.N)
		}
	}
	if row.Back > 0 {
		m.Back = fmt.Sprintf("#s%d", row.Back)
	}
	if row.Child != "" {
		m.Child = "/threads/" + row.Child
	}
	steps := func() string { return many(row.Count, "step") }
	switch row.Kind {
	case view.RowEnd:
		m.Class = string(view.EndStatus(row.Status))
	case view.RowStart:
		m.Text, m.Link = "start", "#asked"
	case view.RowCompact:
		m.More = "stands for " + steps()
	case view.RowPath:
		m.Text, m.Link, m.More, m.Open = "path "+row.Name, "/threads/"+row.Thread, steps(), true
		if row.Main {
			m.More = "the conversation goes on through it"
		}
	case view.RowChild:
		m.Text, m.Link, m.More, m.Open = "calls "+cmp.Or(row.Flow, "a thread"), "/threads/"+row.Thread, steps(), true
	case view.RowBranch:
		m.Text, m.Link, m.More, m.Open = "forked by hand", "/threads/"+row.Thread, steps(), true
	case view.RowMore:
		m.Text, m.Link = "… "+many(row.Count, "more step"), "/threads/"+row.Thread
	case view.RowRest:
		m.Text = "… " + many(row.Count, "more line")
		for _, state := range slices.Sorted(maps.Keys(row.States)) {
			m.More += fmt.Sprintf(" %d %s", row.States[state], state)
		}
	case view.RowNow:
		m.Text, m.More, m.Open = row.Role, row.Name, true
		if row.Thread != l.Thread {
			m.Link = "/threads/" + row.Thread
		}
	}
	return m
}
