package parse_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/flow/parse"
)

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

func forkedWith(edits map[int]string) string {
	lines := append([]string{}, forked...)
	for n, text := range edits {
		for n > len(lines) {
			lines = append(lines, "")
		}
		lines[n-1] = text
	}
	return strings.Join(lines, "\n") + "\n"
}

func TestThreeFormsOfAFork(t *testing.T) {
	want := flow.ForkSpec{Strategy: flow.Parallel, Join: "g", Paths: []flow.BranchPath{{ID: "x-1", Child: "r1"},
		{ID: "x-2", Child: "r2"}}}
	forms := map[string]string{
		"forkPaths": "  s: {forkPaths: [{pathId: x-1, childNodeId: r1}, {pathId: x-2, childNodeId: r2, " +
			"prompt: ''}]}",
		"forkPaths and strategy": "  s: {forkStrategy: parallel, forkPaths: [{pathId: x-1, childNodeId: r1}, " +
			"{childNodeId: r2, pathId: x-2}]}",
		"arrays":     "  s: {forkPathIds: [x-1, x-2], childNodeIds: [r1, r2]}",
		"forkId":     "  s: {forkId: x, childNodeIds: [r1, r2]}",
		"block form": "  s:\n    forkPathIds:\n    - x-1\n    - x-2\n    childNodeIds: [r1, r2]",
	}
	var first *flow.Definition
	for _, name := range sortedNames(forms) {
		t.Run(name, func(t *testing.T) {
			d := parsed(t, forkedWith(map[int]string{5: forms[name], 7: "  g: {forkPathIds: [x-1, x-2]}"}))
			if diff := cmp.Diff(want, d.Forks["s"]); diff != "" {
				t.Errorf("fork (-want +got):\n%s", diff)
			}
			roundTrip(t, d)
			if first == nil {
				first = d
			}
			if diff := cmp.Diff(first, d, sameDefinition); diff != "" {
				t.Errorf("the forms differ:\n%s", diff)
			}
		})
	}
	one := parsed(t, forkedWith(map[int]string{5: "  s: {forkStrategy: serial, forkId: x, childNodeIds: [r2]}",
		7: "  g: {forkPathIds: [x]}", 3: "roles: {a: {}, r2: {}, m: {}}", 11: "", 13: ""}))
	if diff := cmp.Diff(flow.ForkSpec{Strategy: flow.Serial, Join: "g",
		Paths: []flow.BranchPath{{ID: "x", Child: "r2"}}}, one.Forks["s"]); diff != "" {
		t.Errorf("one child of a forkId keeps it (-want +got):\n%s", diff)
	}
}

// A join in the older format names its fork; its path ids are derived from that.
func TestOlderJoins(t *testing.T) {
	want := flow.JoinSpec{PathIDs: []string{"x-1", "x-2"}, Strategy: flow.AllCompleted, Main: "x-1",
		Losers: flow.CancelLosers}
	older := "  s: {forkId: x, childNodeIds: [r1, r2]}"
	for _, tt := range []struct {
		name, join, main string
		named            int // warnings that name the ids
	}{
		{"forkId", "{forkId: x}", "x-1", 2},
		{"the fork's name", "{forkId: s}", "x-1", 2},
		{"one path id", "{forkPathIds: [x]}", "x-1", 2},
		{"main path", "{forkPathIds: [x], mainPathId: x}", "x-1", 2},
		{"main path by its new id", "{forkId: x, mainPathId: x-2}", "x-2", 2},
		{"the new ids, and an older beside", "{forkPathIds: [x-1, x-2], forkId: x}", "x-1", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := forkedWith(map[int]string{5: older, 7: "  g: " + tt.join})
			d, problems := parse.Parse(nil, "flow.yaml", []byte(text))
			if d == nil {
				t.Fatalf("flow refused: %v", problems)
			}
			if got := fmt.Sprint(problems); strings.Count(got, "x-1, x-2") != tt.named || len(problems) != 2 {
				t.Errorf("the warnings are %s", got)
			}
			want.Main = tt.main
			if diff := cmp.Diff(want, d.Joins["g"]); diff != "" {
				t.Errorf("join (-want +got):\n%s", diff)
			}
			if d.Forks["s"].Join != "g" {
				t.Errorf("the fork's join is %q", d.Forks["s"].Join)
			}
		})
	}
}

