package view

import (
	"cmp"
	"slices"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/store"
)

// Kinds of rows of a drawing. A step is of the first kind that fits it.
const (
	RowStart   = "start"   // the start of the chain, before its first step
	RowStep    = "step"    // an agent did something
	RowInput   = "input"   // a person added something
	RowGate    = "gate"    // a person decided something
	RowCall    = "call"    // a called thread did it, see LaneRow.Child
	RowJoin    = "join"    // paths became one again
	RowCompact = "compact" // a summary, which stands for Count steps
	RowEnd     = "end"     // the end of the thread
	RowNow     = "now"     // what an agent works at: no step yet

	RowPath   = "path"   // a path or an action begins here; Count is how many steps it has
	RowChild  = "child"  // a called thread; Count is how many steps it has
	RowBranch = "branch" // a fork by hand; Count is how many steps it has, those before the fork too
	RowMore   = "more"   // Count steps of a path that are not drawn
	RowRest   = "rest"   // Count paths, calls or forks that are not drawn
)

// MaxLanes is how many lanes are drawn beside each other, the thread's own too.
const MaxLanes = 24

// A Lanes is a window of a thread as it is drawn: the steps of its chain, oldest
// first, and between them what runs beside it.
type Lanes struct {
	Thread string    `json:"thread"`
	From   int       `json:"from"`  // the number of the first step of the window
	Steps  int       `json:"steps"` // how many steps the thread has
	Width  int       `json:"width"` // how many lanes there are beside each other
	Rows   []LaneRow `json:"rows"`  // from top to bottom
	Lanes  []Lane    `json:"lanes"` // the thread's own first
}

// A LaneRow is one row of a drawing.
type LaneRow struct {
	Kind   string               `json:"kind"`
	Lane   int                  `json:"lane"`   // the place of its mark; 0 is the thread's own
	Thread string               `json:"thread"` // whose row it is: for a step the thread that is drawn, or the path
	Name   string               `json:"name"`   // of a path its id, of a call its flow, of a fork by hand its id
	N      int                  `json:"n"`      // along the chain, 0 where it is no step
	Hash   dag.Hash             `json:"hash"`   // of a step
	Role   string               `json:"role"`   // of a step
	Status string               `json:"status"` // of a step see Outcome, else that of the thread
	Reason *store.Reason        `json:"reason"` // of a thread: why it is blocked, failed or cancelled
	Main   bool                 `json:"main"`   // the conversation goes on through this path, in the lane it left
	Child  string               `json:"child"`  // of a call: the id of the called thread, or ""
	Flow   string               `json:"flow"`   // of that thread
	Count  int                  `json:"count"`
	States map[store.Status]int `json:"states"` // of what is not drawn: how many are in which state
	// Back is, of a step that the flow came back to, past others of the window, the number
	// of the step before it in its role; else 0.
	Back   int         `json:"back"`
	Covers []Covered   `json:"covers"` // of a summary: the newest steps that it stands for, back to the summary before
	Time   int64       `json:"time"`
	Usage  store.Usage `json:"usage"`
}

// A Lane is a line of a drawing, from the row that it begins at to the row that it
// ends at. Lanes that are not there at the same time may have the same place.
type Lane struct {
	Lane   int              `json:"lane"` // its place; 0 is the thread's own
	Kind   store.ThreadKind `json:"kind"` // of the thread: root, path, call, worker
	Thread string           `json:"thread"`
	Name   string           `json:"name"`
	Status store.Status     `json:"status"`
	From   int              `json:"from"` // the row that it parts from, -1: one above
	To     int              `json:"to"`   // the row that it meets, or its last one; len(rows): it goes on below
	Meets  bool             `json:"meets"`
	Of     int              `json:"of"` // the place of the lane that it parts from
}

// A mark is a row with the side lanes that meet it or leave it.
type mark struct {
	row     LaneRow
	joins   []*sideLane // what meets here, in order
	orphans []*sideLane // what parts here and meets nothing
	// What is not even read, of both.
	leftJoins, leftOrphans []Lane
}

// A sideLane is a line beside another.
type sideLane struct {
	lane  Lane
	from  int // the mark of the line it parts from, -1: above
	marks []mark
	gone  bool // there is no place for it
}

// A chart is a drawing before anything has a place.
type chart struct {
	own   Lane // From and To are not read
	marks []mark
	above bool        // the chain goes on above
	below bool        // and below
	pass  []*sideLane // what parts here or above and meets something below
}

// A layout is a chart laid out in rows. of holds the side lane and the line it parts
// from for each of lanes; the lane of a row is a place in lanes, and not yet one of
// the drawing.
type layout struct {
	rows  []LaneRow
	lanes []Lane
	of    []placed
}

