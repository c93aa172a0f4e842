package web

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/sys/text"
	"github.com/plait-run/plait/internal/view"
)

// Sizes of a timeline, in px. Positions in time are shares of its width, so that it fits any width.
const (
	laneTall  = 26
	barTall   = 17
	maxIndent = 6
)

// A timelineSVG is a timeline laid out for a page, without markup.
type timelineSVG struct {
	Height  int
	Lanes   []timelineRow
	Lines   []timelineLine
	Items   []timelineItem // lane by lane, in time order
	Ticks   []timelineTick
	Cuts    []timelineTick
	Live    bool
	Cut     bool
	Summary string      // for screen readers
	States  []laneCount // to filter by, nil if there are few lanes
	All     int         // lanes, filtered or not
	Long    bool        // so many steps in a lane that a list of them says more
}

// A laneCount is how many lanes are in a state.
type laneCount struct {
	State   view.DisplayState
	N       int
	Link    string
	Current bool
}

// unfiltered is how many lanes are not worth a filter; listedItems is how many items of a lane can be told apart.
const (
	unfiltered  = 12
	listedItems = 60
)

// laneTexts describe lanes.
type laneTexts struct {
	titles map[string]string // by thread
	doing  map[string]string // what an instance did last
}

// A timelineRow is the label of a lane.
type timelineRow struct {
	Name, Title, Link string
	State             view.DisplayState
	Indent            int
	Took              string
	Tokens            int64
	Cost              int64 // in millionths of a dollar, 0 if no price is known
	Items             []timelineItem
	Chosen            bool
}

// A timelineLine is a line of a lane, or between two.
type timelineLine struct {
	Class  string
	X1, X2 string
	Y1, Y2 int
}

// A timelineItem is a bar or a mark that can be selected.
type timelineItem struct {
	Key, Link string
	Class     string
	Shape     string // bar, dot, ring, box, diamond
	X, W, End string
	Y         int // of its middle
	Top       int // of a bar
	Tall      int
	Lane      int
	Label     string // what came of it, in a bar and to its right
	LabelX    string
	LabelW    string
	LabelEnd  bool   // it ends there, left of the bar
	Words     string // full description
	Waits     []timelineWait
	Chosen    bool
	Hatched   bool
	timelineSpan
}

// A timelineSpan is where an item is.
type timelineSpan struct {
	at       int64
	from, to float64 // shares
}

type timelineWait struct{ X, W string }

type timelineTick struct{ X, W, Text string }

func percent(share float64) string { return fmt.Sprintf("%.3f%%", 100*share) }

// rowMiddle returns the vertical position of a lane's line.
func rowMiddle(lane int) int { return lane*laneTall + laneTall/2 }

