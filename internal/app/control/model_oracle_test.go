package control

import (
	"fmt"
	"slices"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/store"
)

// A line is what the oracle knows about one thread.
type line struct {
	// pos is its name, the same in every run: its parent's, the length of that one's
	// chain, and the path or "call".
	pos    string
	up     *line
	flow   *subflow
	path   string // its id, "" if it is not a path
	block  []*node
	at     int // its current node
	chain  []string
	status store.Status
	reason string  // kind, when blocked
	agent  bool    // it waits for its agent
	kids   []*line // its paths or child, while it waits for them
	ends   []*line // of its paths, in their order
	came   verdict // of its join
}

// A verdict is the outcome of a join.
type verdict struct{ outcome, by string }

// A joining is the step of a join as the oracle has it.
type joining struct {
	verdict
	follows string // path, "" for the fork
	paths   []string
}

// A turn lets one agent work: those that work concurrently end in the order of their
// turns. It is over once all that follows from it is in the store: threads that have
// ended, by their pos; that are out of attempts, with a "!"; and that have grown by a
// step, as growth spells it.
type turn struct {
	key  string // of the step: its thread's pos, and how long the chain was
	ends []string
}

// An oracle interprets a program in the simplest way: one agent after the other.
type oracle struct {
	pick  func(n int) int // which of n agents is next
	lines map[string]*line
	turns []turn
	joins map[string]joining // by the pos of the thread and the length up to the join
	root  *line
}

func foretell(p program, pick func(n int) int) *oracle {
	o := &oracle{pick: pick, lines: map[string]*line{}, joins: map[string]joining{}}
	o.root = o.line(nil, "", p[0], "", p[0].body, nil)
	o.enter(o.root, 0)
	for {
		ready := waiting(o.root, nil)
		if len(ready) == 0 {
			break
		}
		l := ready[0]
		if len(ready) > 1 {
			l = ready[o.pick(len(ready))]
		}
		o.turns = append(o.turns, turn{key: keyOf(l.pos, len(l.chain))})
		o.work(l)
	}
	settle(o.root)
	return o
}

func keyOf(pos string, steps int) string { return fmt.Sprintf("%s#%d", pos, steps) }

func growth(pos string, steps int) string { return fmt.Sprintf("%s@%d", pos, steps) }

func below0(pos string, steps int, name string) string {
	return fmt.Sprintf("%s/%d.%s", pos, steps, name)
}

func (o *oracle) line(up *line, pos string, f *subflow, path string, block []*node, chain []string) *line {
	l := &line{pos: pos, up: up, flow: f, path: path, block: block, chain: slices.Clone(chain), status: store.Pending}
	o.lines[pos] = l
	return l
}

func (l *line) ended() bool {
	return l.status == store.Completed || l.status == store.Failed || l.status == store.Cancelled
}

// waiting lists the threads whose agents are at work.
func waiting(l *line, out []*line) []*line {
	if l.status != store.Running {
		return out
	}
	if l.agent {
		out = append(out, l)
	}
	for _, kid := range l.kids {
		out = waiting(kid, out)
	}
	return out
}

// enter brings a thread to a node of its block.
func (o *oracle) enter(l *line, i int) {
	l.at, l.status = i, store.Running
	if i == len(l.block) {
		o.end(l, l.flow.code)
		return
	}
	switch n := l.block[i]; {
	case n.calls != nil:
		l.kids = []*line{o.line(l, below0(l.pos, len(l.chain), "call"), n.calls, "", n.calls.body, nil)}
		o.enter(l.kids[0], 0)
	case n.fork != nil:
		l.kids, l.ends, l.came = nil, nil, verdict{}
		for k, id := range n.fork.ids {
			l.kids = append(l.kids, o.line(l, below0(l.pos, len(l.chain), id), l.flow, id, n.fork.paths[k], l.chain))
		}
		o.start(l)
	default:
		l.agent = true
	}
}

// start starts the paths that may begin.
func (o *oracle) start(l *line) {
	for _, kid := range l.kids {
		if kid.status == store.Pending {
			o.enter(kid, 0)
		}
		if l.block[l.at].fork.serial && !kid.ended() {
			return
		}
	}
}

// work is an agent's turn.
func (o *oracle) work(l *line) {
	n := l.block[l.at]
	l.agent = false
	says := n.said(len(l.chain))
	if says == saysRefuse {
		if l.path != "" {
			o.over(l, store.Failed)
		} else {
			l.status, l.reason = store.Blocked, "attempts"
			o.note(l.pos + "!")
		}
		return
	}
	o.grow(l, n.name)
	switch says {
	case saysAgain:
		o.enter(l, 0)
	case saysStop:
		o.end(l, 2)
	default:
		o.enter(l, l.at+1)
	}
}

