package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
)

var indexTests = []test{
	{"rows come back as they were", rowFidelity},
	{"threads are filtered", threadFilters},
	{"threads are paged both ways", threadPages},
	{"attempts are filtered, by thread, then number", attemptFilters},
	{"gates are filtered", gateFilters},
	{"flows come by name, with history", flowList},
	{"an empty store has no rows", emptyLists},
}

// rowFidelity sets every field, then none but the id, then every field again,
// over the stored row.
func rowFidelity(h *home) {
	hs := h.keep("a", "b", "c", "d")
	raw := json.RawMessage("{ \"b\": [1, 2],\n \"a\": \"<&>\u2028\" }")
	t := store.Thread{
		ID: "T", Short: "t", Task: "K", Root: "R", Kind: store.KindPath, Bundle: hs[0], Flow: "fix", Start: hs[1],
		Head:   hs[2],
		Status: store.Blocked, Reason: &store.Reason{Kind: store.ReasonLimit, Message: "<m> é", Limit: "tokens", ResetAt: 9},
		Intent: store.IntentCancel, Parent: &store.Parent{Thread: "P", From: hs[3]},
		Path:       &store.Path{Key: "k", ID: "i", Fork: hs[0], Join: "j", N: 2},
		ForkedFrom: &store.ForkedFrom{Thread: "F", Step: hs[1]}, InFlight: "T.3", Decision: raw, Tree: "/tree",
		Workspace: "/work", Files: hs[3], Host: "here", Options: raw, Steps: 4, CreatedAt: 1, UpdatedAt: 2, EndedAt: 3,
	}
	a := store.Attempt{
		ID: "T.1", Thread: "T", From: hs[0], Role: "r", N: 1, Agent: "codex", Instance: "i", Prompt: hs[1],
		Status:  store.AttemptFailed,
		Failure: &store.Failure{Kind: store.FailureLimit, Message: "m", ResetAt: 5, Void: true}, Session: "s", Turn: "u",
		Waited: 8, PID: 6, PIDStart: 7, Tag: "g", Host: "h", Boot: "b",
		StartedAt: 8, EndedAt: 9, Usage: store.Usage{InputTokens: 1, CachedInputTokens: 2, OutputTokens: 3,
			ReasoningTokens: 4, CostMicroUSD: 5},
		Transcript: hs[2], Stderr: hs[3], Pins: []dag.Hash{hs[3], hs[0]}, Calls: hs[1],
	}
	g := store.Gate{
		ID: "G", Kind: store.GateApproval, State: store.GateOpen, Source: "s", Task: "K", Thread: "T", Node: "n",
		Instance: "i", Attempt: "T.1",
		From: hs[0], Question: "q?\n", Options: []string{"a", "", "<b>"}, Action: raw, Digest: dag.Sum([]byte("not kept")),
		Grant:    store.GrantOnce,
		OpenedAt: 1, ExpiresAt: 2, OnTimeout: "reject", AnsweredAt: 3, By: "b", Via: "v", Text: "t", UsedAt: 4, Diff: hs[1],
		Ref:    "f",
		Edited: raw, EditedDigest: dag.Sum([]byte("not kept either")),
	}
	check := func(t store.Thread, a store.Attempt, g store.Gate) {
		h.Helper()
		gotT, err := h.Thread(h.ctx, t.ID)
		h.must(err)
		h.same(gotT, t)
		gotA, err := h.Attempt(h.ctx, a.ID)
		h.must(err)
		h.same(gotA, a)
		gotG, err := h.Gate(h.ctx, g.ID)
		h.must(err)
		h.same(gotG, g)
	}
	h.commit(store.Batch{
		Threads: []store.ThreadChange{{Row: t}}, Attempts: []store.AttemptChange{{Row: a}},
		Gates: []store.GateChange{{Row: g}},
	})
	check(t, a, g)
	bare := store.Thread{ID: "T", Status: store.Running}
	bareA, bareG := store.Attempt{ID: "T.1", Status: store.AttemptRunning}, store.Gate{ID: "G", State: store.GateApproved}
	h.commit(store.Batch{
		Threads:  []store.ThreadChange{{Row: bare, From: t.State()}},
		Attempts: []store.AttemptChange{{Row: bareA, From: a.Status}},
		Gates:    []store.GateChange{{Row: bareG, From: g.State, UsedAt: g.UsedAt}},
	})
	check(bare, bareA, bareG)
	h.commit(store.Batch{
		Threads:  []store.ThreadChange{{Row: t, From: bare.State()}},
		Attempts: []store.AttemptChange{{Row: a, From: bareA.Status}},
		Gates:    []store.GateChange{{Row: g, From: bareG.State}},
	})
	check(t, a, g)
	// A change that leaves alone what lists select by, and nothing else.
	u := t
	u.Kind, u.Flow, u.Start, u.Head, u.Intent, u.InFlight, u.Tree = "k", "f", hs[0], hs[0], "", "", ""
	u.Steps, u.CreatedAt, u.UpdatedAt, u.EndedAt, u.Decision, u.Options, u.Reason, u.Path = 9, 9, 9, 9, nil,
		json.RawMessage(`1`), nil, nil
	h.commit(store.Batch{Threads: []store.ThreadChange{{Row: u, From: t.State()}}})
	check(u, a, g)
}

