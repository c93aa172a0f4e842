package verify_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/record/verify"
	"github.com/plait-run/plait/internal/testing/mem"
)

// Each rule is broken once, by nodes and rows that are otherwise correct. wrong
// returns the hash that must be named.
func TestRules(t *testing.T) {
	tests := []struct {
		name  string
		wrong func(w *world, s *mem.Store, row store.Thread) dag.Hash
		what  string
		lost  bool // counts against completeness
	}{
		{"ancestors cut too early", step(func(w *world, s *thread.State) { s.Ancestors = s.Ancestors[:1] }),
			"its ancestors are not", false},
		{"ancestors swapped", step(func(w *world, s *thread.State) {
			s.Ancestors[1], s.Ancestors[2] = s.Ancestors[2], s.Ancestors[1]
		}), "its ancestors are not", false},
		{"ancestors empty though not first", step(func(w *world, s *thread.State) {
			s.Ancestors = []dag.Hash{}
			s.Role = "planner"
			s.Meta = status("ready")
		}), "its row counts 5 steps, its chain has 1", false},
		{"parent is no state", step(func(w *world, s *thread.State) { s.Ancestors = []dag.Hash{s.Content} }), "its parent",
			false},
		{"another start", step(func(w *world, s *thread.State) { s.Start = w.begin("other", "other").Head }),
			"is not its parent's", false},
		{"start is no start", step(func(w *world, s *thread.State) { s.Start = s.Content }), "its start", false},
		{"content is no content", step(func(w *world, s *thread.State) { s.Content = s.Start }), "its content", false},
		{"content is null", step(func(w *world, s *thread.State) { s.Content = dag.Hash{} }), "has no content", false},
		{"content is missing", func(w *world, m *mem.Store, row store.Thread) dag.Hash {
			s := w.next(row, "planner", "ready", "lost")
			w.force(row, s)
			m.Lose(s.Content)
			return s.Content
		}, "missing, named by state", true},
		{"detail is no detail", step(func(w *world, s *thread.State) { s.Detail = s.Content }), "its detail", false},
		{"detail dangles", func(w *world, m *mem.Store, row store.Thread) dag.Hash {
			s := w.next(row, "planner", "ready", "x")
			s.Detail = w.put(dag.TypeDetail, thread.Detail{})
			w.force(row, s)
			m.Lose(s.Detail)
			return s.Detail
		}, "missing, named by state", true},
		{"transcript dangles", func(w *world, m *mem.Store, row store.Thread) dag.Hash {
			h := dag.Sum([]byte("never put"))
			s := w.next(row, "planner", "ready", "x")
			s.Detail = w.put(dag.TypeDetail, thread.Detail{Transcript: h})
			w.force(row, s)
			return h
		}, "missing, named by detail", true},
		{"evidence is something else", step(func(w *world, s *thread.State) {
			s.Detail = w.put(dag.TypeDetail, thread.Detail{Evidence: []dag.Hash{s.Content}})
		}, func(s *thread.State) dag.Hash { return s.Detail }), "its evidence", false},
		{"evidence of another instance", step(func(w *world, s *thread.State) {
			ev := w.put(dag.TypeEvidence, thread.Evidence{ID: "cmd-1", By: "other"})
			s.Detail = w.put(dag.TypeDetail, thread.Detail{Instance: "planner", Evidence: []dag.Hash{ev}})
		}, func(s *thread.State) dag.Hash { return s.Detail }), `is by "other", it is itself by "planner"`, false},
		{"events of another step", heard(func(w *world, d *thread.Detail, s *thread.EvidenceSource) {
			d.Transcript = dag.Hash{}
		}), "are not a transcript of its step", false},
		{"lines that are others", heard(func(w *world, d *thread.Detail, s *thread.EvidenceSource) {
			two := 2
			s.EndLine = &two
		}), "the lines that it names", false},
		{"lines that nobody counted", heard(func(w *world, d *thread.Detail, s *thread.EvidenceSource) {
			s.StartLine = nil
		}), "the lines that it names", false},
		{"an artifact of another step", func(w *world, _ *mem.Store, row store.Thread) dag.Hash {
			h, _, err := w.s.Stage(ctx, "x", strings.NewReader("blob"))
			w.must(err)
			a := w.put(dag.TypeArtifact, thread.Artifact{Name: "x", Size: 4, Blob: h})
			ev := w.put(dag.TypeEvidence, thread.Evidence{ID: "cmd-1", ArtifactRefs: []dag.Hash{a}})
			s := w.next(row, "planner", "ready", "x")
			s.Detail = w.put(dag.TypeDetail, thread.Detail{Evidence: []dag.Hash{ev}})
			w.force(row, s)
			return ev
		}, "does not belong to its step", false},
		{"evidence is missing", func(w *world, m *mem.Store, row store.Thread) dag.Hash {
			s := w.next(row, "planner", "ready", "x")
			ev := w.put(dag.TypeEvidence, thread.Evidence{ID: "cmd-1"})
			s.Detail = w.put(dag.TypeDetail, thread.Detail{Evidence: []dag.Hash{ev}})
			w.force(row, s)
			m.Lose(ev)
			return ev
		}, "missing, named by detail", true},
		{"what proves it is missing", func(w *world, m *mem.Store, row store.Thread) dag.Hash {
			s := w.next(row, "planner", "ready", "x")
			h := dag.Sum([]byte("never put"))
			ev := w.put(dag.TypeEvidence, thread.Evidence{ID: "cmd-1", Sources: []thread.EvidenceSource{{StdoutRef: h}}})
			s.Detail = w.put(dag.TypeDetail, thread.Detail{Evidence: []dag.Hash{ev}})
			w.force(row, s)
			return h
		}, "missing, named by evidence", true},
		{"artifact is a blob", step(func(w *world, s *thread.State) {
			h, _, err := w.s.Stage(ctx, "x", strings.NewReader("blob"))
			w.must(err)
			s.Content = w.content("x", h)
		}, func(s *thread.State) dag.Hash { return s.Content }), "is a blob", false},
		{"artifact of another size", func(w *world, _ *mem.Store, row store.Thread) dag.Hash {
			h, _, err := w.s.Stage(ctx, "x", strings.NewReader("blob"))
			w.must(err)
			a := w.put(dag.TypeArtifact, thread.Artifact{Name: "x", Size: 5, Blob: h})
			s := w.next(row, "planner", "ready", "x")
			s.Content = w.content("x", a)
			w.force(row, s)
			return a
		}, "says 5 bytes", false},
		{"compact on a role", step(func(w *world, s *thread.State) { s.Compact = s.Content }),
			"which only __compact__ may have", false},
		{"compaction without compact", step(func(w *world, s *thread.State) { s.Role = thread.RoleCompact }),
			"its compact is not its content", false},
		{"a step after the end", func(w *world, _ *mem.Store, row store.Thread) dag.Hash {
			row = w.end(row, 130, "over")
			return w.force(row, w.next(row, "planner", "ready", "x")).Head
		}, "follows the end of its thread", false},
		{"end without a summary",
			step(func(w *world, s *thread.State) { s.Role, s.Meta = thread.RoleEnd, json.RawMessage(`{"returnCode":0}`) }),
			"not {returnCode, summary}", false},
		{"end with more", step(func(w *world, s *thread.State) {
			s.Role, s.Meta = thread.RoleEnd, json.RawMessage(`{"more":1,"returnCode":130,"summary":"x"}`)
		}), "not {returnCode, summary}", false},
		{"end with another text",
			step(func(w *world, s *thread.State) { s.Role, s.Meta = thread.RoleEnd, thread.EndMeta(130, "y") }),
			"its content is not its summary", false},
		{"role not in the flow", step(func(w *world, s *thread.State) { s.Role = "tester" }),
			"flow work leads to planner here", false},
		{"role out of turn", step(func(w *world, s *thread.State) { s.Role = "coder" }), "flow work leads to planner here",
			false},
		{"end too early", func(w *world, _ *mem.Store, row store.Thread) dag.Hash { return w.end(row, 0, "x").Head },
			"flow work leads to planner here", false},
		{"end with another code", func(w *world, _ *mem.Store, row store.Thread) dag.Hash {
			row = w.step(row, "planner", "ready", "x")
			row = w.step(row, "coder", "broken", "x")
			return w.end(row, 0, "gave up").Head
		}, "has return code 0, flow work ends with 1 here", false},
		{"no way on", func(w *world, _ *mem.Store, row store.Thread) dag.Hash {
			row = w.force(row, w.next(row, "planner", "strange", "x"))
			return w.force(row, w.next(row, "coder", "done", "x")).Head
		}, "goes no further here", false},
		{"fork without paths", step(func(w *world, s *thread.State) { s.Fork = s.Start }), "has a fork but no paths", false},
		{"join of nothing", step(func(w *world, s *thread.State) { s.Fork, s.Paths = s.Start, []thread.PathHead{} }),
			"has no fork or no paths", false},
		{"join after neither path nor fork", func(w *world, _ *mem.Store, row store.Thread) dag.Hash {
			row = w.step(row, "planner", "forks", "forks")
			_, join := w.fork(row)
			join.Ancestors = join.Ancestors[2:]
			return w.joined(row, join).Head
		}, "is neither the head of a path nor the fork", false},
		{"path from elsewhere", func(w *world, _ *mem.Store, row store.Thread) dag.Hash {
			row = w.step(row, "planner", "forks", "forks")
			_, join := w.fork(row)
			join.Paths[1].Head = join.Ancestors[2]
			return w.joined(row, join).Head
		}, "path b at", false},
		{"child of another caller", func(w *world, _ *mem.Store, row store.Thread) dag.Hash {
			other, _ := w.call(w.step(w.begin("Y", "x"), "planner", "calls", "x"))
			st, err := w.reader.State(ctx, other.Head)
			w.must(err)
			s := w.next(row, "planner", "ready", "x")
			s.ChildThread = st.ChildThread
			return w.force(row, s).Head
		}, "its childThread was called from", false},
		{"child of another bundle", func(w *world, _ *mem.Store, row store.Thread) dag.Hash {
			other := w.put(dag.TypeFlow, thread.Bundle{Name: "other", Flows: w.bundle.Flows})
			called := row
			called.Bundle = other
			_, child := w.call(w.step(called, "planner", "calls", "x"))
			parent, err := w.s.Thread(ctx, row.ID)
			w.must(err)
			if child.Bundle != other {
				w.Fatal("the child runs the same bundle")
			}
			return parent.Head
		}, "its childThread runs another bundle", false},
		{"child that goes on", func(w *world, _ *mem.Store, row store.Thread) dag.Hash {
			_, child := w.call(w.step(row, "planner", "calls", "x"))
			st, err := w.reader.State(ctx, child.Head)
			w.must(err)
			row, err = w.s.Thread(ctx, row.ID)
			w.must(err)
			s := w.next(row, "planner", "ready", "x")
			s.ChildThread = st.Ancestors[0]
			return w.force(row, s).Head
		}, "is not the last step of a thread", false},
		{"depth", start(func(w *world, s *thread.Start) { s.Depth = 1 }), "has depth 1 and no caller", false},
		{"depth of a child", start(func(w *world, s *thread.Start) {
			s.ParentState, s.Depth = w.step(w.begin("Y", "x"), "planner", "ready", "x").Head, 2
		}), "has depth 2, its caller 0", false},
		{"caller is a text", start(func(w *world, s *thread.Start) { s.ParentState = s.Prompt }), "its parentState", false},
		{"prompt is no content", start(func(w *world, s *thread.Start) { s.Prompt = s.Hash }), "its prompt", false},
		{"bundle is no flow", start(func(w *world, s *thread.Start) { s.Hash = s.Prompt }), "its bundle", false},
		{"flow not in the bundle", start(func(w *world, s *thread.Start) { s.Name = "play" }), `flow "play" of its bundle`,
			false},
		{"flow that cannot be decoded", start(func(w *world, s *thread.Start) {
			s.Hash = w.put(dag.TypeFlow,
				thread.Bundle{Name: "work", Flows: map[string]json.RawMessage{"work": json.RawMessage(`{"version":"x"}`)}})
		}), "cannot be decoded", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, s := memWorld(t)
			w.fill()
			row := w.begin("X", "x")
			for range 2 {
				row = w.step(row, "planner", "ready", "plan")
				row = w.step(row, "coder", "again", "code")
			}
			h := tt.wrong(w, s, row)
			mustName(t, w.s, h, tt.what, tt.lost)
		})
	}
}

