package flow_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/flow"
)

// oracle is the table of the design, evaluated for a whole set of ends: joined and notMet report
// whether a row's condition holds when exactly these ends are known.
func oracle(j flow.JoinSpec, completed, failed, n int) (joined, notMet bool) {
	switch j.Strategy {
	case flow.AllCompleted:
		return completed == n, failed >= 1
	case flow.AnyCompleted:
		return completed >= 1, failed == n
	case flow.AllFailed:
		return failed == n, completed >= 1
	case flow.AnyFailed:
		return failed >= 1, completed == n
	case flow.SuccessCountThreshold:
		return completed >= j.Threshold, n-failed < j.Threshold
	}
	panic("no such strategy")
}

// expect replays the ends one after another: the first at which a row holds decides. The outcome
// needed every path if no row holds without one of them, whatever that one did: that is when the
// conditions require all n of a kind.
func expect(j flow.JoinSpec, paths []flow.PathState, timedOut bool) flow.Resolution {
	ends := slices.DeleteFunc(slices.Clone(paths), func(p flow.PathState) bool { return p.Status == "running" })
	slices.SortFunc(ends, func(a, b flow.PathState) int { return int(a.Ended - b.Ended) })
	var r flow.Resolution
	completed, failed, n := 0, 0, len(paths)
	for _, p := range ends {
		if p.Status == flow.PathCompleted {
			completed++
		} else {
			failed++
		}
		joined, notMet := oracle(j, completed, failed, n)
		if !joined && !notMet {
			continue
		}
		r.Outcome = map[bool]string{true: flow.Joined, false: flow.NotMet}[joined]
		count := completed
		if p.Status != flow.PathCompleted {
			count = failed
		}
		if count < n {
			r.DecidedBy = p.ID
		}
		break
	}
	if r.Outcome == "" && timedOut {
		r.Outcome = flow.TimedOut
	}
	if r.Outcome != "" && (j.Losers == flow.CancelLosers || timedOut) {
		for _, p := range paths {
			if p.Status == "running" {
				r.Cancel = append(r.Cancel, p.ID)
			}
		}
	}
	return r
}

// joinings lists every strategy, with every threshold, for n paths.
func joinings(n int) []flow.JoinSpec {
	var out []flow.JoinSpec
	for _, losers := range []string{flow.CancelLosers, flow.WaitForLosers} {
		for _, s := range []string{flow.AllCompleted, flow.AnyCompleted, flow.AllFailed, flow.AnyFailed} {
			out = append(out, flow.JoinSpec{Strategy: s, Losers: losers})
		}
		for k := 1; k <= n; k++ {
			out = append(out, flow.JoinSpec{Strategy: flow.SuccessCountThreshold, Threshold: k, Losers: losers})
		}
	}
	return out
}

// eachEnd calls f with every assignment of statuses to n paths and every order of their ends.
func eachEnd(n int, f func([]flow.PathState)) {
	statuses := []string{"running", flow.PathCompleted, flow.PathFailed, flow.PathCancelled}
	var orders func(left []int, order []int)
	paths := make([]flow.PathState, n)
	var assign func(i int)
	orders = func(left, order []int) {
		if len(left) == 0 {
			for at, i := range order {
				paths[i].Ended = int64(10 + at)
			}
			f(slices.Clone(paths))
			return
		}
		for i := range left {
			rest := slices.Delete(slices.Clone(left), i, i+1)
			orders(rest, append(slices.Clone(order), left[i]))
		}
	}
	assign = func(i int) {
		if i < n {
			for _, s := range statuses {
				paths[i] = flow.PathState{ID: fmt.Sprintf("p%d", i), Status: s}
				assign(i + 1)
			}
			return
		}
		var ended []int
		for i := range paths {
			if paths[i].Status != "running" {
				ended = append(ended, i)
			}
		}
		orders(ended, nil)
	}
	assign(0)
}