// drawTimeline lays out a timeline for the page at an address. chosen is the key of the selected item.
func drawTimeline(tl view.Timeline, texts laneTexts, here address, chosen string) (timelineSVG, error) {
	d := timelineSVG{Live: tl.Live, Cut: tl.Cut, All: len(tl.Lanes)}
	if err := d.filter(&tl, here); err != nil {
		return d, err
	}
	d.Height = len(tl.Lanes) * laneTall
	at := func(t int64) string { return percent(tl.Axis.Place(t)) }
	for i, l := range tl.Lanes {
		lane := timelineRow{Name: l.Name, Title: texts.titles[l.Thread], Link: "/threads/" + l.Thread,
			Indent: min(l.Level, maxIndent), State: laneState(l), Tokens: l.Usage.Tokens(),
			Cost: l.Usage.CostMicroUSD}
		if len(l.Bars) > 0 {
			lane.Took = text.Took(l.Work())
		}
		y := rowMiddle(i)
		if len(l.Bars) == 0 {
			d.Lines = append(d.Lines, timelineLine{Class: "life", X1: at(l.From), X2: at(l.To), Y1: y, Y2: y})
		}
		for _, b := range l.Bars {
			lane.Items = append(lane.Items, newBar(tl, l, b, i, texts.doing[l.Instance]))
		}
		for _, m := range l.Marks {
			if m.Kind == view.MarkEnd && len(l.Bars) > 0 {
				continue // the last bar says it
			}
			item := timelineItem{Key: cmp.Or(m.Gate, m.Step.String()), Shape: markShapes[m.Kind], Class: markClass(m),
				X: at(m.At), Y: y, Lane: i, Words: markWords(l, m), timelineSpan: timelineSpan{at: m.At, from: tl.Axis.Place(m.At)}}
			item.to = item.from
			if m.Gate != "" && m.Until > m.At && len(l.Bars) == 0 {
				item.Waits = []timelineWait{{at(m.At), percent(tl.Axis.Place(m.Until) - item.from)}}
			}
			lane.Items = append(lane.Items, item)
		}
		slices.SortStableFunc(lane.Items, func(a, b timelineItem) int { return cmp.Compare(a.at, b.at) })
		placeLabels(lane.Items)
		for k := range lane.Items {
			one := &lane.Items[k]
			one.Link = here.Item(one.Key)
			one.Chosen = one.Key == chosen
			lane.Chosen = lane.Chosen || one.Chosen
			if one.Shape == "bar" { // the last one stands for the lane
				lane.Link = one.Link
			}
		}
		d.Items, d.Lanes = append(d.Items, lane.Items...), append(d.Lanes, lane)
		d.Long = d.Long || len(lane.Items) > listedItems
	}
	d.links(tl, at)
	d.axis(tl)
	d.Summary = fmt.Sprintf("Timeline of %s: %d attempts, questions and other steps, in %s of agents and paths.",
		text.Took(tl.To-tl.From), len(d.Items), text.Count(len(d.Lanes), "lane"))
	return d, nil
}

// filter counts lanes by state, and removes those that are in another one than the address says.
func (d *timelineSVG) filter(tl *view.Timeline, here address) error {
	state := view.DisplayState(here.state)
	states := []view.DisplayState{view.DisplayNeedsYou, view.DisplayFailed, view.DisplayRunning, view.DisplayDone,
		view.DisplayQueued, view.DisplayCancelled}
	if state != "" && !slices.Contains(states, state) {
		return badRequest("there is no state %q", state)
	}
	if len(tl.Lanes) <= unfiltered && state == "" {
		return nil
	}
	counts := map[view.DisplayState]int{}
	now := map[int]int{} // where a lane is, of those that stay
	var lanes []view.TimelineLane
	for i, l := range tl.Lanes {
		is := laneState(l)
		if counts[is]++; state == "" || is == state {
			now[i], lanes = len(lanes), append(lanes, l)
		}
	}
	d.States = append(d.States, laneCount{N: len(tl.Lanes), Link: here.lanes(""), Current: state == ""})
	for _, one := range states {
		if counts[one] > 0 || one == state {
			d.States = append(d.States, laneCount{one, counts[one], here.lanes(string(one)), one == state})
		}
	}
	var links []view.Link
	for _, l := range tl.Links {
		from, ok1 := now[l.From]
		to, ok2 := now[l.To]
		if ok1 && ok2 {
			l.From, l.To = from, to
			links = append(links, l)
		}
	}
	tl.Lanes, tl.Links = lanes, links
	return nil
}

// newBar returns the bar of an attempt on lane i. doing is what its agent did last.
func newBar(tl view.Timeline, l view.TimelineLane, b view.Bar, i int, doing string) timelineItem {
	from, to := tl.Axis.Place(b.From), tl.Axis.Place(b.To)
	item := timelineItem{Key: b.Attempt, Shape: "bar", Class: barClass(b), X: percent(from), W: percent(to - from),
		End: percent(to), Y: rowMiddle(i), Top: rowMiddle(i) - barTall/2, Tall: barTall, Lane: i, Label: barLabel(l, b),
		Words:   barWords(l, b),
		Hatched: b.State != view.DisplayDone && b.State != view.DisplayRunning && !waits(b),

		timelineSpan: timelineSpan{b.From, from, to}}
	if b.Status == store.AttemptRunning && !b.Lost && !waits(b) {
		item.Label = text.FirstLine(doing, 100)
	}
	if !b.Step.IsZero() {
		item.Key = b.Step.String()
	}
	for _, w := range b.Waits {
		item.Waits = append(item.Waits, timelineWait{percent(tl.Axis.Place(w.From)),
			percent(tl.Axis.Place(w.To) - tl.Axis.Place(w.From))})
	}
	return item
}

