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
		{"a comment on no line", step(func(w *world, s *thread.State) {
			s.Role, s.Meta = thread.RoleInput, thread.CommentMeta(thread.Comment{File: "a.go", EndLine: 1,
				Tree: strings.Repeat("a", 40)})
		}), "a comment on no lines", false},
		{"a comment on another tree", step(func(w *world, s *thread.State) {
			s.Role, s.Meta = thread.RoleInput, thread.CommentMeta(thread.Comment{File: "a.go", Line: 1, EndLine: 1, Tree: "main"})
		}), "a comment on no lines", false},
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
