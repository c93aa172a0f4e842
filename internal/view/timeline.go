package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

// A Timeline is a task along a time axis. It has a lane for each agent and path, with bars for
// attempts and marks for steps, questions and joins. Links show where lanes branch and join.
type Timeline struct {
	Task  string         `json:"task"`
	From  int64          `json:"from"` // Unix ms
	To    int64          `json:"to"`
	Live  bool           `json:"live"` // To is still moving
	Axis  Axis           `json:"axis"`
	Lanes []TimelineLane `json:"lanes"` // top to bottom, a lane after the one it belongs to
	Links []Link         `json:"links"`
	Cut   bool           `json:"cut"` // older steps are omitted
}

// A TimelineLane is a thread, or one agent of a thread in which several take turns.
type TimelineLane struct {
	ID       string           `json:"id"` // of the thread, followed by a slash and the agent if it is one of several
	Thread   string           `json:"thread"`
	Instance string           `json:"instance"` // "" if none has begun, or if several take turns
	Name     string           `json:"name"`
	Kind     store.ThreadKind `json:"kind"`
	Level    int              `json:"level"`
	Status   store.Status     `json:"status"` // of the thread
	From     int64            `json:"from"`
	To       int64            `json:"to"`
	Bars     []Bar            `json:"bars"`  // in order of time
	Marks    []Mark           `json:"marks"` // in order of time
	Usage    store.Usage      `json:"usage"`
}

// A Bar is an attempt, and the step that it made.
type Bar struct {
	Attempt string              `json:"attempt"`
	Role    string              `json:"role"`
	Agent   string              `json:"agent"`
	Status  store.AttemptStatus `json:"status"`
	State   DisplayState        `json:"state"`
	Lost    bool                `json:"lost"` // recorded as running, but no process drives it
	Failure *store.Failure      `json:"failure"`
	From    int64               `json:"from"`
	To      int64               `json:"to"`
	Waits   []Stretch           `json:"waits"` // while it waited for a person
	Step    dag.Hash            `json:"step"`
	N       int                 `json:"n"`       // of the step along its chain, 0 without one
	Outcome string              `json:"outcome"` // see [Outcome]
	Said    string              `json:"said"`    // what came of the step, in one line
	Usage   store.Usage         `json:"usage"`
}

// Kinds of marks.
const (
	MarkStep     = "step" // not made by an attempt
	MarkInput    = "input"
	MarkJoin     = "join"
	MarkCall     = "call"
	MarkSummary  = "summary"
	MarkEnd      = "end"
	MarkQuestion = "question"
	MarkApproval = "approval"
)

// A Mark is a point in time: a step not made by an attempt, or a question or approval.
type Mark struct {
	Kind     string          `json:"kind"`
	At       int64           `json:"at"`
	Until    int64           `json:"until"` // of a question: when it was answered, or now
	Role     string          `json:"role"`
	Step     dag.Hash        `json:"step"`
	N        int             `json:"n"`
	Outcome  string          `json:"outcome"`
	Gate     string          `json:"gate"`
	State    store.GateState `json:"state"` // of the gate
	Question string          `json:"question"`
}

// Kinds of links.
const (
	LinkFork = "fork" // the lower lane branches off the upper one
	LinkJoin = "join" // and joins it again
	LinkNext = "next" // the next step is in the other lane
)

// A Link goes from one lane to another at a time. Both are indices into Lanes.
type Link struct {
	Kind string `json:"kind"`
	From int    `json:"from"`
	To   int    `json:"to"`
	At   int64  `json:"at"`
}

// A TimelineRecord is the input of a timeline.
type TimelineRecord struct {
	TaskRecord
	Chains map[string][]ChainStep // by thread, its own steps, oldest first
	Now    int64
	Cut    bool // chains are truncated
}

// A ChainStep is a step as a timeline needs it.
type ChainStep struct {
	N       int
	Hash    dag.Hash
	Before  dag.Hash // the previous one
	Role    string
	Kind    string // of its mark, if no attempt made it
	Outcome string
	Said    string // what came of it, in one line
	At      int64
	Joins   []string // threads
	Child   dag.Hash // the head of the called thread
}

// NewTimeline lays out a task along time.
func NewTimeline(r TimelineRecord) Timeline {
	t := timelineBuilder{TimelineRecord: r, out: Timeline{Task: r.Root.ID, From: r.Root.CreatedAt, Live: !r.Root.Ended(),
		Lanes: []TimelineLane{}, Links: []Link{}, Cut: r.Cut}, head: map[string]int{}, of: map[string]int{}}
	t.index()
	if t.out.Live = t.out.Live && r.Driven; t.out.Live {
		t.out.To = r.Now
	} else {
		t.out.To = t.last()
	}
	t.thread(r.Root, 0, map[string]bool{})
	t.gates()
	for i := range t.out.Lanes {
		t.links(i)
	}
	var busy []Stretch
	for i := range t.out.Lanes {
		l := &t.out.Lanes[i]
		slices.SortStableFunc(l.Bars, func(a, b Bar) int { return cmp.Compare(a.From, b.From) })
		slices.SortStableFunc(l.Marks, func(a, b Mark) int { return cmp.Compare(a.At, b.At) })
		busy = append(busy, l.busy()...)
	}
	t.out.Axis = newAxis(t.out.From, t.out.To, busy)
	return t.out
}

