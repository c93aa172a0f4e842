package view

import (
	"cmp"
	"context"
	"slices"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
)

const (
	maxBeside = 400 // rows beside a window that are steps of others, or name them
	maxOwn    = 6   // a path with more steps is drawn with its newest
	newestOwn = 4   // so many of them
	maxNested = 3   // forks in forks in forks
	maxListed = 40  // steps that a summary is said to stand for
	maxForked = 500 // tasks of a bundle among which forks by hand are looked for, newest first
)

// Lanes draws at most n steps of a thread from the one with the number from; n 0
// means all after it. It reads the states between the head and the window, as Steps
// does, and beside them only what is drawn.
func (b *Reader) Lanes(ctx context.Context, row store.Thread, from, n int) (*Lanes, error) {
	w, err := b.window(ctx, row, from, n)
	if err != nil {
		return nil, err
	}
	return b.lanes(ctx, w)
}

// Drawn returns what Steps and Lanes return, read once.
func (b *Reader) Drawn(ctx context.Context, row store.Thread, from, n int) ([]Step, *Lanes, error) {
	w, err := b.window(ctx, row, from, n)
	if err != nil {
		return nil, nil, err
	}
	l, err := b.lanes(ctx, w)
	if err != nil {
		return nil, nil, err
	}
	return w.steps, l, b.fillDone(ctx, w.steps)
}

func (b *Reader) lanes(ctx context.Context, w window) (*Lanes, error) {
	d := drawer{b: b, kin: w.kin, row: w.row, stands: b.statuses(), known: map[string]bool{w.row.ID: true},
		numbers: map[dag.Hash]int{}}
	c, err := d.chart(ctx, w)
	if err != nil {
		return nil, err
	}
	l := c.draw(MaxLanes)
	l.Thread, l.From, l.Steps = w.row.ID, w.from, w.total
	return &l, nil
}

// A drawer reads what a drawing shows.
type drawer struct {
	b       *Reader
	kin     thread.Kin
	row     store.Thread
	at      map[string]store.Attempt // what is worked at, by thread
	beside  int                      // rows beside the chain, so far
	known   map[string]bool          // threads that stand in the drawing
	stands  statuses
	numbers map[dag.Hash]int // of steps before the window
}

// lane is the lane of a thread.
func (d *drawer) lane(ctx context.Context, row store.Thread) Lane {
	l := Lane{Kind: row.Kind, Thread: row.ID, Name: row.Flow, Status: d.stands.of(ctx, row)}
	if row.Path != nil {
		l.Name = row.Path.ID
	}
	return l
}

// chart reads what is drawn of a window.
func (d *drawer) chart(ctx context.Context, w window) (*chart, error) {
	attempts, err := d.b.Store.Attempts(ctx, store.AttemptFilter{Task: w.row.Task, Status: store.AttemptRunning})
	if err != nil {
		return nil, err
	}
	d.at = map[string]store.Attempt{}
	for _, a := range attempts {
		d.at[a.Thread] = a
	}
	c := &chart{own: d.lane(ctx, w.row), above: w.from > 1, below: w.from+len(w.steps) <= w.total}
	shift := 0 // marks before the first step
	if w.from == 1 {
		shift = 1
		c.marks = append(c.marks, mark{row: LaneRow{Kind: RowStart, Thread: w.row.ID, Hash: w.row.Start,
			Time: w.row.CreatedAt}})
	}
	place := map[dag.Hash]int{w.row.Start: shift - 1}
	for i, s := range w.tail {
		place[s.Hash] = i + shift
	}
	if err := d.steps(ctx, c, w); err != nil {
		return nil, err
	}
	owners := []string{w.row.ID}
	for _, s := range w.tail {
		if main := s.State.Main(); main >= 0 {
			owners = append(owners, s.State.Paths[main].Thread)
		}
		for _, p := range s.State.Paths {
			d.known[p.Thread] = true
		}
		if child, ok := d.kin.Child(s.State.ChildThread); ok {
			d.known[child.ID] = true
		}
	}
	end := len(c.marks)
	for i, s := range w.tail {
		at := i + shift
		if at >= end {
			// What lies below is told only that it passes.
			if from, ok := place[s.State.Fork]; s.State.Paths != nil && (!ok || from < end) {
				passing, _, err := d.paths(ctx, s, shape{from: orAbove(from, ok), pass: true})
				if err != nil {
					return nil, err
				}
				c.pass = append(c.pass, passing...)
			}
			continue
		}
		from, ok := place[s.State.Fork]
		if err := d.attach(ctx, &c.marks[at], s, orAbove(from, ok), at-1); err != nil {
			return nil, err
		}
	}
	c.marks = d.mains(ctx, c, w, place, shift)
	return c, d.attachOthers(ctx, c, owners)
}

// steps adds a mark for each step of a window.
func (d *drawer) steps(ctx context.Context, c *chart, w window) error {
	// The step of each role, and in which order they came up.
	last, first, before := map[string]int{}, map[string]int{}, -1
	for i, s := range w.steps {
		row := LaneRow{
			Kind: kind(s), Thread: w.row.ID, N: s.N, Hash: s.Hash, Role: s.Role, Status: Outcome(s.Role, s.Meta),
			Child: s.Child, Time: s.Timestamp, Usage: s.Usage,
		}
		if child, ok := d.kin.Thread(s.Child); ok {
			row.Flow = child.Flow
		}
		if thread.Routed(s.Role) {
			at, known := first[s.Role]
			if !known {
				at = len(first)
				first[s.Role] = at
			}
			if at <= before {
				row.Back = last[s.Role]
			}
			last[s.Role], before = s.N, at
		}
		if row.Kind == RowCompact {
			var err error
			row.Count = s.N - 1
			if row.Covers, err = d.covers(ctx, w.tail[i], s.N); err != nil {
				return err
			}
		}
		c.marks = append(c.marks, mark{row: row})
	}
	return nil
}