// fill makes 12 threads of 3 tasks and returns their rows in id order.
func fill(h *home) (rows []store.Thread) {
	hs := h.keep("start", "bundle 0", "bundle 1")
	var b store.Batch
	for i := range 12 {
		t := thread(fmt.Sprintf("01J%c%d", 'A'+i%2, 10+i), hs[0])
		t.Task = fmt.Sprint("task", i%3)
		t.Kind = []store.ThreadKind{store.KindRoot, store.KindPath}[i%2]
		t.Status = []store.Status{store.Pending, store.Running, store.Blocked, store.Completed}[i%4]
		t.Workspace = []string{"/a", "/b"}[i/6]
		t.Bundle = hs[1+i%2]
		t.Short = fmt.Sprintf("s%d", i)
		if t.Status == store.Completed {
			t.EndedAt = int64(i)
		}
		b.Threads = append(b.Threads, store.ThreadChange{Row: t})
		rows = append(rows, t)
	}
	h.commit(b)
	slices.SortFunc(rows, func(a, b store.Thread) int { return strings.Compare(a.ID, b.ID) })
	return rows
}

func threadFilters(h *home) {
	rows := fill(h)
	for name, x := range map[string]struct {
		f    store.ThreadFilter
		pick func(store.Thread) bool
	}{
		"all": {store.ThreadFilter{}, func(store.Thread) bool { return true }},
		"ids": {store.ThreadFilter{IDs: []string{rows[4].ID, "01JNOBODY", rows[1].ID}}, func(t store.Thread) bool {
			return t.ID == rows[1].ID || t.ID == rows[4].ID
		}},
		"ids of a task": {store.ThreadFilter{IDs: []string{rows[0].ID, rows[1].ID}, Task: "nobody"},
			func(store.Thread) bool { return false }},
		"task":      {store.ThreadFilter{Task: "task1"}, func(t store.Thread) bool { return t.Task == "task1" }},
		"short":     {store.ThreadFilter{Short: "s3"}, func(t store.Thread) bool { return t.Short == "s3" }},
		"workspace": {store.ThreadFilter{Workspace: "/b"}, func(t store.Thread) bool { return t.Workspace == "/b" }},
		"kind": {store.ThreadFilter{Kind: store.KindPath},
			func(t store.Thread) bool { return t.Kind == store.KindPath }},
		"bundle": {store.ThreadFilter{Bundle: rows[0].Bundle},
			func(t store.Thread) bool { return t.Bundle == rows[0].Bundle }},
		"one status": {store.ThreadFilter{Statuses: []store.Status{store.Blocked}},
			func(t store.Thread) bool { return t.Status == store.Blocked }},
		"statuses": {store.ThreadFilter{Statuses: []store.Status{store.Pending, store.Running}}, func(t store.Thread) bool {
			return !t.Ended() && t.Status != store.Blocked
		}},
		"ended": {store.ThreadFilter{Ended: 7}, func(t store.Thread) bool { return t.EndedAt == 0 || t.EndedAt >= 7 }},
		"prefix": {store.ThreadFilter{Prefix: "01JB1"},
			func(t store.Thread) bool { return strings.HasPrefix(t.ID, "01JB1") }},
		"whole id":   {store.ThreadFilter{Prefix: rows[3].ID}, func(t store.Thread) bool { return t.ID == rows[3].ID }},
		"odd prefix": {store.ThreadFilter{Prefix: "01J%_"}, func(t store.Thread) bool { return false }},
		"lower case": {store.ThreadFilter{Prefix: "01ja"}, func(t store.Thread) bool { return false }},
		"and": {store.ThreadFilter{Task: "task0", Workspace: "/a"},
			func(t store.Thread) bool { return t.Task == "task0" && t.Workspace == "/a" }},
		"unknown task":  {store.ThreadFilter{Task: "nobody"}, func(t store.Thread) bool { return false }},
		"missing names": {store.ThreadFilter{Statuses: []store.Status{"x"}}, func(t store.Thread) bool { return false }},
	} {
		var want []store.Thread
		for _, t := range rows {
			if x.pick(t) {
				want = append(want, t)
			}
		}
		got, err := h.Threads(h.ctx, x.f)
		h.must(err)
		if !slices.Equal(ids(got), ids(want)) {
			h.Errorf("%s: got %v, want %v", name, ids(got), ids(want))
		}
	}
}