// A timelineBuilder lays out one task.
type timelineBuilder struct {
	TimelineRecord
	out   Timeline
	below map[string][]store.Thread  // by the thread above
	tried map[string][]store.Attempt // by thread, in order of time
	waits map[string][]Stretch       // by attempt
	asks  map[string]bool            // attempts with an open gate
	head  map[string]int             // index of a thread's lane
	of    map[string]int             // index of an attempt's lane

	planned map[string]planned // actions, by the thread of their plan, a slash and their name
}

// planned says where an action stands.
type planned struct {
	at    int64 // when it was planned
	place int   // in its plan
}

func (t *timelineBuilder) index() {
	t.below, t.tried, t.waits = map[string][]store.Thread{}, map[string][]store.Attempt{}, map[string][]Stretch{}
	t.asks, t.planned = map[string]bool{}, map[string]planned{}
	for _, r := range t.Rounds {
		for i, a := range r.Plan.Actions {
			t.planned[r.Thread+"/"+a.ID] = planned{r.Step.State.Timestamp, i}
		}
	}
	for _, a := range t.Attempts {
		t.tried[a.Thread] = append(t.tried[a.Thread], a)
	}
	for _, list := range t.tried {
		slices.SortStableFunc(list, func(a, b store.Attempt) int {
			return cmp.Or(cmp.Compare(a.StartedAt, b.StartedAt), cmp.Compare(a.N, b.N))
		})
	}
	for _, row := range t.Threads {
		if row.Parent != nil {
			t.below[row.Parent.Thread] = append(t.below[row.Parent.Thread], row)
		}
	}
	for _, g := range t.Gates {
		if g.Attempt != "" {
			t.waits[g.Attempt] = append(t.waits[g.Attempt], Stretch{g.OpenedAt, t.answered(g)})
			t.asks[g.Attempt] = t.asks[g.Attempt] || isOpen(g)
		}
	}
}

// answered returns when a gate was answered, or now.
func (t *timelineBuilder) answered(g store.Gate) int64 {
	switch {
	case g.AnsweredAt > 0:
		return g.AnsweredAt
	case isOpen(g):
		return max(t.Now, g.OpenedAt)
	}
	return g.OpenedAt // it was withdrawn
}

// last returns when the last thing happened in a task.
func (t *timelineBuilder) last() int64 {
	end := t.Root.EndedAt
	if end > 0 {
		return end
	}
	for _, row := range t.Threads {
		end = max(end, row.UpdatedAt, row.EndedAt)
	}
	for _, a := range t.Attempts {
		end = max(end, a.StartedAt, a.EndedAt)
	}
	for _, g := range t.Gates {
		end = max(end, g.OpenedAt, g.AnsweredAt)
	}
	return max(end, t.out.From)
}

// thread adds the lanes of a thread and of those below it.
func (t *timelineBuilder) thread(row store.Thread, level int, seen map[string]bool) {
	if seen[row.ID] { // edited rows may form a cycle
		return
	}
	seen[row.ID] = true
	var instances []string
	for _, a := range t.tried[row.ID] {
		if !slices.Contains(instances, a.Instance) {
			instances = append(instances, a.Instance)
		}
	}
	lane := TimelineLane{ID: row.ID, Thread: row.ID, Name: laneName(row), Kind: row.Kind, Level: level,
		Status: t.status(row), From: row.CreatedAt, To: cmp.Or(row.EndedAt, t.out.To), Bars: []Bar{}, Marks: []Mark{}}
	at := len(t.out.Lanes)
	t.head[row.ID] = at
	inside := map[string]int{}
	if len(instances) == 1 {
		lane.Instance, inside[instances[0]] = instances[0], at
		if row.Kind == store.KindRoot {
			lane.Name = instances[0]
		}
	}
	t.out.Lanes = append(t.out.Lanes, lane)
	// Agents that take turns and threads below are ordered by when they began, actions as they were planned.
	type part struct {
		at       int64
		place    int // in the plan
		instance string
		row      store.Thread
	}
	var parts []part
	if len(instances) > 1 {
		for _, name := range instances {
			i := slices.IndexFunc(t.tried[row.ID], func(a store.Attempt) bool { return a.Instance == name })
			parts = append(parts, part{at: t.tried[row.ID][i].StartedAt, instance: name})
		}
	}
	for _, child := range t.below[row.ID] {
		one := part{at: child.CreatedAt, row: child}
		if p, ok := t.planned[child.Parent.Thread+"/"+laneName(child)]; ok {
			one.at, one.place = p.at, p.place
		}
		parts = append(parts, one)
	}
	slices.SortStableFunc(parts, func(a, b part) int { // the order does not change as the task continues
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.place, b.place),
			strings.Compare(laneName(a.row), laneName(b.row)))
	})
	for _, p := range parts {
		if p.instance == "" {
			t.thread(p.row, level+1, seen)
			continue
		}
		one := lane
		one.ID, one.Instance, one.Name, one.Level = row.ID+"/"+p.instance, p.instance, p.instance, level+1
		one.From, one.Bars, one.Marks = p.at, []Bar{}, []Mark{}
		inside[p.instance] = len(t.out.Lanes)
		t.out.Lanes = append(t.out.Lanes, one)
	}
	t.chain(row, at, inside)
}

