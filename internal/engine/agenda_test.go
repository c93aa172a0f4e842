package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/store"
)

// a returns a thread of a task that waits for no one.
func a(id string, status store.Status) *node {
	return &node{row: store.Thread{ID: id, Status: status, Path: &store.Path{ID: id}}}
}

// blocked returns a blocked thread.
func blocked(id string, kind store.ReasonKind, asks gateState) *node {
	n := a(id, store.Blocked)
	n.row.Reason, n.gate = &store.Reason{Kind: kind, Message: "why"}, asks
	return n
}

// by returns a fork whose join has a rule.
func by(rule flow.JoinSpec) forkState { return forkState{Fork: flow.Fork{Rule: rule}} }

// serial returns a fork whose paths run one after the other.
func serial(rule flow.JoinSpec) forkState {
	f := by(rule)
	f.Strategy = flow.Serial
	return f
}

// decided returns a fork whose join is decided.
func decided(rule flow.JoinSpec) forkState {
	f := by(rule)
	f.decision = &Decision{Join: "j", Outcome: flow.Joined}
	return f
}

// depends returns a fork with a path that waits for another.
func depends(rule flow.JoinSpec, path, on string) forkState {
	f := by(rule)
	f.after = map[string][]string{path: {on}}
	return f
}

// forks returns a thread that waits for paths.
func forks(id string, f forkState, paths ...*node) *node {
	n := a(id, store.Running)
	f.Rule.PathIDs = nil
	for i, p := range paths {
		f.Rule.PathIDs = append(f.Rule.PathIDs, p.row.ID)
		f.threads = append(f.threads, p.row)
		f.states = append(f.states, flow.PathState{ID: p.row.ID, Status: string(p.row.Status), Ended: int64(i)})
	}
	n.fork, n.below = &f, paths
	return n
}

// calls returns a thread that waits for a child.
func calls(id string, route bool, child *node) *node {
	n := a(id, store.Running)
	n.call, n.below = &callState{child: child.row, route: route}, []*node{child}
	return n
}

// but returns n with another status, and why.
func but(n *node, status store.Status, kind store.ReasonKind) *node {
	n.row.Status, n.row.Reason = status, &store.Reason{Kind: kind}
	return n
}

func driven(n *node) *node {
	n.driven = true
	return n
}

// what spells out the moves.
func what(m moves) string {
	var out []string
	say := func(verb string, ids ...string) {
		if len(ids) > 0 {
			out = append(out, verb+" "+strings.Join(ids, " "))
		}
	}
	nodes := func(verb string, nodes []*node) {
		for _, n := range nodes {
			say(verb, n.row.ID)
		}
	}
	say("cancel", m.cancel...)
	for _, n := range m.decide {
		say("decide", n.row.ID, n.fork.outcome.Outcome)
	}
	nodes("join", m.join)
	nodes("return", m.returned)
	for _, n := range m.block {
		say("block", n.row.ID)
	}
	nodes("resume", m.resume)
	say("drive", m.Drive...)
	if m.Waits {
		say("waits", "for a person")
	}
	if m.RecheckAfter > 0 {
		say("look", m.RecheckAfter.String())
	}
	return strings.Join(out, "; ")
}