func TestResolveIsTheTable(t *testing.T) {
	cases, decided := 0, map[string]int{}
	for n := 1; n <= 4; n++ {
		for _, j := range joinings(n) {
			eachEnd(n, func(paths []flow.PathState) {
				for _, timedOut := range []bool{false, true} {
					got, want := flow.Resolve(j, paths, timedOut), expect(j, paths, timedOut)
					cases++
					if !cmp.Equal(got, want) {
						t.Fatalf("%+v, %+v, timed out %v\n got %+v\nwant %+v", j, paths, timedOut, got, want)
					}
					decided[got.Outcome]++
				}
			})
		}
	}
	if cases < 10_000 || len(decided) != 4 {
		t.Errorf("%d cases, outcomes %v", cases, decided)
	}
}

// A decision is final, whatever ends later, and whether or not the time runs out in the meantime.
func TestResolveNeverChangesItsMind(t *testing.T) {
	for n := 1; n <= 4; n++ {
		for _, j := range joinings(n) {
			eachEnd(n, func(paths []flow.PathState) {
				for cut := int64(10); cut < 10+int64(n); cut++ {
					early := slices.Clone(paths)
					for i := range early {
						if early[i].Status != "running" && early[i].Ended > cut {
							early[i] = flow.PathState{ID: early[i].ID, Status: "running"}
						}
					}
					first := flow.Resolve(j, early, false)
					if first.Outcome == "" {
						continue
					}
					for _, timedOut := range []bool{false, true} {
						later := flow.Resolve(j, paths, timedOut)
						if first.Outcome != later.Outcome || first.DecidedBy != later.DecidedBy {
							t.Fatalf("%+v: %+v at first, %+v later (%+v)", j, first, later, paths)
						}
					}
				}
			})
		}
	}
}

func ended(id, status string, at int64) flow.PathState {
	return flow.PathState{ID: id, Status: status, Ended: at}
}

func running(id string) flow.PathState { return flow.PathState{ID: id, Status: "running"} }

// Defects that joins had in an earlier program; each test is named after the rule that was broken.

func TestThresholdIsConsulted(t *testing.T) {
	j := flow.JoinSpec{Strategy: flow.SuccessCountThreshold, Threshold: 2}
	one := []flow.PathState{ended("a", flow.PathCompleted, 1), running("b"), running("c")}
	if got := flow.Resolve(j, one, false); got.Outcome != "" {
		t.Errorf("one of two was enough: %+v", got)
	}
	two := []flow.PathState{one[0], running("b"), ended("c", flow.PathCompleted, 2)}
	if got := flow.Resolve(j, two, false); got.Outcome != flow.Joined || got.DecidedBy != "c" {
		t.Errorf("two of two: %+v", got)
	}
}

func TestAnyCompletedDoesNotNeedTheMainPath(t *testing.T) {
	j := flow.JoinSpec{Strategy: flow.AnyCompleted, Main: "a", Losers: flow.CancelLosers}
	got := flow.Resolve(j, []flow.PathState{running("a"), ended("b", flow.PathCompleted, 1)}, false)
	if diff := cmp.Diff(flow.Resolution{Outcome: flow.Joined, DecidedBy: "b", Cancel: []string{"a"}}, got); diff != "" {
		t.Error(diff)
	}
}

func TestOneFailureEndsAllCompletedAtOnce(t *testing.T) {
	got := flow.Resolve(flow.JoinSpec{Strategy: flow.AllCompleted, Losers: flow.CancelLosers},
		[]flow.PathState{running("a"), ended("b", flow.PathFailed, 1)}, false)
	if diff := cmp.Diff(flow.Resolution{Outcome: flow.NotMet, DecidedBy: "b", Cancel: []string{"a"}}, got); diff != "" {
		t.Error(diff)
	}
	got = flow.Resolve(flow.JoinSpec{Strategy: flow.AllFailed}, []flow.PathState{ended("a", flow.PathFailed, 1),
		ended("b", flow.PathFailed, 2)}, false)
	if got.Outcome != flow.Joined {
		t.Errorf("ALL_FAILED cannot be met: %+v", got)
	}
}

