package view

import (
	"context"

	"github.com/plait-run/plait/internal/dag"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/internal/thread"
)

// A shape says how paths are drawn.
type shape struct {
	from  int  // the mark that they part from
	depth int  // how many forks lie around them
	pass  bool // only the lanes, no rows
}

// paths draws the paths that a step joins, but for the one that the conversation went
// on through. left are those for which there is no room.
func (d *drawer) paths(ctx context.Context, s thread.Step, as shape) (drawn []*sideLane, left []Lane, err error) {
	main := s.State.Main()
	for i, p := range s.State.Paths {
		if i == main {
			continue
		}
		row := pathRow(d.kin, p, s.State.Fork)
		lane := Lane{Kind: row.Kind, Thread: p.Thread, Name: p.ID, Status: p.Status}
		if as.pass {
			if len(drawn) < MaxLanes {
				drawn = append(drawn, &sideLane{lane: lane, from: as.from})
			}
			continue
		}
		if len(drawn) >= MaxLanes-1 || d.beside >= maxBeside || as.depth >= maxNested {
			left = append(left, lane)
			continue
		}
		st, err := d.path(ctx, row, s.State.Fork, lane, as)
		if err != nil {
			return nil, nil, err
		}
		drawn = append(drawn, st)
	}
	return drawn, left, nil
}

// newest reads the newest steps of the chain at head down to from, which is left out,
// newest first. whole is false where there are more than are drawn.
func (d *drawer) newest(ctx context.Context, head, from dag.Hash) (own []thread.Step, whole bool, err error) {
	for s, err := range d.b.Nodes.Walk(ctx, head) {
		if err != nil {
			return nil, false, err
		}
		if s.Hash == from {
			break
		}
		if own = append(own, s); len(own) > maxOwn {
			return own, false, nil
		}
	}
	return own, true, nil
}

// path draws a path or an action: a row that names it, then its newest steps.
func (d *drawer) path(ctx context.Context, row store.Thread, fork dag.Hash, lane Lane, as shape) (*sideLane, error) {
	d.known[row.ID] = true
	d.beside++
	from := ownFrom(row, fork)
	own, whole, err := d.newest(ctx, row.Head, from)
	if err != nil {
		return nil, err
	}
	before, err := d.before(ctx, from)
	if err != nil {
		return nil, err
	}
	count := len(own)
	if !whole {
		count = row.Steps - before
		if row.Steps == 0 { // the index knows no such thread
			if count, err = d.b.Nodes.Length(ctx, row.Head); err != nil {
				return nil, err
			}
			count -= before
		}
		own = own[:newestOwn]
	}
	if d.beside+len(own) > maxBeside {
		own, whole = nil, count == 0
	}
	head := LaneRow{Kind: RowPath, Thread: row.ID, Name: lane.Name, Status: string(lane.Status), Reason: row.Reason,
		Flow: row.Flow, Count: count, Time: row.CreatedAt}
	st := &sideLane{lane: lane, from: as.from, marks: []mark{{row: head}}}
	place := map[dag.Hash]int{}
	if whole {
		place[fork], place[row.Start] = 0, 0
	} else {
		d.beside++
		st.marks = append(st.marks, mark{row: LaneRow{Kind: RowMore, Thread: row.ID, Name: lane.Name,
			Count: count - len(own), N: before + 1}})
	}
	owners := []string{row.ID}
	for i := len(own) - 1; i >= 0; i-- {
		s := own[i]
		b, err := d.mark(ctx, s, row.ID, before+count-i)
		if err != nil {
			return nil, err
		}
		at := len(st.marks)
		nested, ok := place[s.State.Fork]
		if !ok {
			nested = at - 1 // it parts from what is not drawn
		}
		if b.joins, b.leftJoins, err = d.paths(ctx, s, shape{from: nested, depth: as.depth + 1}); err != nil {
			return nil, err
		}
		if main := s.State.Main(); main >= 0 {
			owners = append(owners, s.State.Paths[main].Thread)
			d.known[s.State.Paths[main].Thread] = true
		}
		place[s.Hash] = at
		st.marks = append(st.marks, b)
	}
	for _, o := range owners {
		if err := d.attachOrphans(ctx, st.marks, place, o, as.depth+1); err != nil {
			return nil, err
		}
	}
	if a, ok := d.at[row.ID]; ok && !row.Ended() {
		d.beside++
		st.marks = append(st.marks, mark{row: now(a)})
	}
	return st, nil
}

