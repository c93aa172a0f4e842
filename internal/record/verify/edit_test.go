package verify_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/verify"
)

func paths(payload map[string]any) []any { return payload["paths"].([]any) }

func onPath(i int, field string, value any) func(map[string]any) {
	return func(p map[string]any) { paths(p)[i].(map[string]any)[field] = value }
}

func metaPath(payload map[string]any, id string) map[string]any {
	return payload["meta"].(map[string]any)["paths"].(map[string]any)[id].(map[string]any)
}

// Every edited link is named, even though all hashes above it are correct
// again.
func TestEditedLinks(t *testing.T) {
	g := newGrove(t, tree("")...)
	g.answers["dig"] = []string{"---\n$status: found\nn: 7\n---\nGold."}
	root := g.drive(g.plant().ID)
	ended(t, root, store.Completed)
	g.sound()
	a, b, c, y := g.path("a"), g.path("b"), g.path("c"), g.path("y")
	// Another task, from which links can be taken.
	g.prompt = "do that"
	other := g.drive(g.plant().ID)
	ended(t, other, store.Completed)
	otherCall := g.at(g.path("b"), "sub")

	seen, met := g.at(root, "seen"), g.at(a, "met")
	call := g.at(b, "sub")
	sub := g.state(call).ChildThread
	subRow := g.ended(sub)
	leafStep := g.at(subRow, "leaf")
	leafRow := g.ended(g.state(leafStep).ChildThread)
	last, api, plan := g.at(root, "__end__"), g.at(a, "api"), g.at(root, "plan")
	set := func(field string, value any) func(map[string]any) {
		return func(p map[string]any) { p[field] = value }
	}
	meta := func(field string, value any) func(map[string]any) {
		return func(p map[string]any) { p["meta"].(map[string]any)[field] = value }
	}
	said := func(text string) any { return g.content(text).String() }
	pointing := said("## a\n\n(main path: see the step before)\n\n## b\n\nGold.\n\n## c\n\nSaid by ui.\n")

	type test struct {
		name string
		node dag.Hash
		edit func(map[string]any)
		want string
	}
	asked, short := g.asked(last), said("short")
	part := func(edit func(parts []any) []any) func(map[string]any) {
		return func(p map[string]any) { p["parts"] = edit(p["parts"].([]any)) }
	}
	tests := []test{
		{"sha256 of a prompt", asked, set("sha256", dag.Sum(nil).String()), "prompt: the parts do not hash to"},
		{"size of a prompt", asked, set("size", 3), "prompt: the parts have more than 3 bytes"},
		{"size of a huge prompt", asked, set("size", 1<<40), "prompt: a prompt of 1099511627776 bytes"},
		{
			"text of a prompt", asked, part(func(p []any) []any { return append(p, map[string]any{"text": "!"}) }),
			"prompt: the parts have more than",
		},
		{"range of a prompt", asked, part(func(p []any) []any {
			return append(p, map[string]any{"content": short, "from": 2, "to": 9})
		}), "is bytes 2 to 9 of a text of 5 bytes"},
		{"part of a prompt", asked, part(func(p []any) []any {
			return append(p, map[string]any{"content": root.Bundle.String(), "from": 0, "to": 0})
		}), "prompt: its part "},
		{"start of a step", last, set("start", other.Start), "its start"},
		{"start of a join", seen, set("start", other.Start), "its start"},
		{
			"childThread of a call is another one's", call, set("childThread", g.state(otherCall).ChildThread),
			"its childThread was called from",
		},
		{"childThread of a call is gone", call, set("childThread", nil), "state of sub: has no childThread"},
		{
			"childThread is not the end", call, set("childThread", g.state(sub).Ancestors[0]),
			"is not the last step of a thread",
		},
		{"childThread is a grandchild", call, set("childThread", leafRow.Head), "its childThread"},
		{
			"childThread where an agent works", api, set("childThread", g.state(otherCall).ChildThread),
			"state of api: has a childThread",
		},
		{"childThread of a join", seen, set("childThread", sub), "state of seen: has a childThread"},
		{"childThread of the end", last, set("childThread", sub), "state of __end__: has a childThread"},
		{"role of a call", call, set("role", "ui"), "state of ui: "},
		{"role of a path's first step", api, set("role", "more"), "flow tree leads to api here"},
		{"role of a step after a join", g.at(a, "more"), set("role", "report"), "flow tree leads to more here"},
		{"role of a join", seen, set("role", "met"), "join met: "},
		{"role of a join is no join", seen, set("role", "report"), "flow tree has no such join"},
		{
			"content of a call", call, set("content", said("else")),
			"its content is not the content of the last step of its childThread",
		},
		{"meta of a call", call, meta("summary", "else"), "its meta is not what its childThread returned"},
		{"status of a call", call, meta("$status", "failed"), "its meta is not what its childThread returned"},
		{"meta of a call with a schema", leafStep, meta("n", 8), "its meta is not what its childThread returned"},
		{"parentState", subRow.Start, set("parentState", other.Start), "its childThread was called from"},
		{"parentState is gone", subRow.Start, set("parentState", nil), "has depth 1 and no caller"},
		{"depth", subRow.Start, set("depth", 2), "has depth 2, its caller 0"},
		{"depth of a grandchild", leafRow.Start, set("depth", 1), "has depth 1, its caller 1"},
		{"name of a called flow", subRow.Start, set("name", "leaf"), "its childThread ran the flow leaf"},
		{"prompt of a call", subRow.Start, set("prompt", said("else")), "its childThread was given another prompt"},
		{"fork", seen, set("fork", root.Start), "flow tree does not lead to the paths of this join at its fork"},
		{"fork is a step of a path", seen, set("fork", api), "join seen: "},
		{"fork is another thread's", seen, set("fork", g.at(other, "plan")), "is no step of its thread"},
		{"fork is gone", seen, set("fork", nil), "has no fork or no paths"},
		{"fork where nothing is joined", api, set("fork", plan), "has a fork but no paths"},
		{"paths are gone", seen, func(p map[string]any) { p["paths"], p["fork"] = nil, nil }, "leaves path "},
		{
			"a path left out", seen, func(p map[string]any) { p["paths"] = paths(p)[:2] },
			"its paths are [a b], those of flow tree are [a b c]",
		},
		{
			"a path more", seen, func(p map[string]any) { p["paths"] = append(paths(p), paths(p)[0]) },
			"its paths are [a b c a]",
		},
		{"paths in another order", seen, func(p map[string]any) { slices.Reverse(paths(p)) }, "its paths are [c b a]"},
		{"id of a path", seen, onPath(1, "id", "z"), "its paths are [a z c]"},
		{"head of a path is another's", seen, onPath(1, "head", c.Head), "path b at"},
		{
			"head of a path is before its end", seen, onPath(0, "head", api),
			"path a is completed, but has not reached its join",
		},
		{"head of a path is the fork", seen, onPath(2, "head", plan), "path c is completed without a step"},
		{"head of a path is elsewhere", seen, onPath(2, "head", g.at(other, "plan")), "path c at"},
		{"head of a path is its child's", seen, onPath(1, "head", sub), "path b at"},
		{"head of an inner path", met, onPath(0, "head", y.Head), "path x at"},
		{"status of a path", seen, onPath(1, "status", "failed"), "path b is failed, but has reached its join"},
		{"status of a path is none", seen, onPath(1, "status", "running"), `path b has the status "running"`},
		{"status of a path, everywhere", seen, func(p map[string]any) {
			paths(p)[2].(map[string]any)["status"] = "cancelled"
			metaPath(p, "c")["status"], metaPath(p, "c")["meta"] = "cancelled", nil
			p["content"] = said("## a\n\nSaid by more.\n\n## b\n\nGold.\n")
		}, `its paths cannot have come to its $status "joined"`},
		{
			"thread of a path", seen, onPath(1, "thread", "01JD0000000000000000000000"),
			"path b: its thread 01JD0000000000000000000000 is not there",
		},
		{"thread of a path is another's", seen, onPath(1, "thread", c.ID), "path b: its thread " + c.ID},
		{"thread of an inner path", met, onPath(0, "thread", y.ID), "path x: its thread " + y.ID},
		{"$status of a join", seen, meta("$status", "failed"), `its paths cannot have come to its $status "failed"`},
		{"$status of a join without a route", met, meta("$status", "timeout"), "has no route"},
		{"decidedBy where all were needed", seen, meta("decidedBy", "b"), "decidedBy by path b"},
		{"decidedBy nobody", met, meta("decidedBy", nil), "decidedBy by no path alone"},
		{"decidedBy a stranger", met, meta("decidedBy", "z"), "decidedBy by path z"},
		{"meta of a join has more", seen, meta("more", 1), "its meta is not {$status, decidedBy, paths}"},
		{
			"meta of a path in a join", seen,
			func(p map[string]any) { metaPath(p, "c")["meta"] = map[string]any{"$status": "else"} },
			"its meta of path c",
		},
		{
			"status of a path in a join's meta", seen, func(p map[string]any) { metaPath(p, "c")["status"] = "failed" },
			`its meta says that path c is "failed"`,
		},
		{
			"a path left out of a join's meta", seen,
			func(p map[string]any) { delete(p["meta"].(map[string]any)["paths"].(map[string]any), "c") },
			"its meta has no path c",
		},
		{"a path more in a join's meta", seen, func(p map[string]any) {
			p["meta"].(map[string]any)["paths"].(map[string]any)["z"] = metaPath(p, "c")
		}, "its meta has a path z"},
		{"why a path failed that did not", seen, func(p map[string]any) { metaPath(p, "c")["failure"] = "infra" },
			`its meta says that path c failed with "infra", its detail with ""`},
		{"a path that does not say why it failed", seen, func(p map[string]any) { delete(metaPath(p, "c"), "failure") },
			"its meta is not {$status, decidedBy, paths}"},
		{"meta of a join before schema 4, content of one before schema 9", seen, func(p map[string]any) {
			for _, id := range []string{"a", "b", "c"} {
				delete(metaPath(p, id), "failure")
			}
			p["content"] = pointing
		}, "join seen: its content is not what its paths said"},
		{"content of a join points to another path", seen,
			set("content", said("## a\n\nSaid by more.\n\n## b\n\n(main path: see the step before)\n\n## c\n\nSaid by ui.\n")),
			"join seen: its content is not what its paths said"},
		{"content of a join", seen, set("content", said("else")), "join seen: its content is not what its paths said"},
		{"parent of a join is another path's head", seen, func(p map[string]any) {
			p["ancestors"] = append([]any{b.Head}, hashes(g.state(b.Head).Ancestors)...)
		}, "is not the head of path a"},
		{
			"parent of a join is its fork", seen, func(p map[string]any) { p["ancestors"] = []any{plan} },
			"is not the head of path a",
		},
		{"parent of an inner join", met, func(p map[string]any) {
			p["ancestors"] = append([]any{y.Head}, hashes(g.state(y.Head).Ancestors)...)
		}, "is not the head of path x"},
	}
	for i := range g.state(last).Ancestors {
		tests = append(tests, test{"ancestor of the end", last,
			func(p map[string]any) { p["ancestors"].([]any)[i] = b.Head }, "state of __end__: "})
	}
	for i := range g.state(seen).Ancestors {
		tests = append(tests, test{"ancestor of a join", seen,
			func(p map[string]any) { p["ancestors"].([]any)[i] = y.Head }, "state of seen: its ancestors are not"})
	}
	if s, _ := forge(t, g, nil); !mustReport(t, s).OK() {
		t.Fatalf("a true copy: %s", lines(mustReport(t, s)))
	}
	for schema, edit := range map[int]func(p map[string]any){
		3: func(p map[string]any) {
			for _, id := range []string{"a", "b", "c"} {
				delete(metaPath(p, id), "failure")
			}
		},
		8: set("content", pointing),
	} {
		older, f := forge(t, g, map[dag.Hash]func(map[string]any){seen: edit})
		if r := mustReport(t, older); !r.OK() || f.now(seen) == seen {
			t.Errorf("a join of schema %d: %s", schema, lines(r))
		}
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, f := forge(t, g, map[dag.Hash]func(map[string]any){tt.node: tt.edit})
			r := mustReport(t, s)
			h := f.now(tt.node)
			if h == tt.node {
				t.Fatal("nothing was edited")
			}
			named := slices.ContainsFunc(r.Problems, func(p verify.Problem) bool { return strings.Contains(p.What, tt.want) })
			if r.Integrity != verify.Failed || !named {
				t.Errorf("want %q of %s, got\n%s", tt.want, h.Short(), lines(r))
			}
		})
	}
}

