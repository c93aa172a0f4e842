package engine

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/store"
)

// An Agenda is what can be done for a task now, and when to look again.
type Agenda struct {
	Drive        []string      // threads that may be driven
	Hosts        []string      // where each was last driven; "" if unknown
	Avoid        [][]string    // the workers that were not able to drive each
	Driven       int           // threads that are being driven
	Queued       int           // threads that may be driven once another agent of the task has ended its turn
	Stop         []string      // threads that are being driven but are no longer wanted
	Waits        bool          // a person's answer would let something continue
	Delayed      bool          // something continues by itself after RecheckAfter
	RecheckAfter time.Duration // when to look again even if nothing happens; zero: never
}

// A node is a thread of a task with what it waits for. Its next move follows from these.
type node struct {
	row     store.Thread
	state   *threadState // of a thread that waits for others
	driven  bool         // someone drives it, or looks at it, and takes care of what it waits for
	gate    gateState
	expires bool          // the open gate that it waits at times out
	left    time.Duration // time left before that
	waits   time.Duration // until workers try it again that were not able to drive it
	fork    *forkState
	call    *callState
	below   []*node // the newest threads of the fork's paths, in its order, or the child
}

// moves are the next moves for the threads of a task. Those in the fields before Agenda need neither an agent
// nor files.
type moves struct {
	cancel   []string // end as cancelled, with everything below
	decide   []*node  // a join whose outcome is settled
	join     []*node  // a join whose paths have all ended
	returned []*node  // a caller whose child has ended
	block    []*node  // waits, and nothing below can continue without a person
	resume   []*node  // is blocked, and something below can continue
	ready    []*node  // may be driven
	Agenda
}

// movesOf returns the moves for the thread of n and all below it. It alone decides them: the same nodes give the
// same moves. It sets the outcome of each fork that it looks at.
func movesOf(n *node) moves {
	var m moves
	if !n.row.Ended() && n.row.Intent == store.IntentCancel {
		m.cancel = []string{n.row.ID}
		return m
	}
	m.at(n)
	m.offer(m.ready)
	return m
}

// at adds the moves for n and all below it. It reports whether n is stuck: nothing of it can continue without a
// person.
func (m *moves) at(n *node) (stuck bool) {
	blocked := n.row.Status == store.Blocked
	switch {
	case n.row.Ended():
		return false
	case n.driven:
		m.Driven++
		return false
	case blocked && n.row.Reason != nil && n.row.Reason.Kind != store.ReasonChild:
		m.Waits = m.Waits || n.gate == gateOpen
		if n.expires {
			m.recheckAfter(max(n.left, time.Millisecond))
		}
		if n.gate != gateAnswered {
			return true
		}
	case n.row.Status == store.Pending: // what it waits for was adopted
	case n.fork != nil:
		return m.atFork(n)
	case n.call != nil:
		child := n.below[0]
		switch {
		case !child.row.Ended():
			return m.waiting(n, !m.at(child))
		case blocked && !n.call.route:
			return true
		}
		m.returned = append(m.returned, n)
		return false
	case blocked:
		return true
	}
	m.drive(n)
	return false
}

// drive adds a thread to those that may be driven, unless it has to wait: see waits.
func (m *moves) drive(n *node) {
	if n.waits > 0 {
		m.Delayed = true
		m.recheckAfter(n.waits)
		return
	}
	m.ready = append(m.ready, n)
}

// offer puts threads on the agenda, to be driven.
func (m *moves) offer(nodes []*node) {
	m.Drive, m.Hosts, m.Avoid = nil, nil, nil
	for _, n := range nodes {
		var avoid []string
		if troubled(n.row) {
			avoid = slices.Sorted(maps.Keys(n.row.Reason.Workers))
		}
		m.Drive, m.Hosts, m.Avoid = append(m.Drive, n.row.ID), append(m.Hosts, n.row.Host), append(m.Avoid, avoid)
	}
}