func ids(ts []store.Thread) (ids []string) {
	for _, t := range ts {
		ids = append(ids, t.ID)
	}
	return ids
}

func threadPages(h *home) {
	rows := fill(h)
	for _, newest := range []bool{false, true} {
		for _, limit := range []int{1, 5, 12, 50} {
			f := store.ThreadFilter{Newest: newest, Limit: limit, Prefix: "01J"}
			var all []string
			for {
				page, err := h.Threads(h.ctx, f)
				h.must(err)
				if len(page) > limit {
					h.Fatalf("a page of %d, at most %d wanted", len(page), limit)
				}
				if len(page) == 0 {
					break
				}
				all = append(all, ids(page)...)
				f.After = page[len(page)-1].ID
			}
			want := ids(rows)
			if newest {
				slices.Reverse(want)
			}
			h.same(all, want)
		}
	}
	// After need not be an existing id.
	page, err := h.Threads(h.ctx, store.ThreadFilter{After: "01JAz"})
	h.must(err)
	h.same(ids(page), ids(rows[6:]))
}

func attemptFilters(h *home) {
	hs := h.keep("x", "y")
	var b store.Batch
	for _, x := range []struct {
		thread, task string
		n            int
		from         dag.Hash
		status       store.AttemptStatus
	}{
		{"B", "K", 10, hs[0], store.AttemptDone},
		{"B", "K", 9, hs[0], store.AttemptFailed},
		{"A", "K", 1, hs[1], store.AttemptDone},
		{"C", "L", 1, hs[1], store.AttemptRunning},
	} {
		if x.n != 9 {
			t := thread(x.thread, hs[0])
			t.Task = x.task
			b.Threads = append(b.Threads, store.ThreadChange{Row: t})
		}
		b.Attempts = append(b.Attempts, store.AttemptChange{Row: store.Attempt{
			ID: fmt.Sprintf("%s.%d", x.thread, x.n), Thread: x.thread, N: x.n, From: x.from, Status: x.status,
		}})
	}
	h.commit(b)
	for name, x := range map[string]struct {
		f    store.AttemptFilter
		want []string
	}{
		"all":     {store.AttemptFilter{}, []string{"A.1", "B.9", "B.10", "C.1"}},
		"task":    {store.AttemptFilter{Task: "K"}, []string{"A.1", "B.9", "B.10"}},
		"thread":  {store.AttemptFilter{Thread: "B"}, []string{"B.9", "B.10"}},
		"threads": {store.AttemptFilter{Threads: []string{"C", "B", "nobody"}}, []string{"B.9", "B.10", "C.1"}},
		"from":    {store.AttemptFilter{From: hs[1]}, []string{"A.1", "C.1"}},
		"status":  {store.AttemptFilter{Status: store.AttemptDone}, []string{"A.1", "B.10"}},
		"and":     {store.AttemptFilter{Task: "K", From: hs[0], Status: store.AttemptFailed}, []string{"B.9"}},
		"none":    {store.AttemptFilter{Task: "M"}, nil},
	} {
		rows, err := h.Attempts(h.ctx, x.f)
		h.must(err)
		var got []string
		for _, a := range rows {
			got = append(got, a.ID)
		}
		if !slices.Equal(got, x.want) {
			h.Errorf("%s: got %v, want %v", name, got, x.want)
		}
	}
}