// mark reads a step of a path.
func (d *drawer) mark(ctx context.Context, s thread.Step, of string, n int) (mark, error) {
	d.beside++
	detail, err := d.b.Nodes.Detail(ctx, s.State.Detail)
	if err != nil {
		return mark{}, err
	}
	row := LaneRow{
		Kind: kind(Step{Role: s.State.Role, Paths: s.State.Paths, ChildThread: s.State.ChildThread,
			Compact: s.State.Compact, Detail: detail}), Thread: of, N: n, Hash: s.Hash,
		Role: s.State.Role, Status: Outcome(s.State.Role, s.State.Meta), Time: s.State.Timestamp,
	}
	if detail != nil {
		row.Usage = detail.Usage
	}
	if child, ok := d.kin.Child(s.State.ChildThread); ok {
		d.known[child.ID] = true
		row.Child, row.Flow, row.Count = child.ID, child.Flow, child.Steps
	}
	if row.Kind == RowCompact {
		row.Count = n - 1
	}
	return mark{row: row}, nil
}

// before is the number of the step that a path parts from, 0 for a start.
func (d *drawer) before(ctx context.Context, from dag.Hash) (int, error) {
	if from.IsZero() {
		return 0, nil
	}
	if n, ok := d.numbers[from]; ok {
		return n, nil
	}
	n, err := d.b.Nodes.Length(ctx, from)
	d.numbers[from] = n
	return n, err
}

// child draws a call as a row beside the chain; nil when there is no room.
func (d *drawer) child(ctx context.Context, row store.Thread, from int) (*sideLane, error) {
	if d.beside >= maxBeside {
		return nil, nil
	}
	d.known[row.ID] = true
	d.beside++
	lane := d.lane(ctx, row)
	head := LaneRow{Kind: RowChild, Thread: row.ID, Name: row.Flow, Flow: row.Flow, Status: string(lane.Status),
		Reason: row.Reason, Count: row.Steps, Time: row.CreatedAt}
	st := &sideLane{lane: lane, from: from, marks: []mark{{row: head}}}
	if a, ok := d.at[row.ID]; ok && !row.Ended() {
		d.beside++
		st.marks = append(st.marks, mark{row: now(a)})
	}
	return st, nil
}

// attachOrphans adds owner's children that no step has joined yet to the marks of the
// steps they started from.
func (d *drawer) attachOrphans(ctx context.Context, marks []mark, place map[dag.Hash]int, owner string,
	depth int) error {
	for _, t := range d.kin.Below(owner) {
		if d.known[t.ID] || t.Parent == nil {
			continue
		}
		at, ok := place[t.Parent.From]
		if !ok {
			continue
		}
		lane := d.lane(ctx, t)
		if len(marks[at].orphans) >= MaxLanes-1 || d.beside >= maxBeside || depth >= maxNested {
			marks[at].leftOrphans = append(marks[at].leftOrphans, lane)
			continue
		}
		var st *sideLane
		var err error
		if t.Kind == store.KindCall {
			st, err = d.child(ctx, t, at)
		} else {
			st, err = d.path(ctx, t, t.Parent.From, lane, shape{from: at, depth: depth})
		}
		if err != nil {
			return err
		}
		marks[at].orphans = append(marks[at].orphans, st)
	}
	return nil
}