func mustReport(t tester, s store.Store) verify.Report {
	t.Helper()
	r, err := verify.All(ctx, verify.Config{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestFieldInOtherCase names the detail of a step by a field that decoders take for detail, and that is no ref.
func TestFieldInOtherCase(t *testing.T) {
	w, s := memWorld(t)
	row := w.begin("X", "x")
	row = w.step(row, "planner", "ready", "x")
	raw, err := json.Marshal(w.next(row, "coder", "done", "y"))
	w.must(err)
	var payload map[string]any
	w.must(json.Unmarshal(raw, &payload))
	delete(payload, "detail")
	lost := dag.Sum([]byte("nowhere")).String()
	payload["dexail"] = lost // as long, and in the same place
	data, err := dag.Encode(dag.TypeState, payload)
	w.must(err)
	data = bytes.Replace(data, []byte(`"dexail"`), []byte(`"detaiL"`), 1)
	state := store.Object{Hash: dag.Sum(data), Kind: store.Node, Data: data}
	was := row
	row.Head, row.Steps = state.Hash, row.Steps+1
	w.commit(store.Batch{
		Objects: []store.Object{state},
		Threads: []store.ThreadChange{{Row: row, From: was.State()}},
	})
	r, err := verify.All(ctx, verify.Config{Store: s})
	w.must(err)
	refused := func(p verify.Problem) bool { return p.Hash == state.Hash && strings.Contains(p.What, "only in case") }
	if r.Integrity == verify.OK || !slices.ContainsFunc(r.Problems, refused) {
		t.Errorf("verify: %+v, want a node that is refused", r)
	}
}