func TestJoinDefaultsAndKeys(t *testing.T) {
	d := parsed(t, forkedWith(nil))
	if diff := cmp.Diff(flow.JoinSpec{PathIDs: []string{"api", "db"}, Strategy: flow.AllCompleted, Main: "api",
		Losers: flow.CancelLosers}, d.Joins["g"]); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
	d = parsed(t, forkedWith(map[int]string{7: "  g: {forkPathIds: [api, db], joinStrategy: SUCCESS_COUNT_THRESHOLD, " +
		"threshold: 2, timeout: 600, mainPathId: db, losers: wait}"}))
	want := flow.JoinSpec{PathIDs: []string{"api", "db"}, Strategy: flow.SuccessCountThreshold, Threshold: 2,
		Timeout: 600e9, Main: "db", Losers: flow.WaitForLosers}
	if diff := cmp.Diff(want, d.Joins["g"]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	roundTrip(t, d)
	d = parsed(t, forkedWith(map[int]string{7: "  g: {forkPathIds: [api, db], timeout: 90s, threshold: null, " +
		"mainPathId: }"}))
	if got := d.Joins["g"]; got.Timeout != 90e9 || got.Main != "api" {
		t.Errorf("join = %+v", got)
	}
	if fork, p, ok := d.Branch("db"); fork != "s" || p.Child != "r2" || !ok {
		t.Errorf("Branch = %s %+v %v", fork, p, ok)
	}
}

// Empty forks, joins and gates do not change the JSON of a flow: bundles are named by its hash.
func TestEmptyPartsAreNone(t *testing.T) {
	with, without := parsed(t, edited(8, "forks: {}\njoins: {}\ngates: {}")), parsed(t, edited(0, ""))
	if diff := cmp.Diff(without, with, sameDefinition); diff != "" {
		t.Error(diff)
	}
}

func TestForkChecks(t *testing.T) {
	const one = "  s: {forkPaths: [{pathId: api, childNodeId: r1}, "
	tests := []struct {
		name  string
		edits map[int]string
		want  string
	}{
		{"right", nil, ""},
		{"fork without paths", map[int]string{5: "  s: {forkStrategy: serial}"}, "5:3 INVALID_FORK_PATHS"},
		{"fork with no paths", map[int]string{5: "  s: {forkPaths: []}"}, "5:3 INVALID_FORK_PATHS"},
		{"lengths differ", map[int]string{5: "  s: {forkPathIds: [api, db], childNodeIds: [r1]}"},
			"5:31 INVALID_FORK_PATHS"},
		{"ids without children", map[int]string{5: "  s: {forkPathIds: [api, db]}"}, "5:3 INVALID_FORK_PATHS"},
		{"children without ids", map[int]string{5: "  s: {childNodeIds: [r1, r2]}"}, "5:7 INVALID_FORK_PATHS"},
		{"written twice", map[int]string{5: one + "{pathId: db, childNodeId: r2}], forkId: x}"},
			"5:7 INVALID_FORK_PATHS"},
		{"forkId beside ids", map[int]string{5: "  s: {forkId: x, forkPathIds: [api, db], childNodeIds: [r1, r2]}"},
			"5:7 OLD_FORMAT warning"},
		{"no pathId", map[int]string{5: one + "{childNodeId: r2}]}"}, "5:51 INVALID_FORK_PATH_ITEM"},
		{"empty pathId", map[int]string{5: one + "{pathId: '', childNodeId: r2}]}"}, "5:60 INVALID_FORK_PATH_ITEM"},
		{"odd pathId", map[int]string{5: one + "{pathId: d b, childNodeId: r2}]}", 7: "  g: {forkPathIds: [api, d b]}"},
			"5:60 INVALID_FORK_PATH_ITEM"},
		{"number as pathId", map[int]string{5: one + "{pathId: 1, childNodeId: r2}]}"}, "5:60 WRONG_TYPE"},
		{"no childNodeId", map[int]string{5: one + "{pathId: db}]}"}, "5:51 INVALID_FORK_PATH_ITEM"},
		{"path is no mapping", map[int]string{5: one + "db]}"}, "5:51 INVALID_FORK_PATH_ITEM"},
		{"unknown child", map[int]string{5: one + "{pathId: db, childNodeId: r22}]}"},
			"5:77 INVALID_FORK_PATH_ITEM, 12:3 UNREACHABLE_NODE"},
		{"child is the join", map[int]string{5: one + "{pathId: db, childNodeId: g}]}"},
			"5:77 INVALID_FORK_PATH_ITEM, 12:3 UNREACHABLE_NODE"},
		{"unknown key of a fork",
			map[int]string{5: "  s: {forkPath: [], forkPathIds: [api, db], childNodeIds: [r1, r2]}"},
			"5:7 UNKNOWN_KEY"},
		{"unknown key of a path", map[int]string{5: one + "{pathId: db, childNodeId: r2, promt: x}]}"},
			"5:81 UNKNOWN_KEY"},
		{"fork is a list", map[int]string{5: "  s: [x]"}, "5:6 WRONG_TYPE"},
		{"same id twice", map[int]string{5: one + "{pathId: api, childNodeId: r2}]}",
			7: "  g: {forkPathIds: [api, db]}"}, "5:60 DUPLICATE_FORK_PATH_ID, 7:3 FORK_JOIN_MISMATCH"},
		{"join without ids", map[int]string{7: "  g: {joinStrategy: ALL_COMPLETED}"}, "7:3 INVALID_FORK_PATH_IDS"},
		{"join with no ids", map[int]string{7: "  g: {forkPathIds: []}"}, "7:7 INVALID_FORK_PATH_IDS"},
		{"join with an id twice", map[int]string{7: "  g: {forkPathIds: [api, api]}"}, "7:26 INVALID_FORK_PATH_IDS"},
		{"join with an empty id", map[int]string{7: "  g: {forkPathIds: [api, '']}"}, "7:26 INVALID_FORK_PATH_IDS"},
		{"main path", map[int]string{7: "  g: {forkPathIds: [api, db], mainPathId: d}"}, "7:43 MAIN_PATH_ID_NOT_FOUND"},
		{"other order", map[int]string{7: "  g: {forkPathIds: [db, api]}"}, "7:3 FORK_JOIN_MISMATCH"},
		{"an id too few", map[int]string{7: "  g: {forkPathIds: [api]}"}, "7:3 FORK_JOIN_MISMATCH"},
		{"an id too many", map[int]string{7: "  g: {forkPathIds: [api, db, x]}"}, "7:3 FORK_JOIN_MISMATCH"},
		{"only a later id shared", map[int]string{7: "  g: {forkPathIds: [x, db]}"}, "7:3 FORK_JOIN_MISMATCH"},
		{"nothing shared", map[int]string{7: "  g: {forkPathIds: [x, y]}"}, "5:3 UNPAIRED_FORK, 7:3 UNPAIRED_JOIN"},
		{"no joins", map[int]string{6: "", 7: "", 12: "  r2: {ok: {role: a, prompt: p}}",
			13: "  r3: {ok: {role: m, prompt: p}}", 14: ""}, "5:3 UNPAIRED_FORK"},
		{"joined twice", map[int]string{7: "  g: {forkPathIds: [api, db]}\n  g2: {forkPathIds: [api, db]}",
			13: "  r3: {ok: {role: g}, no: {role: g2}}", 15: "  m: {ok: {role: $END}}\n  g2: {joined: {role: $END}}"},
			"8:3 DUPLICATE_JOIN_PAIR_ID"},
		{"fork strategy", map[int]string{5: "  s: {forkStrategy: PARALLEL, forkPathIds: [api, db], " +
			"childNodeIds: [r1, r2]}"}, "5:21 BAD_STRATEGY"},
		{"join strategy", map[int]string{7: "  g: {forkPathIds: [api, db], joinStrategy: all}"}, "7:45 BAD_STRATEGY"},
		{"join strategy with a threshold",
			map[int]string{7: "  g: {forkPathIds: [api, db], threshold: 2, joinStrategy: all}"}, "7:59 BAD_STRATEGY"},
		{"losers", map[int]string{7: "  g: {forkPathIds: [api, db], losers: kill}"}, "7:39 BAD_STRATEGY"},
		{"threshold missing", map[int]string{7: "  g: {forkPathIds: [api, db], joinStrategy: SUCCESS_COUNT_THRESHOLD}"},
			"7:45 BAD_THRESHOLD"},
		{"threshold 0", map[int]string{7: "  g: {forkPathIds: [api, db], joinStrategy: SUCCESS_COUNT_THRESHOLD, " +
			"threshold: 0}"}, "7:81 BAD_THRESHOLD"},
		{"threshold too high",
			map[int]string{7: "  g: {forkPathIds: [api, db], joinStrategy: SUCCESS_COUNT_THRESHOLD, threshold: 3}"},
			"7:81 BAD_THRESHOLD"},
		{"threshold of another strategy", map[int]string{7: "  g: {forkPathIds: [api, db], threshold: 1}"},
			"7:42 BAD_THRESHOLD"},
		{"threshold no number",
			map[int]string{7: "  g: {forkPathIds: [api, db], joinStrategy: SUCCESS_COUNT_THRESHOLD, threshold: x}"},
			"7:81 WRONG_TYPE"},
		{"timeout", map[int]string{7: "  g: {forkPathIds: [api, db], timeout: soon}"}, "7:40 BAD_DURATION"},
		{"forkId of no fork", map[int]string{7: "  g: {forkId: x}"}, "5:3 UNPAIRED_FORK, 7:3 UNPAIRED_JOIN"},
		{"empty forkId of a join", map[int]string{7: "  g: {forkId: ''}"}, "7:15 INVALID_FORK_PATH_IDS"},
		{"fork named like a role", map[int]string{5: "  m: {forkPathIds: [api, db], childNodeIds: [r1, r2]}",
			10: "  a: {ok: {role: m}}", 14: "  g: {joined: {role: $END}}", 15: ""},
			"3:40 ROLE_NOT_IN_GRAPH, 5:3 DUPLICATE_KEY, 10:11 PROMPT_MISSING"},
		{"join named like its fork", map[int]string{7: "  s: {forkPathIds: [api, db]}", 12: "  r2: {ok: {role: s}}",
			13: "  r3: {ok: {role: s}}", 14: "  m: {ok: {role: $END}}", 15: "x-n: 1"},
			"7:3 DUPLICATE_KEY, 7:3 ROLE_NOT_IN_GRAPH"},
		{"reserved fork", map[int]string{5: "  $s: {forkPathIds: [api, db], childNodeIds: [r1, r2]}",
			10: "  a: {ok: {role: $s}}"}, "5:3 RESERVED_ROLE"},
		{"fork name", map[int]string{5: "  s s: {forkPathIds: [api, db], childNodeIds: [r1, r2]}",
			10: "  a: {ok: {role: s s}}"}, "5:3 BAD_NAME"},
		{"fork with routes", map[int]string{15: "  m: {ok: {role: $END}}\n  s: {ok: {role: $END}, no: {role: $END}}"},
			"16:7 EXTRA_ROUTE, 16:25 EXTRA_ROUTE"},
		{"fork with an empty node", map[int]string{15: "  m: {ok: {role: $END}}\n  s: {}"}, ""},
		{"join without routes", map[int]string{14: "  m2: {}", 15: ""},
			"3:40 ROLE_NOT_IN_GRAPH, 7:3 ROLE_NOT_IN_GRAPH, 14:3 UNKNOWN_ROLE"},
		{"join without joined", map[int]string{14: "  g: {failed: {role: m, prompt: p}}"}, "14:3 MISSING_ROUTE"},
		{"join with all routes",
			map[int]string{14: "  g: {joined: {role: m, prompt: p}, failed: {role: $END, code: 1}, " +
				"timeout: {role: s}}"}, ""},
		{"join with another route",
			map[int]string{14: "  g: {joined: {role: m, prompt: p}, done: {role: m, prompt: p}}"}, "14:37 EXTRA_ROUTE"},
		{"route to a join with a code", map[int]string{12: "  r2: {ok: {role: g, code: 1}}"}, "12:28 BAD_CODE"},
		{"unreachable fork", map[int]string{10: "  a: {ok: {role: m, prompt: p}}"},
			"5:3 UNREACHABLE_NODE, 11:3 UNREACHABLE_NODE, 12:3 UNREACHABLE_NODE, 13:3 UNREACHABLE_NODE, 14:3 " +
				"UNREACHABLE_NODE"},
		{"a path that turns for ever", map[int]string{13: "  r3: {ok: {role: g}, no: {role: t, prompt: p}}",
			15: "  m: {ok: {role: $END}}\n  t: {ok: {role: t, prompt: p}}",
			3:  "roles: {a: {}, r1: {}, r2: {}, r3: {}, m: {}, t: {}}"}, "16:3 CANNOT_END"},
		{"two problems at once", map[int]string{5: one + "{pathId: db, childNodeId: r2}], forkStrategy: x}",
			7: "  g: {forkPathIds: [api, db], losers: x, mainPathId: y}"},
			"5:97 BAD_STRATEGY, 7:39 BAD_STRATEGY, 7:54 MAIN_PATH_ID_NOT_FOUND"},
	}
	checkForked(t, tests)
}

func checkForked(t *testing.T, tests []struct {
	name  string
	edits map[int]string
	want  string
},
) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := forkedWith(tt.edits)
			d, problems := parse.Parse(nil, "flow.yaml", []byte(text))
			if got := strings.Join(show(problems), ", "); got != tt.want {
				t.Errorf("\n got %s\nwant %s\n%v\n%s", got, tt.want, problems, text)
			}
			if (d == nil) != flow.Failed(problems) {
				t.Errorf("definition %v with problems %v", d != nil, problems)
			}
			schemaAgrees(t, text, problems)
			if d != nil {
				roundTrip(t, d)
			}
		})
	}
}
