package control

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// writing is survey with roles that write, and a report that needs no meta.
func writing(roles ...string) string {
	yaml := replaceOnce(survey, "{{ paths.b.meta.n }} ", "")
	for _, role := range roles {
		what := map[string]string{"more": "reads on"}[role]
		yaml = replaceOnce(yaml, "  "+role+": {description: "+cmp.Or(what, "reads")+"}\n", "  "+role+
			": {description: writes, access: write}\n")
	}
	return yaml
}

// refused is an agent that refuses.
func refused(context.Context, agent.Request, func(agent.Event) error) (agent.Result, error) {
	return agent.Result{}, &agent.Failure{Kind: agent.Refused, Final: true, Message: "no"}
}

// holds is an agent that first checks the contents of a file in its tree.
func holds(t *testing.T, name, want string, a scripted) scripted {
	return func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		if got, err := os.ReadFile(filepath.Join(req.Dir, name)); string(got) != want {
			t.Errorf("%s of %s holds %q, want %q: %v", name, req.Role, got, want, err)
		}
		return a(ctx, req, emit)
	}
}

// inTree returns the contents of a file in a git tree, "" if there is none.
func (h *house) inTree(tree *string, name string) string {
	h.t.Helper()
	if tree == nil {
		h.t.Errorf("the step does not say how the files were")
		return ""
	}
	show := exec.Command("git", "show", *tree+":"+name)
	show.Dir = h.dir
	out, _ := show.Output()
	return string(out)
}

// A path that reaches its join again has its own tree, with what the steps that it
// keeps have written.
func TestRejoiningKeepsWhatWasWritten(t *testing.T) {
	agents := surveyAgents()
	agents["api"] = writesFile("f", "of api")
	agents["more"] = holds(t, "f", "of api", writesFile("g", "of more"))
	h := newHouse(t, agents)
	h.repository()
	h.options.Merge = MergeKeep
	row := h.run(writing("api", "more"))
	wantStatus(t, row, store.Completed, "")
	old := h.below(row)["a"]
	if err := os.WriteFile(filepath.Join(old.Tree, "f"), []byte("changed since"), 0o644); err != nil {
		t.Fatal(err)
	}
	again := false
	agents["more"] = func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		again = true
		if _, err := os.Stat(filepath.Join(req.Dir, "g")); err == nil {
			t.Error("what a step has written that is not kept is there")
		}
		return holds(t, "f", "of api", writesFile("g", "anew"))(ctx, req, emit)
	}
	fork, err := h.controller().Fork(t.Context(), Fork{Thread: old.ID, At: "2", Rejoin: true})
	if err != nil {
		t.Fatal(err)
	}
	end := h.drive(h.controller(), fork.ID, Resume{})
	wantStatus(t, end, store.Completed, "")
	if tree := h.below(end)["a"].Tree; !again || tree == old.Tree {
		t.Errorf("the path worked again: %v, in %s; the one before in %s", again, tree, old.Tree)
	}
}