func orAbove(at int, ok bool) int {
	if !ok {
		return -1
	}
	return at
}

// attach adds to a mark the paths that its step joins and the thread that it called. from
// is the mark of the fork, before the mark above it.
func (d *drawer) attach(ctx context.Context, on *mark, s thread.Step, from, before int) (err error) {
	if on.joins, on.leftJoins, err = d.paths(ctx, s, shape{from: from}); err != nil || s.State.ChildThread.IsZero() {
		return err
	}
	child, ok := d.kin.Child(s.State.ChildThread)
	if !ok {
		return nil
	}
	st, err := d.child(ctx, child, before)
	if err == nil && st != nil {
		on.joins = append(on.joins, st)
	}
	return err
}

// covers lists what a summary stands for.
func (d *drawer) covers(ctx context.Context, s thread.Step, n int) ([]Covered, error) {
	out := []Covered{}
	if len(s.State.Ancestors) == 0 {
		return out, nil
	}
	for before, err := range d.b.Nodes.Walk(ctx, s.State.Ancestors[0]) {
		if err != nil {
			return nil, err
		}
		n--
		out = append(out, Covered{n, before.Hash, before.State.Role})
		if len(out) == maxListed || !before.State.Compact.IsZero() {
			break
		}
	}
	slices.Reverse(out)
	return out, nil
}

// kind says what a step is.
func kind(s Step) string {
	switch {
	case s.Paths != nil:
		return RowJoin
	case !s.ChildThread.IsZero():
		return RowCall
	case s.Role == thread.RoleEnd:
		return RowEnd
	case !s.Compact.IsZero():
		return RowCompact
	case s.Role == thread.RoleInput:
		return RowInput
	case s.Detail != nil && s.Detail.By != nil:
		return RowGate
	}
	return RowStep
}

// mains puts before the first own step of each path that the conversation went on
// through a row that names it, and moves what points at marks behind it.
func (d *drawer) mains(ctx context.Context, c *chart, w window, place map[dag.Hash]int, shift int) []mark {
	named := map[int][]LaneRow{} // before which mark
	for i := len(w.tail) - 1; i >= 0; i-- {
		s := w.tail[i]
		main := s.State.Main()
		from, ok := place[s.State.Fork]
		if main < 0 || !ok || from < 0 && shift == 0 || from+1 >= len(c.marks) {
			continue
		}
		p := s.State.Paths[main]
		row := LaneRow{Kind: RowPath, Thread: p.Thread, Name: p.ID, Status: string(p.Status), Main: true, Count: i + shift - from - 1}
		if t, ok := d.kin.Thread(p.Thread); ok {
			row.Time, row.Reason = t.CreatedAt, t.Reason
		}
		named[from+1] = append(named[from+1], row)
	}
	if len(named) == 0 {
		return c.marks
	}
	var out []mark
	moved := make([]int, len(c.marks))
	for i, b := range c.marks {
		for _, row := range named[i] {
			out = append(out, mark{row: row})
		}
		moved[i] = len(out)
		out = append(out, b)
	}
	for _, b := range c.marks {
		for _, st := range b.joins {
			st.from = movedTo(moved, st.from)
		}
	}
	for _, st := range c.pass {
		st.from = movedTo(moved, st.from)
	}
	return out
}

func movedTo(moved []int, at int) int {
	if at < 0 {
		return at
	}
	return moved[at]
}

// attachOthers adds to the marks of a chain what no step records: paths, calls and actions
// that run or came to nothing, and forks by hand.
func (d *drawer) attachOthers(ctx context.Context, c *chart, owners []string) error {
	place := map[dag.Hash]int{}
	for i, b := range c.marks {
		if !b.row.Hash.IsZero() {
			place[b.row.Hash] = i
		}
	}
	for _, owner := range owners {
		if err := d.attachOrphans(ctx, c.marks, place, owner, 0); err != nil {
			return err
		}
	}
	if n := len(c.marks); !c.below && n > 0 {
		if a, ok := d.at[d.row.ID]; ok && !d.row.Ended() {
			c.marks = append(c.marks, mark{row: now(a)})
		}
	}
	roots, err := d.b.Store.Threads(ctx, store.ThreadFilter{Bundle: d.row.Bundle, Kind: store.KindRoot, Newest: true,
		Limit: maxForked})
	if err != nil {
		return err
	}
	slices.SortFunc(roots, func(a, b store.Thread) int { return cmp.Compare(a.ID, b.ID) })
	for _, t := range roots {
		if t.ForkedFrom == nil || d.known[t.ID] {
			continue
		}
		at, ok := place[t.ForkedFrom.Step]
		if !ok {
			continue
		}
		lane := d.lane(ctx, t)
		lane.Name = t.ID
		d.beside++
		if d.beside > maxBeside {
			c.marks[at].leftOrphans = append(c.marks[at].leftOrphans, lane)
			continue
		}
		c.marks[at].orphans = append(c.marks[at].orphans, &sideLane{lane: lane, from: at, marks: []mark{{
			row: LaneRow{Kind: RowBranch, Thread: t.ID, Name: t.ID, Status: string(lane.Status), Reason: t.Reason,
				Flow: t.Flow, Count: t.Steps, Time: t.CreatedAt},
		}}})
	}
	return nil
}

// now is the row of what is worked at.
func now(a store.Attempt) LaneRow {
	return LaneRow{Kind: RowNow, Thread: a.Thread, Role: a.Role, Name: a.Agent, Status: string(store.Running),
		Time: a.StartedAt, Usage: a.Usage}
}