func TestMoves(t *testing.T) {
	all := flow.JoinSpec{Strategy: flow.AllCompleted}
	first := flow.JoinSpec{Strategy: flow.AnyCompleted}
	patient := flow.JoinSpec{Strategy: flow.AnyCompleted, Losers: flow.WaitForLosers}
	timed := flow.JoinSpec{Strategy: flow.AllCompleted, Timeout: 1}
	inTime, merges := by(timed), decided(all)
	inTime.left, merges.files = time.Second, true
	const (
		pending, running, completed, failed = store.Pending, store.Running, store.Completed, store.Failed
	)
	patience := blocked("r", store.ReasonGate, gateOpen)
	patience.expires, patience.left = true, time.Second
	delayed := a("r", running)
	delayed.waits = time.Minute
	wanted := a("r", running)
	wanted.row.Intent = store.IntentCancel
	for name, tt := range map[string]struct {
		root *node
		want string
	}{
		"a new task":           {a("r", pending), "drive r"},
		"a task that runs":     {a("r", running), "drive r"},
		"somebody drives it":   {driven(a("r", running)), ""},
		"it has ended":         {a("r", completed), ""},
		"nobody wants it":      {wanted, "cancel r"},
		"workers could not":    {delayed, "look 1m0s"},
		"a question is open":   {blocked("r", store.ReasonGate, gateOpen), "waits for a person"},
		"a question times out": {patience, "waits for a person; look 1s"},
		"it was answered":      {blocked("r", store.ReasonGate, gateAnswered), "drive r"},
		"it is out of tries":   {blocked("r", store.ReasonAttempts, noGate), ""},
		"files must settle":    {blocked("r", store.ReasonConflict, noGate), ""},
		"paths begin together": {forks("r", by(all), a("x", pending), a("y", pending)), "drive x y"},
		"one after the other": {forks("r", serial(all), a("x", completed), a("y", running),
			a("z", pending)), "drive y"},
		"a serial path waits": {forks("r", serial(all), blocked("x", store.ReasonInput, noGate),
			a("y", pending)), "block r"},
		"what it depends on has not ended": {
			forks("r", depends(all, "y", "x"), a("x", running), a("y", pending)),
			"drive x"},
		"what it depends on has failed": {
			forks("r", depends(first, "y", "x"),
				a("x", failed), a("y", pending), a("z", running)), "cancel y; drive z"},
		"all have completed": {forks("r", by(all), a("x", completed), a("y", completed)),
			"decide r joined"},
		"one was enough": {forks("r", by(first), a("x", completed), a("y", running)),
			"decide r joined"},
		"time is up": {forks("r", by(timed), a("x", running)), "decide r timeout"},
		"there is time": {forks("r", inTime, a("x", running)),
			"drive x; look 1s"},
		"a loser goes": {forks("r", decided(first),
			a("x", completed), a("y", running)), "cancel y"},
		"a loser is waited for": {forks("r", decided(patient), a("x", completed), a("y", running)),
			"drive y"},
		"it is joined": {forks("r", decided(all), a("x", completed)), "join r"},
		"files are to be merged": {forks("r", merges, a("x", completed)),
			"drive r"},
		"adopted paths": {but(forks("r", by(all), a("x", completed)), pending, ""), "drive r"},
		"the join waits for none": {but(forks("r", by(all), a("x", failed)), store.Blocked, store.ReasonJoin),
			""},
		"a child works":          {calls("r", false, a("c", running)), "drive c"},
		"a child has ended":      {calls("r", true, a("c", completed)), "return r"},
		"no way on from a child": {but(calls("r", false, a("c", failed)), store.Blocked, store.ReasonChild), ""},
		"first no way on":        {calls("r", false, a("c", failed)), "return r"},
		"a child is blocked":     {calls("r", false, blocked("c", store.ReasonInput, noGate)), "block r"},
		"it is so already": {but(calls("r", false, blocked("c", store.ReasonInput, noGate)), store.Blocked,
			store.ReasonChild), ""},
		"a child goes on": {but(calls("r", false, a("c", running)), store.Blocked, store.ReasonChild),
			"resume r; drive c"},
		"deep down": {
			forks("r", by(all),
				calls("x", false, forks("c", by(all), blocked("p", store.ReasonGate, gateOpen),
					a("q", completed)))),
			"block c; waits for a person"},
		"one path goes on": {
			forks("r", by(all), blocked("x", store.ReasonGate, gateOpen), driven(a("y", running))),
			"waits for a person"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, what(movesOf(tt.root))); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// With fewer turns than threads, those that have begun come first, and what needs no agent needs none.
func TestWithinTurns(t *testing.T) {
	all := flow.JoinSpec{Strategy: flow.AllCompleted}
	merges := decided(all)
	merges.files = true
	m := movesOf(forks("r", by(all), a("x", store.Pending), a("y", store.Pending), a("z", store.Running),
		driven(a("w", store.Running)), forks("m", merges, a("n", store.Completed))))
	for turns, want := range map[int]string{-1: "drive m", 0: "drive m", 1: "drive m z", 2: "drive m z x",
		3: "drive m z x y", 9: "drive m z x y"} {
		if m.within(turns); what(m) != want || m.Queued != 4-len(m.Drive) || m.Driven != 1 {
			t.Errorf("%d turns: %s; %d wait, %d are driven; want %s", turns, what(m), m.Queued, m.Driven, want)
		}
	}
}

// Whatever the tree: the same rows give the same moves, nothing that has ended or is driven is to
// be driven, nothing is done twice, and a task that waits for no one never stalls.
func TestAnyMoves(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n := 0
		still := true // nothing is driven, and nothing waits for a person
		var tree func(depth int) *node
		tree = func(depth int) *node {
			n++
			id := fmt.Sprintf("t%d", n)
			switch kind := rapid.IntRange(0, 7).Draw(r, "kind of "+id); {
			case kind == 0:
				still = false
				return driven(a(id, store.Running))
			case kind == 1:
				still = false
				asks := rapid.SampledFrom([]gateState{noGate, gateOpen}).Draw(r, "asks")
				return blocked(id, rapid.SampledFrom([]store.ReasonKind{store.ReasonGate, store.ReasonAttempts}).Draw(r,
					"why"), asks)
			case kind == 2:
				return a(id, rapid.SampledFrom([]store.Status{store.Completed, store.Failed}).Draw(r, "ended"))
			case kind < 5 || depth == 0:
				return a(id, rapid.SampledFrom([]store.Status{store.Pending, store.Running}).Draw(r, "status"))
			case kind == 5:
				return calls(id, true, tree(depth-1))
			}
			f := by(flow.JoinSpec{Strategy: flow.AllCompleted})
			if rapid.Bool().Draw(r, "serial") {
				f.Strategy = flow.Serial
			}
			var paths []*node
			for range rapid.IntRange(1, 3).Draw(r, "paths") {
				paths = append(paths, tree(depth-1))
			}
			if f.Strategy != flow.Serial && len(paths) > 1 && rapid.Bool().Draw(r, "depends") {
				f.after = map[string][]string{paths[1].row.ID: {paths[0].row.ID}}
			}
			return forks(id, f, paths...)
		}
		root := tree(3)
		m := movesOf(root)
		if again := what(movesOf(root)); again != what(m) {
			r.Fatalf("first %q, then %q", what(m), again)
		}
		var all func(n *node, visit func(*node))
		all = func(n *node, visit func(*node)) {
			visit(n)
			for _, b := range n.below {
				all(b, visit)
			}
		}
		all(root, func(n *node) {
			times := 0
			for _, id := range m.Drive {
				if id == n.row.ID {
					times++
				}
			}
			if times > 1 || times == 1 && (n.driven || n.row.Ended()) {
				r.Fatalf("%s is to be driven %d times: driven %t, %s", n.row.ID, times, n.driven, n.row.Status)
			}
			if slices.Contains(m.cancel, n.row.ID) && n.row.Ended() {
				r.Fatalf("%s has ended and is cancelled", n.row.ID)
			}
		})
		if still && !root.row.Ended() && what(m) == "" {
			r.Fatal("the task stands still")
		}
	})
}