// A fork that rejoins has its own trees, like those of the fork it comes from; it
// continues when those are gone.
func TestAForkNeedsNoTreeOfItsOrigin(t *testing.T) {
	t.Parallel()
	for _, gone := range []bool{false, true} {
		t.Run(map[bool]string{false: "the origin is there", true: "the origin is gone"}[gone], func(t *testing.T) {
			agents := surveyAgents()
			agents["api"], agents["more"] = writesFile("f", "of a"), writesFile("f", "not kept")
			h := newHouse(t, agents)
			agents["db"] = func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result,
				error) {
				h.untilPaths(ctx, store.Completed, 2)
				return refused(ctx, req, emit)
			}
			person := filepath.Join(h.dir, "f")
			if err := os.WriteFile(person, []byte("the person's"), 0o644); err != nil {
				t.Fatal(err)
			}
			h.repository()
			h.options.Merge = MergeKeep
			row := h.run(writing("api", "db", "more"))
			wantStatus(t, row, store.Blocked, "join")
			fork, err := h.controller().Fork(t.Context(), Fork{Thread: h.below(row)["a"].ID, At: "2", Rejoin: true})
			if err != nil {
				t.Fatal(err)
			}
			if gone {
				err = h.controller().Remove(t.Context(), []string{row.ID}, func(store.Thread) error { return nil })
			} else {
				err = os.WriteFile(person, []byte("changed since"), 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
			agents["more"] = holds(t, "f", "of a", writesFile("g", "of a"))
			agents["db"] = holds(t, "f", "the person's", writesFile("f", "of b"))
			wantStatus(t, h.drive(h.controller(), fork.ID, Resume{}), store.Completed, "")
			if h.runs["api"] != 1 || h.runs["more"] != 2 || h.runs["db"] != 2 {
				t.Errorf("runs: %v", h.runs)
			}
		})
	}
}

// A path that was cancelled before it had a tree has one when it is retried.
func TestAPathThatNeverBeganHasATreeNextTime(t *testing.T) {
	agents := surveyAgents()
	agents["api"] = refused
	agents["db"] = holds(t, "f", "the person's", writesFile("f", "of b"))
	h := newHouse(t, agents)
	if err := os.WriteFile(filepath.Join(h.dir, "f"), []byte("the person's"), 0o644); err != nil {
		t.Fatal(err)
	}
	h.repository()
	h.options.Merge = MergeKeep
	row := h.run(withStrategy(writing("api", "db"), "serial"))
	wantStatus(t, row, store.Blocked, "join")
	first := h.below(row)["b"]
	if _, err := os.Stat(first.Tree); first.Status != store.Cancelled || err == nil {
		t.Fatalf("path b is %s, its tree %s is there: %v", first.Status, first.Tree, err == nil)
	}
	agents["api"] = holds(t, "f", "the person's", writesFile("f", "of a"))
	row = h.drive(h.controller(), row.ID, Resume{})
	wantStatus(t, row, store.Completed, "")
	next := h.below(row)["b+"]
	if got, err := os.ReadFile(filepath.Join(next.Tree, "f")); string(got) != "of b" || next.Tree == first.Tree {
		t.Errorf("path b wrote %q in %s: %v", got, next.Tree, err)
	}
}

// An agent that breaks its own tree has failed, and no other has. git's data in there
// is not needed.
func TestABrokenTreeIsOnePathsFailure(t *testing.T) {
	for name, tt := range map[string]struct {
		harm   func(dir string) error
		status store.Status
	}{
		"it is gone": {os.RemoveAll, store.Failed},
		"it is a file": {func(dir string) error {
			return errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o644))
		}, store.Failed},
		"it leads elsewhere": {func(dir string) error {
			return errors.Join(os.RemoveAll(dir), os.Symlink(filepath.Dir(dir), dir))
		}, store.Failed},
		"git's link is gone": {func(dir string) error { return os.Remove(filepath.Join(dir, ".git")) },
			store.Completed},
		"git's link is another repository": {func(dir string) error {
			cmd := exec.Command("git", "init", "-q")
			cmd.Dir = dir
			return errors.Join(os.Remove(filepath.Join(dir, ".git")), cmd.Run())
		}, store.Completed},
	} {
		t.Run(name, func(t *testing.T) {
			agents := surveyAgents()
			agents["db"] = writesFile("f", "of b")
			agents["api"] = func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result,
				error) {
				defer func() {
					if err := tt.harm(req.Dir); err != nil {
						t.Error(err)
					}
				}()
				return writesFile("f", "of a")(ctx, req, emit)
			}
			h := newHouse(t, agents)
			h.repository()
			h.options.Merge = MergeKeep
			// The join waits for all paths.
			row := h.run(replaceOnce(writing("api", "db"), "[a, b, c]}", "[a, b, c], losers: wait}"))
			paths := h.below(row)
			a := paths["a"]
			if a.Status != tt.status || paths["b"].Status != store.Completed || paths["c"].Status != store.Completed {
				t.Errorf("paths: a %s, b %s, c %s", a.Status, paths["b"].Status, paths["c"].Status)
			}
			h.noneRuns()
			if tt.status == store.Failed {
				wantStatus(t, row, store.Blocked, "join")
				for _, of := range h.attempts(a) {
					if of.Status != store.AttemptFailed || of.Failure == nil || of.Failure.Message == "" {
						t.Errorf("attempt %s is %s: %+v", of.ID, of.Status, of.Failure)
					}
				}
				agents["api"] = writesFile("f", "of a")
				row = h.drive(h.controller(), row.ID, Resume{})
				if next := h.below(row)["a+"]; next.Tree == a.Tree || next.Status != store.Completed {
					t.Errorf("path a is %s in %s", next.Status, next.Tree)
				}
			}
			wantStatus(t, row, store.Completed, "")
			if err := h.controller().Remove(t.Context(), []string{row.ID}, func(store.Thread) error { return nil }); err != nil {
				t.Errorf("what is left cannot be taken away: %v", err)
			}
		})
	}
}