// end is the end of a block.
func (o *oracle) end(l *line, code int) {
	switch {
	case l.path != "":
		o.over(l, store.Completed)
		return
	case code == 0:
		l.status = store.Completed
	default:
		l.status = store.Failed
	}
	o.grow(l, "__end__")
	if l.up != nil {
		o.note(l.pos)
		o.returned(l.up, l)
	}
}

// note records what the last turn led to.
func (o *oracle) note(what string) {
	t := &o.turns[len(o.turns)-1]
	t.ends = append(t.ends, what)
}

// grow adds a step to a thread.
func (o *oracle) grow(l *line, role string) {
	l.chain = append(l.chain, role)
	o.note(growth(l.pos, len(l.chain)))
}

// returned is what a caller does when its child has ended.
func (o *oracle) returned(l, child *line) {
	n := l.block[l.at]
	l.kids = nil
	if child.status != store.Completed && n.fails == "" {
		l.status, l.reason = store.Blocked, "child"
		return
	}
	o.grow(l, n.name)
	o.next(l, n, child.status == store.Completed)
}

func (o *oracle) next(l *line, n *node, good bool) {
	if !good && n.fails == "end" {
		o.end(l, 3)
		return
	}
	o.enter(l, l.at+1)
}

// over ends a path, and with it perhaps its join.
func (o *oracle) over(l *line, status store.Status) {
	l.status = status
	o.note(l.pos)
	up := l.up
	b := up.block[up.at].fork
	up.ends = append(up.ends, l)
	if up.came.outcome == "" {
		up.came = b.verdict(up.ends)
	}
	if up.came.outcome != "" && !b.wait {
		for _, kid := range up.kids {
			cancelLine(kid)
		}
	}
	o.start(up)
	if up.came.outcome != "" && !slices.ContainsFunc(up.kids, func(k *line) bool { return !k.ended() }) {
		o.join(up)
	}
}

func cancelLine(l *line) {
	if l.ended() {
		return
	}
	l.status, l.reason, l.agent = store.Cancelled, "", false
	for _, kid := range l.kids {
		cancelLine(kid)
	}
}

// verdict is the design's table, applied to ends in order.
func (b *branching) verdict(ends []*line) verdict {
	n := len(b.ids)
	type rule struct {
		good        bool // joined by paths that completed, otherwise by those that failed
		joins, ends int  // how many of these to join, and of the others to fail
	}
	r := map[string]rule{
		flow.AllCompleted: {true, n, 1}, flow.AnyCompleted: {true, 1, n},
		flow.AllFailed: {false, n, 1}, flow.AnyFailed: {false, 1, n},
		flow.SuccessCountThreshold: {true, b.threshold, n - b.threshold + 1},
	}[b.strategy]
	yes, no := 0, 0
	for _, l := range ends {
		v, took := verdict{}, 0
		if (l.status == store.Completed) == r.good {
			if yes++; yes == r.joins {
				v, took = verdict{"joined", l.path}, yes
			}
		} else if no++; no == r.ends {
			v, took = verdict{"failed", l.path}, no
		}
		if took == n {
			v.by = ""
		}
		if took > 0 {
			return v
		}
	}
	return verdict{}
}

// join is the step of a join whose paths have all ended.
func (o *oracle) join(l *line) {
	n := l.block[l.at]
	b := n.fork
	good := l.came.outcome == "joined"
	if !good && n.fails == "" {
		l.status, l.reason = store.Blocked, "join"
		return
	}
	j := joining{verdict: l.came}
	for _, kid := range l.kids {
		j.paths = append(j.paths, string(kid.status))
		if kid.path == l.came.by && good {
			j.follows = kid.path
		}
	}
	if main := l.kids[b.main]; good && (main.status == store.Completed || l.came.by == "") {
		j.follows = main.path
	}
	for _, kid := range l.kids {
		if kid.path == j.follows {
			l.chain = slices.Clone(kid.chain)
		}
	}
	o.joins[keyOf(l.pos, len(l.chain))] = j
	o.grow(l, b.join)
	l.kids = nil
	o.next(l, n, good)
}

// settle blocks a thread that waits for others if none of them can continue.
func settle(l *line) {
	for _, kid := range l.kids {
		settle(kid)
	}
	if l.status == store.Running {
		l.status, l.reason = store.Blocked, "child"
	}
}

// lost reports whether a thread is below a cancelled one: how far it got is
// unpredictable.
func (l *line) lost() bool {
	return l.up != nil && (l.up.status == store.Cancelled || l.up.lost())
}