// Shares of a timeline: the least room for a label, what each of its letters takes, and what a mark takes.
const (
	labelRoom  = 0.06
	letterRoom = 0.014
	markRoom   = 0.015
)

// placeLabels places the labels of a lane's bars: in the bar if they fit, otherwise where there is most room: after the
// bar, before it, or in it.
func placeLabels(items []timelineItem) {
	for i := range items {
		one := &items[i]
		left, right := 0.0, 1.0
		if i > 0 {
			left = items[i-1].to + markRoom
		}
		if i+1 < len(items) {
			right = items[i+1].from - markRoom
		}
		start := one.from
		if i+1 < len(items) && items[i+1].from < min(one.to, one.from+2*markRoom) { // a question at its beginning
			start = items[i+1].to + markRoom
		}
		in, after, before := one.to-start, right-one.to, one.from-left
		switch need := letterRoom * float64(len([]rune(one.Label))); {
		case one.Label == "":
		case in >= need, in >= max(after, before, labelRoom):
			one.LabelX, one.LabelW = percent(start), percent(in)
		case after >= min(need, max(before, labelRoom)):
			one.LabelX, one.LabelW = percent(one.to), percent(after)
		case before >= labelRoom:
			one.LabelX, one.LabelW, one.LabelEnd = percent(left), percent(before), true
			one.Label = text.Shorten(one.Label, int(before/letterRoom)) // its beginning would be cut off
		default:
			one.Label = ""
		}
	}
}

// links draws the lines between lanes, without duplicates.
func (d *timelineSVG) links(tl view.Timeline, at func(int64) string) {
	seen := map[timelineLine]int{}
	for _, l := range tl.Links {
		line := timelineLine{Class: l.Kind, X1: at(l.At), X2: at(l.At), Y1: rowMiddle(l.From), Y2: rowMiddle(l.To)}
		key := line
		key.Y2 = 0
		if i, ok := seen[key]; ok {
			d.Lines[i].Y2 = max(d.Lines[i].Y2, line.Y2)
			continue
		}
		seen[key] = len(d.Lines)
		d.Lines = append(d.Lines, line)
	}
}

// shownTicks is the approximate number of labeled times on an axis.
const shownTicks = 7

// minLabeled is the shortest wait, in ms, whose length is labeled.
const minLabeled = 500

func (d *timelineSVG) axis(tl view.Timeline) {
	var said []float64 // where the length of a wait is labeled
	for _, p := range tl.Axis.Pieces {
		if !p.Cut {
			continue
		}
		cut := timelineTick{X: percent(p.At), W: percent(p.Width)}
		if p.To-p.From >= minLabeled {
			cut.Text = "⋯ " + text.Took(p.To-p.From)
			said = append(said, p.At+p.Width/2)
		}
		d.Cuts = append(d.Cuts, cut)
	}
	for _, t := range tl.Axis.Ticks(shownTicks) {
		if !slices.ContainsFunc(said, func(at float64) bool { return math.Abs(at-t.At) < 0.6/shownTicks }) {
			d.Ticks = append(d.Ticks, timelineTick{X: percent(t.At), Text: clock(t.Since)})
		}
	}
}

// clock formats a time on an axis that begins at 0.
func clock(ms int64) string {
	t := time.Duration(ms) * time.Millisecond
	switch {
	case ms < 10_000 && ms%1000 != 0:
		return strings.TrimRight(fmt.Sprintf("%.3f", t.Seconds()), "0") + " s"
	case ms < 60_000:
		return fmt.Sprintf("%d s", ms/1000)
	case t < time.Hour:
		return fmt.Sprintf("%d:%02d", int(t.Minutes()), int(t.Seconds())%60)
	}
	return fmt.Sprintf("%d:%02d h", int(t.Hours()), int(t.Minutes())%60)
}

// laneState returns the state of a lane's agent or path.
func laneState(l view.TimelineLane) view.DisplayState {
	for _, m := range l.Marks {
		if m.State == store.GateOpen {
			return view.DisplayNeedsYou
		}
	}
	if n := len(l.Bars); n > 0 && l.ID != l.Thread { // one of several agents
		return l.Bars[n-1].State
	}
	return view.NewDisplay(l.Status, nil, nil).State
}