func TestAnyFailedWaitsPastACompletedPath(t *testing.T) {
	j := flow.JoinSpec{Strategy: flow.AnyFailed}
	first := []flow.PathState{ended("a", flow.PathCompleted, 1), running("b")}
	if got := flow.Resolve(j, first, false); got.Outcome != "" {
		t.Errorf("decided by a path that completed: %+v", got)
	}
	if got := flow.Resolve(j, []flow.PathState{first[0], ended("b", flow.PathFailed, 2)},
		false); got.Outcome != flow.Joined || got.DecidedBy != "b" {
		t.Errorf("a failed path: %+v", got)
	}
}

func TestPathsThatEndedBeforeTheJoinCount(t *testing.T) {
	got := flow.Resolve(flow.JoinSpec{Strategy: flow.AllCompleted}, []flow.PathState{ended("a", flow.PathCompleted, -5),
		ended("b", flow.PathCompleted, 0)}, false)
	if got.Outcome != flow.Joined {
		t.Errorf("got %+v", got)
	}
}

func TestCancelledCountsAsFailed(t *testing.T) {
	got := flow.Resolve(flow.JoinSpec{Strategy: flow.AnyFailed},
		[]flow.PathState{running("a"), ended("b", flow.PathCancelled, 1)}, false)
	if got.Outcome != flow.Joined || got.DecidedBy != "b" {
		t.Errorf("got %+v", got)
	}
}

// A join without a timeout waits forever: only its caller's clock ends it.
func TestTimeoutZeroWaitsForEver(t *testing.T) {
	j := flow.JoinSpec{Strategy: flow.AllCompleted, Timeout: 0, Losers: flow.WaitForLosers}
	paths := []flow.PathState{running("a"), ended("b", flow.PathCompleted, 1<<62)}
	if got := flow.Resolve(j, paths, false); got.Outcome != "" || got.Cancel != nil {
		t.Errorf("got %+v", got)
	}
	if got := flow.Resolve(j, paths, true); got.Outcome != flow.TimedOut || !slices.Equal(got.Cancel, []string{"a"}) {
		t.Errorf("timed out: %+v", got)
	}
}

// Resolve, Next and Inside do not modify their arguments.
func TestNothingIsRewritten(t *testing.T) {
	d := parsed(t, strings.Join(forked, "\n"))
	before := parsed(t, strings.Join(forked, "\n"))
	paths := []flow.PathState{ended("db", flow.PathCompleted, 2), ended("api", flow.PathFailed, 1), running("x")}
	kept := slices.Clone(paths)
	for range 2 {
		flow.Resolve(d.Joins["g"], paths, true)
		flow.Next(d, flow.At{}, []flow.Step{{Role: "a", Meta: map[string]any{"$status": "ok"}}})
		d.Inside("api")
	}
	if diff := cmp.Diff(kept, paths); diff != "" {
		t.Errorf("paths:\n%s", diff)
	}
	if diff := cmp.Diff(before, d, sameDefinition); diff != "" {
		t.Errorf("definition:\n%s", diff)
	}
}

// forked is a valid flow with a fork; each row of the tables replaces one of its lines, counted
// from 1, or adds one.
var forked = []string{
	"version: 1",
	"name: f",
	"roles: {a: {}, r1: {}, r2: {}, r3: {}, m: {}}",
	"forks:",
	"  s: {forkPaths: [{pathId: api, childNodeId: r1}, {pathId: db, childNodeId: r2}]}",
	"joins:",
	"  g: {forkPathIds: [api, db]}",
	"graph:",
	"  $START: {new: {role: a, prompt: go}}",
	"  a: {ok: {role: s}}",
	"  r1: {ok: {role: r3, prompt: p}}",
	"  r2: {ok: {role: g}}",
	"  r3: {ok: {role: g}}",
	"  g: {joined: {role: m, prompt: p}}",
	"  m: {ok: {role: $END}}",
}