// laneName returns what users call a thread of a task.
func laneName(row store.Thread) string {
	switch {
	case row.Path == nil:
		return row.Flow
	case row.Path.N > 1:
		return fmt.Sprintf("%s#%d", row.Path.ID, row.Path.N)
	}
	return row.Path.ID
}

func (t *timelineBuilder) status(row store.Thread) store.Status {
	if row.Status == store.Running && !t.Driven {
		return Interrupted
	}
	return row.Status
}

// chain places attempts and steps of a thread on its lanes.
func (t *timelineBuilder) chain(row store.Thread, at int, inside map[string]int) {
	made := map[int]ChainStep{} // by index among the attempts
	tried := t.tried[row.ID]
	for _, s := range t.Chains[row.ID] {
		by := -1
		for i, a := range tried {
			if _, taken := made[i]; a.From == s.Before && a.Role == s.Role && a.Status == store.AttemptDone && !taken {
				by = i
			}
		}
		if by >= 0 {
			made[by] = s
			continue
		}
		t.out.Lanes[at].Marks = append(t.out.Lanes[at].Marks,
			Mark{Kind: s.Kind, At: s.At, Role: s.Role, Step: s.Hash, N: s.N, Outcome: s.Outcome})
	}
	for i, a := range tried {
		b := Bar{Attempt: a.ID, Role: a.Role, Agent: a.Agent, Status: a.Status, Failure: a.Failure, From: a.StartedAt,
			To: a.EndedAt, Waits: union(t.waits[a.ID], a.StartedAt, cmp.Or(a.EndedAt, t.out.To)), Usage: a.Usage}
		if b.Waits == nil {
			b.Waits = []Stretch{}
		}
		if a.Status == store.AttemptRunning {
			b.Lost, b.To = !t.Driven, t.out.To
		}
		b.To = max(b.To, b.From)
		if s, ok := made[i]; ok {
			b.Step, b.N, b.Outcome, b.Said = s.Hash, s.N, s.Outcome, s.Said
		}
		if b.State = AttemptState(a, b.Lost, t.asks[a.ID]); FailedAction(row, a.Role, b.Outcome) {
			b.State = DisplayFailed
		}
		lane := &t.out.Lanes[inside[a.Instance]]
		t.of[a.ID] = inside[a.Instance]
		lane.Bars = append(lane.Bars, b)
		lane.Usage = lane.Usage.Add(a.Usage)
		if lane.Instance != "" && lane.ID != lane.Thread {
			lane.To = b.To
		}
	}
}

// gates places questions and approvals on the lanes of the agents that asked. A step that
// answers a gate of a flow shares that gate's mark.
func (t *timelineBuilder) gates() {
	for _, g := range t.Gates {
		at, ok := t.of[g.Attempt]
		if !ok {
			if at, ok = t.head[g.Thread]; !ok {
				continue
			}
		}
		m := Mark{Kind: MarkQuestion, At: g.OpenedAt, Until: t.answered(g), Role: g.Node, Gate: g.ID, State: g.State,
			Question: About(g)}
		if g.Kind == store.GateApproval {
			m.Kind = MarkApproval
		}
		lane := &t.out.Lanes[at]
		for _, s := range t.Chains[g.Thread] {
			if s.Before != g.From || s.Role != g.Node || g.Attempt != "" {
				continue
			}
			m.Step, m.N, m.Outcome = s.Hash, s.N, s.Outcome
			lane.Marks = slices.DeleteFunc(lane.Marks, func(o Mark) bool { return o.Gate == "" && o.Step == s.Hash })
		}
		lane.Marks = append(lane.Marks, m)
	}
}

// links connects a lane to those that it branches off, joins and follows.
func (t *timelineBuilder) links(at int) {
	l := t.out.Lanes[at]
	if t.head[l.Thread] != at {
		return
	}
	for _, s := range t.Chains[l.Thread] {
		for _, row := range t.below[l.Thread] {
			met := slices.Contains(s.Joins, row.ID) || !s.Child.IsZero() && s.Child == row.Head
			if below, ok := t.head[row.ID]; ok && met {
				t.out.Links = append(t.out.Links, Link{LinkJoin, at, below, s.At})
				t.out.Lanes[below].To = max(t.out.Lanes[below].To, s.At)
			}
		}
	}
	for _, row := range t.below[l.Thread] {
		if below, ok := t.head[row.ID]; ok {
			t.out.Links = append(t.out.Links, Link{LinkFork, at, below, row.CreatedAt})
		}
	}
	before := at
	for _, a := range t.tried[l.Thread] {
		if now, ok := t.of[a.ID]; ok && now != before {
			t.out.Links = append(t.out.Links, Link{LinkNext, before, now, a.StartedAt})
			before = now
		}
	}
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