func gateFilters(h *home) {
	var b store.Batch
	for i := range 6 {
		b.Gates = append(b.Gates, store.GateChange{Row: store.Gate{
			ID: fmt.Sprint("g", 5-i), Task: fmt.Sprint("t", i%2), Thread: fmt.Sprint("th", i%3),
			State: []store.GateState{store.GateOpen, store.GateApproved}[i/3],
		}})
	}
	h.commit(b)
	for name, x := range map[string]struct {
		f    store.GateFilter
		want string
	}{
		"all":    {store.GateFilter{}, "g0g1g2g3g4g5"},
		"task":   {store.GateFilter{Task: "t0"}, "g1g3g5"},
		"thread": {store.GateFilter{Thread: "th0"}, "g2g5"},
		"state":  {store.GateFilter{State: store.GateOpen}, "g3g4g5"},
		"and":    {store.GateFilter{State: store.GateOpen, Task: "t0"}, "g3g5"},
		"id":     {store.GateFilter{Prefix: "g4"}, "g4"},
		"prefix": {store.GateFilter{Prefix: "g", Task: "t0"}, "g1g3g5"},
		"none":   {store.GateFilter{Prefix: "g_"}, ""},
	} {
		rows, err := h.Gates(h.ctx, x.f)
		h.must(err)
		got := ""
		for _, g := range rows {
			got += g.ID
		}
		if got != x.want {
			h.Errorf("%s: got %s, want %s", name, got, x.want)
		}
	}
}

func flowList(h *home) {
	hs := h.keep("1", "2", "3")
	fix := store.Flow{Name: "fix", Hash: hs[2], Timestamp: 3,
		History: []store.Version{{Hash: hs[1], Timestamp: 2}, {Hash: hs[0], Timestamp: 1}}}
	ask := store.Flow{Name: "ask", Hash: hs[0], Timestamp: 1}
	h.commit(store.Batch{Flows: []store.FlowChange{{Row: fix}, {Row: ask}}})
	got, err := h.Flows(h.ctx)
	h.must(err)
	h.same(got, []store.Flow{ask, fix})
}

func emptyLists(h *home) {
	threads, err := h.Threads(h.ctx, store.ThreadFilter{})
	h.must(err)
	attempts, err := h.Attempts(h.ctx, store.AttemptFilter{})
	h.must(err)
	gates, err := h.Gates(h.ctx, store.GateFilter{})
	h.must(err)
	flows, err := h.Flows(h.ctx)
	h.must(err)
	requests, err := h.Requests(h.ctx, store.RequestFilter{})
	h.must(err)
	events, err := h.Events(h.ctx, 0, store.EventFilter{})
	h.must(err)
	lines, err := h.Check(h.ctx)
	h.must(err)
	counts := []int{len(threads), len(attempts), len(gates), len(flows), len(requests), len(events), len(lines)}
	h.same(counts, make([]int, len(counts)))
}