// waits reports whether the agent of a bar waits for a person.
func waits(b view.Bar) bool { return b.State == view.DisplayNeedsYou && !b.Lost }

// barClass returns the CSS class of a bar.
func barClass(b view.Bar) string {
	if waits(b) {
		return string(b.Status) + " waiting"
	}
	return string(barStatus(b))
}

// barStatus returns the status of a bar for display.
func barStatus(b view.Bar) store.AttemptStatus {
	switch {
	case b.Lost:
		return store.AttemptInterrupted
	case b.State == view.DisplayFailed && b.Status == store.AttemptDone:
		return store.AttemptFailed // its answer says so
	}
	return b.Status
}

// barLabel returns what came of a bar, or else who made it, if the lane is not named so.
func barLabel(l view.TimelineLane, b view.Bar) string {
	switch {
	case waits(b):
		return "waits for you"
	case b.Failure != nil:
		return text.FirstLine(b.Failure.Message, 100)
	case b.Said != "":
		return b.Said
	case b.Role != l.Name:
		return b.Role
	}
	return b.Outcome
}

// barStates describe the outcomes of attempts.
var barStates = map[store.AttemptStatus]string{store.AttemptRunning: "running", store.AttemptDone: "done",
	store.AttemptFailed: "failed", store.AttemptInterrupted: "interrupted", store.AttemptCancelled: "cancelled",
	store.AttemptSuperseded: "replaced"}

func barWords(l view.TimelineLane, b view.Bar) string {
	parts := []string{l.Name}
	if b.Role != l.Name {
		parts = append(parts, b.Role)
	}
	if b.N > 0 {
		parts = append(parts, fmt.Sprintf("step %d", b.N))
	}
	state := barStates[barStatus(b)]
	if waits(b) {
		state = gateStates[store.GateOpen]
	}
	if parts = append(parts, state); b.Outcome != "" && b.Outcome != state {
		parts = append(parts, b.Outcome)
	}
	parts = append(parts, text.Took(b.To-b.From))
	if b.Failure != nil {
		parts = append(parts, text.OneLine(b.Failure.Message, 120))
	}
	if b.Said != "" {
		parts = append(parts, b.Said)
	}
	return strings.Join(parts, ", ")
}

var markShapes = map[string]string{view.MarkStep: "dot", view.MarkInput: "dot", view.MarkJoin: "ring",
	view.MarkCall:    "ring",
	view.MarkSummary: "box", view.MarkEnd: "box", view.MarkQuestion: "diamond", view.MarkApproval: "diamond"}

func markClass(m view.Mark) string {
	switch {
	case m.Gate != "":
		return "gate " + string(m.State)
	case m.Kind == view.MarkEnd:
		return "end " + string(view.EndStatus(m.Outcome))
	}
	return m.Kind
}

// gateStates describe the states of questions.
var gateStates = map[store.GateState]string{store.GateOpen: "waits for you", store.GateApproved: "approved",
	store.GateRejected: "denied", store.GateAnswered: "answered", store.GateExpired: "expired",
	store.GateWithdrawn: "withdrawn"}

func markWords(l view.TimelineLane, m view.Mark) string {
	parts := []string{l.Name}
	switch m.Kind {
	case view.MarkQuestion, view.MarkApproval:
		parts = append(parts, m.Kind+" "+gateStates[m.State])
		if m.Until > m.At {
			parts = append(parts, "after "+text.Took(m.Until-m.At))
		}
		parts = append(parts, text.OneLine(view.Question(m.Question), 120))
	case view.MarkEnd:
		parts = append(parts, "end", string(view.EndStatus(m.Outcome)))
	case view.MarkJoin:
		parts = append(parts, "join")
	case view.MarkInput:
		parts = append(parts, "what you added")
	case view.MarkSummary:
		parts = append(parts, "a summary of the conversation")
	default:
		parts = append(parts, m.Role)
	}
	if m.N > 0 {
		parts = append(parts, fmt.Sprintf("step %d", m.N))
	}
	return strings.Join(parts, ", ")
}