// within leaves on the agenda no more threads than there are turns for: first those that have begun. A merge of files
// needs none.
func (m *moves) within(turns int) {
	order := func(n *node) int {
		switch {
		case n.fork != nil:
			return 0
		case n.row.Status != store.Pending:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(m.ready, func(a, b *node) int { return cmp.Compare(order(a), order(b)) })
	n := slices.IndexFunc(m.ready, func(n *node) bool { return n.fork == nil })
	if n < 0 {
		n = len(m.ready)
	}
	n = min(n+max(turns, 0), len(m.ready))
	m.Queued = len(m.ready) - n
	m.offer(m.ready[:n])
}

// atFork adds the moves for a thread that waits for paths.
func (m *moves) atFork(n *node) (stuck bool) {
	f := n.fork
	timed := f.Rule.Timeout > 0 && f.then == nil
	late := timed && f.left <= 0
	if timed && !late {
		m.recheckAfter(f.left)
	}
	if f.decision == nil {
		if f.outcome = f.resolve(late); f.outcome.Outcome != "" {
			m.decide = append(m.decide, n)
			return false
		}
	}
	progress, open := false, false
	for _, path := range n.below {
		if path.row.Ended() {
			continue
		}
		open = true
		may := n.permits(path)
		switch {
		case f.cancelsLosers(), f.decision != nil && late, may == mayNever:
			m.cancel = append(m.cancel, path.row.ID)
			progress = true
			continue
		case may == mustWait:
			continue
		case !m.at(path):
			progress = true
		}
		if f.Strategy == flow.Serial {
			break // the next one when this one has ended
		}
	}
	switch {
	case open:
		return m.waiting(n, progress)
	case f.files: // what they changed has to be merged
		m.drive(n)
	default:
		m.join = append(m.join, n)
	}
	return false
}

// waiting adds the moves for a thread that waits for those below it. progress reports whether any of
// them can continue without a person.
func (m *moves) waiting(n *node, progress bool) (stuck bool) {
	blocked := n.row.Status == store.Blocked
	switch {
	case progress && blocked:
		m.resume = append(m.resume, n)
	case !progress && !blocked && n.allBlocked():
		m.block = append(m.block, n)
	}
	return !progress
}

// recheckAfter asks to look again after a time.
func (m *moves) recheckAfter(after time.Duration) {
	if m.RecheckAfter == 0 || after < m.RecheckAfter {
		m.RecheckAfter = after
	}
}

// allBlocked reports whether a thread below is blocked and none remains to be blocked.
func (n *node) allBlocked() bool {
	any := false
	for _, b := range n.below {
		any = any || b.row.Status == store.Blocked
		if b.row.Status == store.Running {
			return false // it is blocked first, then the thread that waits for it
		}
	}
	return any
}

// A permission is whether a path may begin.
type permission int

const (
	mayBegin permission = iota
	mustWait
	mayNever
)

// permits returns whether a path may begin: only when what it depends on has completed.
func (n *node) permits(path *node) permission {
	for _, dep := range n.fork.after[path.row.Path.ID] {
		i := slices.IndexFunc(n.below, func(o *node) bool { return o.row.Path.ID == dep })
		switch on := n.below[i].row; {
		case on.Status == store.Completed:
		case on.Ended():
			return mayNever
		default:
			return mustWait
		}
	}
	return mayBegin
}

// blockedBelow returns the reason to block a thread that waits for others.
func (n *node) blockedBelow() store.Reason {
	var rows []store.Thread
	for _, b := range n.below {
		if b.row.Status == store.Blocked {
			rows = append(rows, b.row)
		}
	}
	return store.Reason{Kind: store.ReasonChild, Message: describeStopped(rows)}
}

// troubled reports whether a worker gave a thread back, and none has made a step of it since.
func troubled(row store.Thread) bool {
	return row.Status != store.Blocked && row.Reason != nil && row.Reason.Kind == store.ReasonWorker
}