// A manual fork has its tree if it is compacted before it is driven.
func TestACompactionHasATree(t *testing.T) {
	agents := surveyAgents()
	agents["api"], agents["db"] = writesFile("f", "of a"), writesFile("f", "of b")
	asked := 0
	agents[thread.RoleCompact] = func(ctx context.Context, req agent.Request,
		emit func(agent.Event) error) (agent.Result, error) {
		asked++
		return holds(t, "f", "of a", say("A summary."))(ctx, req, emit)
	}
	h := newHouse(t, agents)
	h.repository()
	h.options.Merge = MergeKeep
	row := h.run(writers())
	fork, err := h.controller().Fork(t.Context(), Fork{Thread: h.below(row)["a"].ID})
	if err != nil || !worktree.Own(fork) {
		t.Fatalf("the fork works in %q: %v", fork.Tree, err)
	}
	if fork, err = h.controller().Compact(t.Context(), Compaction{Thread: fork.ID}); err != nil || asked != 1 {
		t.Fatalf("compact asked %d times: %v", asked, err)
	}
	wantStatus(t, h.drive(h.controller(), fork.ID, Resume{}), store.Completed, "")
}

// A flow that a path calls works in the path's tree, and its steps record how they left
// it.
func TestACallInAPathWorksInItsTree(t *testing.T) {
	agents := surveyAgents()
	agents["api"] = writesFile("f", "of api")
	agents["write"] = holds(t, "f", "of api", writesFile("g", "of the call"))
	h := newHouse(t, agents)
	h.repository()
	h.options.Merge = MergeKeep
	outer := replaceOnce(writing("api"), "more: {description: reads on}", "more: {flow: inner}")
	c := h.controller()
	row := h.drive(c, h.beginFlows(c, h.options, outer, `
version: 1
name: inner
roles: {write: {description: writes, access: write}}
graph:
  $START: {new: {role: write, prompt: go}}
  write: {done: {role: $END, prompt: over}}
`).ID, Resume{})
	wantStatus(t, row, store.Completed, "")
	rows := h.below(row)
	path, child := rows["a"], rows["inner"]
	if child.Tree != path.Tree || !worktree.Own(path) {
		t.Errorf("the called flow works in %s, its caller in %s", child.Tree, path.Tree)
	}
	steps, err := c.Reader().Steps(t.Context(), child.Head)
	if err != nil || len(steps) == 0 || steps[0].State.Role != "write" {
		t.Fatalf("steps of the called flow: %d: %v", len(steps), err)
	}
	detail, err := c.Reader().Detail(t.Context(), steps[0].State.Detail)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		tree       *string
		file, text string
	}{
		{detail.TreeBefore, "f", "of api"}, {detail.TreeBefore, "g", ""}, {detail.TreeAfter, "f", "of api"},
		{detail.TreeAfter, "g", "of the call"},
	} {
		if got := h.inTree(want.tree, want.file); got != want.text {
			t.Errorf("%s holds %q, want %q", want.file, got, want.text)
		}
	}
	if _, err := os.Stat(filepath.Join(h.dir, "g")); err == nil {
		t.Error("the called flow has written where the person works")
	}
}