func mustName(t *testing.T, s store.Store, h dag.Hash, what string, lost bool) {
	t.Helper()
	r, err := verify.All(ctx, verify.Config{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	verdict := r.Integrity
	if lost {
		verdict = r.Completeness
	}
	if !names(r, h, what) || verdict != verify.Failed {
		t.Errorf("want %q of %s, got integrity %s, completeness %s, %+v", what, h, r.Integrity, r.Completeness, r.Problems)
	}
}

// step appends a planner's step that change has made wrong.
func step(change func(*world, *thread.State),
	at ...func(*thread.State) dag.Hash) func(*world, *mem.Store, store.Thread) dag.Hash {
	return func(w *world, _ *mem.Store, row store.Thread) dag.Hash {
		s := w.next(row, "planner", "ready", "x")
		change(w, s)
		h := w.force(row, s).Head
		if len(at) > 0 {
			h = at[0](s)
		}
		return h
	}
}

// heard appends a step with an entry about the first line of its transcript, which change makes wrong.
func heard(change func(*world, *thread.Detail, *thread.EvidenceSource)) func(*world, *mem.Store,
	store.Thread) dag.Hash {
	return func(w *world, _ *mem.Store, row store.Thread) dag.Hash {
		said, _, err := w.s.Stage(ctx, "x", strings.NewReader("one\ntwo\n"))
		w.must(err)
		one := 1
		d := thread.Detail{Transcript: said}
		src := thread.EvidenceSource{EventsRef: said, StartLine: &one, EndLine: &one, Hash: dag.Sum([]byte("one\n"))}
		change(w, &d, &src)
		ev := w.put(dag.TypeEvidence, thread.Evidence{ID: "tool-1", Kind: thread.RuntimeEventRange,
			Sources: []thread.EvidenceSource{src}})
		d.Evidence = []dag.Hash{ev}
		s := w.next(row, "planner", "ready", "x")
		s.Detail = w.put(dag.TypeDetail, d)
		w.force(row, s)
		return ev
	}
}

// start begins a thread from a start that change has made wrong.
func start(change func(*world, *thread.Start)) func(*world, *mem.Store, store.Thread) dag.Hash {
	return func(w *world, _ *mem.Store, row store.Thread) dag.Hash {
		s := &thread.Start{Name: "work", Hash: row.Bundle, Prompt: w.content("x")}
		change(w, s)
		h := w.put(dag.TypeStart, s)
		w.commit(store.Batch{Threads: []store.ThreadChange{{Row: store.Thread{
			ID: "S", Task: "S", Root: "S", Kind: store.KindRoot, Bundle: s.Hash, Flow: s.Name,
			Start: h, Head: h, Status: store.Running,
		}}}})
		return h
	}
}

func TestRows(t *testing.T) {
	tests := []struct {
		name   string
		thread string
		change func(w *world, row *store.Thread)
		what   string
	}{
		{"steps", "L", func(_ *world, r *store.Thread) { r.Steps-- }, "its row counts 13 steps, its chain has 14"},
		{"completed without an end", "L", func(_ *world, r *store.Thread) { r.Status = store.Completed }, "has no end"},
		{"running after its end", "A", func(_ *world, r *store.Thread) { r.Status = store.Running }, "its chain has ended"},
		{"completed in place of failed", "F", func(_ *world, r *store.Thread) { r.Status = store.Completed },
			"its end has return code 1"},
		{"failed in place of cancelled", "C", func(_ *world, r *store.Thread) { r.Status = store.Failed },
			"its end has return code 130"},
		{"a path with an end", "A", func(_ *world, r *store.Thread) { r.Kind = store.KindPath }, "has an end of its own"},
		{"another start", "A", func(w *world, r *store.Thread) { r.Start = w.begin("Z", "z").Start },
			"its head belongs to the start"},
		{"start is a step", "A", func(_ *world, r *store.Thread) { r.Start = r.Head }, "its start"},
		{"head is a text", "L", func(w *world, r *store.Thread) { r.Head = w.content("x") }, "its head is a content node"},
		{"head is another start", "L", func(w *world, r *store.Thread) { r.Head = w.begin("Z", "z").Start },
			"the start of another thread"},
		{"no head", "L", func(_ *world, r *store.Thread) { r.Head = dag.Hash{} }, "names no head"},
		{"bundle", "L", func(w *world, r *store.Thread) { r.Bundle = w.put(dag.TypeFlow, thread.Bundle{Name: "x"}) },
			"its row names the bundle"},
		{"flow", "L", func(_ *world, r *store.Thread) { r.Flow = "play" }, `its row names the flow "play"`},
		{"fork of elsewhere", "F", func(w *world, r *store.Thread) { r.ForkedFrom.Step = w.begin("Z", "z").Head },
			"where it was forked"},
		{"path of elsewhere", "J-a", func(w *world, r *store.Thread) { r.Path.Fork = w.begin("Z", "z").Head },
			"does not go through its fork"},
		{"caller", "K", func(w *world, r *store.Thread) { r.Parent.From = w.begin("Z", "z").Head },
			"its start has the parentState"},
		{"a path of another id", "J-a", func(_ *world, r *store.Thread) { r.Path.ID = "b" },
			"its row is in path b"},
		{"a path that the flow has not", "J-a", func(_ *world, r *store.Thread) { r.Path.ID = "z" },
			`flow work has no path "z"`},
		{"a path's join", "J-a", func(_ *world, r *store.Thread) { r.Path.Join = "other" }, `its row names the join "other"`},
		{"a path's key", "J-a", func(_ *world, r *store.Thread) { r.Path.Key = "other" }, `its row has the path key "other"`},
		{"a path's number", "J-a", func(_ *world, r *store.Thread) { r.Path.N = 2 }, "its id does not match a path of J"},
		{"a path that failed at its join", "J-a", func(_ *world, r *store.Thread) { r.Status = store.Failed },
			"its row is failed, but path a has reached its join"},
		{"a path completed before its join", "J-a", func(w *world, r *store.Thread) { r.Head = r.Path.Fork; r.Steps-- },
			"its row is completed, but path a has no step"},
		{"a path without a parent", "J-a", func(_ *world, r *store.Thread) { r.Parent = nil },
			"it is a path and has no parent"},
		{"a path that left its parent elsewhere", "J-a", func(_ *world, r *store.Thread) { r.Parent.From = r.Start },
			"and names no such fork"},
		{"a parent that is not there", "J-a", func(_ *world, r *store.Thread) { r.Parent.Thread = "nobody" },
			"there is no thread nobody, its parent"},
		{"another parent", "J-a", func(_ *world, r *store.Thread) { r.Parent.Thread = "L" },
			"its parent L does not go through"},
		{"a caller that is not there", "K", func(_ *world, r *store.Thread) { r.Parent.Thread = "nobody" },
			"there is no thread nobody, its parent"},
		{"a root with a caller", "K", func(_ *world, r *store.Thread) { r.Kind = store.KindRoot },
			"it is a root and has a parent"},
		{"another task", "K", func(_ *world, r *store.Thread) { r.Task = "L" }, "it belongs to task L, its parent to P"},
		{"a head in a path", "J", func(w *world, r *store.Thread) {
			s, err := w.reader.State(ctx, r.Head)
			w.must(err)
			r.Head, r.Steps = s.Paths[1].Head, r.Steps-1
		}, "its head is in a path of flow work, but its row is not"},
		{"a worker of another action", "O-x", func(_ *world, r *store.Thread) { r.Path.ID = "y" },
			"it is a worker, and the mode of action y is fork"},
		{"a worker of no action", "O-x", func(_ *world, r *store.Thread) { r.Path.ID = "z" }, `the plan at`},
		{"a worker's key", "O-x", func(_ *world, r *store.Thread) { r.Path.Key = "other" },
			`its row has the path key "other"`},
		{"a worker's number", "O-x", func(_ *world, r *store.Thread) { r.Path.N = 2 }, "its id does not match a worker of O"},
		{"a worker's join", "O-x", func(_ *world, r *store.Thread) { r.Path.Join = "gathered" },
			`flow worker has no path "x"`},
		{"a worker without a place", "O-x", func(_ *world, r *store.Thread) { r.Path = nil }, "and names no such fork"},
		{"a worker that left its planner elsewhere", "O-x", func(_ *world, r *store.Thread) { r.Parent.From = r.Start },
			"its start has the parentState"},
		{"a worker that is a path", "O-x", func(_ *world, r *store.Thread) { r.Kind = store.KindPath },
			"it is a path, and the mode of action x is spawn"},
		{"a forked action that is a worker", "O-y", func(_ *world, r *store.Thread) { r.Kind = store.KindWorker },
			"it is a worker, and the mode of action y is fork"},
		{"a forked action's key", "O-y", func(_ *world, r *store.Thread) { r.Path.Key = "other" },
			`its row has the path key "other"`},
		{"a forked action that failed at its join", "O-y", func(_ *world, r *store.Thread) { r.Status = store.Failed },
			"its row is failed, but path y has reached its join"},
		{"an action of no plan", "O-y", func(_ *world, r *store.Thread) { r.Path.Fork = r.Head },
			"its row says that it is an action of a plan at"},
		{"a decision at no fork", "L", func(_ *world, r *store.Thread) {
			r.Decision = json.RawMessage(`{"decidedBy":"","join":"gathered","outcome":"joined"}`)
		}, "its row has a decision, but its head is not at a fork"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, s := memWorld(t)
			was := w.fill()[tt.thread]
			row, err := s.Thread(ctx, was.ID) // a copy: its pointers are not shared
			w.must(err)
			tt.change(w, &row)
			w.change(was, row)
			mustName(t, s, row.Head, "thread "+was.ID+": ", false)
			mustName(t, s, row.Head, tt.what, false)
		})
	}
}

// What a join or a caller waited for but does not name is found.
func TestUnnamedThreads(t *testing.T) {
	w, s := memWorld(t)
	row := w.step(w.begin("X", "x"), "planner", "calls", "calls")
	first := w.child(row)
	objects, second, err := thread.Call(thread.Child{
		Parent: row, Since: w.stamp(row), Role: "caller", N: 2, Flow: "work", Depth: 1, Prompt: "called", Now: w.now(),
	})
	w.must(err)
	w.commit(store.Batch{Objects: objects, Threads: []store.ThreadChange{{Row: second}}})
	second = w.over(second)
	row = w.back(row, first)
	mustName(t, s, row.Head, "its childThread is not "+second.Head.String(), false)

	w, s = memWorld(t)
	row = w.step(w.begin("X", "x"), "planner", "forks", "forks")
	paths, join := w.fork(row)
	next := thread.Path(row, w.stamp(row), store.Path{Key: paths[1].Path.Key, ID: "b", Join: "gathered", N: 2}, w.now())
	next.Head, next.Steps = paths[1].Head, paths[1].Steps
	w.commit(store.Batch{Threads: []store.ThreadChange{{Row: next}}})
	was := next
	next.Status = store.Completed
	w.change(was, next)
	row = w.joined(row, join)
	mustName(t, s, row.Head, "path b was "+next.ID+", which it does not name", false)

	w, s = memWorld(t)
	row = w.step(w.begin("X", "x"), "planner", "forks", "forks")
	w.fork(row)
	was = row
	row.Decision = json.RawMessage(`{"decidedBy":"","join":"other","outcome":"joined"}`)
	w.change(was, row)
	mustName(t, s, row.Head, "its row has a decision that is not for the join gathered", false)
}

func TestAttempts(t *testing.T) {
	w, s := memWorld(t)
	rows := w.fill()
	a, err := s.Attempt(ctx, "L.14")
	w.must(err)
	done := func(change func(*store.Attempt)) {
		b := a
		b.ID = "L.99"
		change(&b)
		w.commit(store.Batch{Attempts: []store.AttemptChange{{Row: b}}})
	}
	done(func(b *store.Attempt) { b.From = rows["L"].Head })
	mustName(t, s, rows["L"].Head, "attempt L.99 is done, but produced no", true)
	done(func(b *store.Attempt) { b.ID = "nobody.1"; b.Thread = "nobody"; b.Status = store.AttemptFailed })
	mustName(t, s, dag.Hash{}, "attempt nobody.1: there is no thread nobody", false)
	done(func(b *store.Attempt) { b.ID = "L.98" })
	mustName(t, s, a.From, "attempt L.98 is done, but produced no", true)
	done(func(b *store.Attempt) { b.ID = "L.97"; b.Role = "tester" })
	mustName(t, s, a.From, "attempt L.97 is done, but produced no tester step", true)
}