type placed struct {
	*sideLane
	owner int
}

// draw gives everything in a chart its place, at most most lanes beside each other.
// What finds none is counted where it would have been.
func (c *chart) draw(most int) Lanes {
	for {
		var s layout
		own := c.own
		s.lanes, s.of = append(s.lanes, own), append(s.of, placed{})
		at := s.line(c.marks, 0)
		for _, p := range c.pass {
			if !p.gone {
				s.add(p, 0, at)
			}
		}
		rows := len(s.rows)
		for i := range s.lanes {
			if p := s.of[i]; p.sideLane != nil && slices.Contains(c.pass, p.sideLane) {
				s.lanes[i].To, s.lanes[i].Meets = rows, true
			}
		}
		s.lanes[0].From, s.lanes[0].To = 0, s.last(0)
		if len(at) > 0 {
			s.lanes[0].From = at[0]
		}
		if c.above {
			s.lanes[0].From = -1
		}
		if c.below {
			s.lanes[0].To = rows
		}
		if width, ok := s.place(most); ok {
			return Lanes{Width: width, Rows: s.rows, Lanes: s.lanes}
		}
	}
}

// line lays the marks of a lane out, and says at which row each of them is.
func (s *layout) line(marks []mark, lane int) []int {
	at := make([]int, len(marks))
	for i, b := range marks {
		var meet []int
		left := slices.Clone(b.leftJoins)
		for _, st := range b.joins {
			if st.gone {
				left = append(left, st.lane)
				continue
			}
			meet = append(meet, s.add(st, lane, at))
		}
		s.rest(left, lane)
		at[i] = len(s.rows)
		for _, m := range meet {
			s.lanes[m].To, s.lanes[m].Meets = at[i], true
		}
		row := b.row
		row.Lane = lane
		s.rows = append(s.rows, row)
		left = slices.Clone(b.leftOrphans)
		for _, st := range b.orphans {
			if st.gone {
				left = append(left, st.lane)
				continue
			}
			one := s.add(st, lane, at)
			s.lanes[one].To = s.last(one)
		}
		s.rest(left, lane)
	}
	return at
}

// add lays a side lane out that parts from one of the rows at, and returns its lane.
func (s *layout) add(st *sideLane, owner int, at []int) int {
	i := len(s.lanes)
	lane := st.lane
	lane.From = -1
	if st.from >= 0 {
		lane.From = at[st.from]
	}
	s.lanes, s.of = append(s.lanes, lane), append(s.of, placed{st, owner})
	s.line(st.marks, i)
	return i
}

// last is the last row that stands in a lane, 0 when none does.
func (s *layout) last(lane int) int {
	for i, r := range slices.Backward(s.rows) {
		if r.Lane == lane {
			return i
		}
	}
	return 0
}

// rest adds a row that counts what is not drawn.
func (s *layout) rest(left []Lane, lane int) {
	if len(left) == 0 {
		return
	}
	row := LaneRow{Kind: RowRest, Lane: lane, Count: len(left), States: map[store.Status]int{}}
	for _, l := range left {
		row.States[l.Status]++
	}
	s.rows = append(s.rows, row)
}

// place gives each lane the leftmost place that is free all the way, to the right of
// the one it parts from. ok is false when some found none; they are marked.
func (s *layout) place(most int) (width int, ok bool) {
	order := make([]int, len(s.lanes)-1)
	for i := range order {
		order[i] = i + 1
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(s.lanes[a].From, s.lanes[b].From) })
	type stretch struct{ from, to int } // in halves of rows
	taken := make([][]stretch, most)
	ok, width = true, 1
	for _, i := range order {
		l, p := &s.lanes[i], s.of[i]
		if p.owner > 0 && s.of[p.owner].gone {
			continue // it goes with the one it hangs on
		}
		l.Of = s.lanes[p.owner].Lane
		mine := stretch{2*l.From + 1, 2 * l.To}
		if !l.Meets {
			mine.to++
		}
		l.Lane = l.Of + 1
		for l.Lane < most && slices.ContainsFunc(taken[l.Lane],
			func(o stretch) bool { return o.from <= mine.to && mine.from <= o.to }) {
			l.Lane++
		}
		if l.Lane >= most {
			p.gone, ok = true, false
			continue
		}
		taken[l.Lane] = append(taken[l.Lane], mine)
		width = max(width, l.Lane+1)
	}
	for i := range s.rows {
		s.rows[i].Lane = s.lanes[s.rows[i].Lane].Lane
	}
	return width, ok
}
