package control

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/record/store"
)

// A fork from inside a path keeps its position in the path, whichever thread the step
// is taken from, and ends where the join would be.
func TestForkInsideAPath(t *testing.T) {
	h := newHouse(t, surveyAgents())
	row := h.run(survey)
	wantStatus(t, row, store.Completed, "")
	a := h.below(row)["a"]
	for name, from := range map[string]string{"the path": a.ID, "its parent": row.ID} {
		t.Run(name, func(t *testing.T) {
			c := h.controller()
			fork, err := c.Fork(t.Context(), Fork{Thread: from, At: "2"})
			if err != nil {
				t.Fatal(err)
			}
			if fork.Path == nil || fork.Path.ID != "a" || fork.Kind != store.KindRoot || fork.Path.Fork != a.Path.Fork {
				t.Fatalf("the fork's place: %+v", fork.Path)
			}
			end := h.drive(c, fork.ID, Resume{})
			wantStatus(t, end, store.Completed, "")
			if diff := cmp.Diff([]string{"plan", "api", "more", "__end__"}, h.roles(end)); diff != "" {
				t.Errorf("roles: -want +got\n%s", diff)
			}
			head, err := c.Reader().State(t.Context(), end.Head)
			if err != nil || !strings.Contains(string(head.Meta), "reached join seen") {
				t.Errorf("its end: %s: %v", head.Meta, err)
			}
		})
	}
	t.Run("before the fork and after the join", func(t *testing.T) {
		for _, at := range []string{"1", "4"} { // plan, seen
			fork, err := h.controller().Fork(t.Context(), Fork{Thread: row.ID, At: at})
			if err != nil || fork.Path != nil {
				t.Errorf("a fork at step %s lies in path %+v: %v", at, fork.Path, err)
			}
			end := h.drive(h.controller(), fork.ID, Resume{})
			wantStatus(t, end, store.Completed, "")
			if h.digest(end) != h.digest(row) {
				t.Errorf("a fork at step %s with the same answers ends otherwise", at)
			}
		}
	})
}

func TestRejoin(t *testing.T) {
	h := newHouse(t, surveyAgents())
	row := h.run(survey)
	before := h.runs["db"]
	h.agents["more"] = say("---\n$status: done\n---\nAnother way.")
	c := h.controller()
	fork, err := c.Fork(t.Context(), Fork{Thread: h.below(row)["a"].ID, At: "2", Rejoin: true})
	if err != nil {
		t.Fatal(err)
	}
	end := h.drive(c, fork.ID, Resume{})
	wantStatus(t, end, store.Completed, "")
	if diff := cmp.Diff([]string{"plan", "api", "more", "seen", "report", "__end__"}, h.roles(end)); diff != "" {
		t.Errorf("roles: -want +got\n%s", diff)
	}
	if h.runs["db"] != before || h.runs["api"] != 1 || h.runs["more"] != 2 {
		t.Errorf("runs: %v", h.runs)
	}
	join, _ := h.joinOf(end, "seen")
	text, err := c.Reader().Text(t.Context(), join.State.Content)
	if err != nil || !strings.Contains(text, "The database.") {
		t.Errorf("joined text: %s: %v", text, err)
	}
	main, err := c.Reader().State(t.Context(), join.State.Ancestors[0])
	if err != nil {
		t.Fatal(err)
	}
	if text, err := c.Reader().Text(t.Context(), main.Content); err != nil || text != "Another way." {
		t.Errorf("the main path says %q: %v", text, err)
	}
	if fork.ForkedFrom.Thread != row.ID || fork.Head != join.State.Fork {
		t.Errorf("forked from %+v", fork.ForkedFrom)
	}
	if _, err := c.Fork(t.Context(), Fork{Thread: row.ID, At: "1", Rejoin: true}); !errors.Is(err, ErrUsage) {
		t.Errorf("a step outside every path rejoins: %v", err)
	}
}

// writers is survey with paths that write.
func writers() string {
	yaml := withJoin("joinStrategy: ALL_COMPLETED")
	for _, role := range []string{"api", "db"} {
		yaml = replaceOnce(yaml, "  "+role+": {description: reads}\n", "  "+role+
			": {description: writes, access: write}\n")
	}
	return yaml
}

// repository makes the house's workspace a git repository.
func (h *house) repository() {
	h.t.Helper()
	for _, args := range [][]string{
		{"init", "-q"}, {"add", "-A"},
		{"-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "-q", "--allow-empty", "-m", "one"},
	} {
		cmd := exec.Command("git", args...)
		cmd.Dir = h.dir
		if out, err := cmd.CombinedOutput(); err != nil {
			h.t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
}

// writes is an agent that writes a file into its directory.
func writesFile(name, text string) scripted {
	return func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		if err := os.WriteFile(filepath.Join(req.Dir, name), []byte(text), 0o644); err != nil {
			return agent.Result{}, err
		}
		return say("---\n$status: done\n---\nWrote "+name+" in "+req.Dir)(ctx, req, emit)
	}
}

func TestWritingPathsHaveWorktrees(t *testing.T) {
	agents := surveyAgents()
	agents["api"], agents["db"] = writesFile("f", "of a"), writesFile("f", "of b")
	h := newHouse(t, agents)
	if err := os.WriteFile(filepath.Join(h.dir, "f"), []byte("the person's"), 0o644); err != nil {
		t.Fatal(err)
	}
	h.repository()
	h.options.Merge = MergeKeep
	row := h.run(writers())
	wantStatus(t, row, store.Completed, "")
	paths := h.below(row)
	for file, want := range map[string]string{
		filepath.Join(h.dir, "f"):           "the person's",
		filepath.Join(paths["a"].Tree, "f"): "of a",
		filepath.Join(paths["b"].Tree, "f"): "of b",
	} {
		if got, err := os.ReadFile(file); string(got) != want {
			t.Errorf("%s holds %q, want %q: %v", file, got, want, err)
		}
	}
	if paths["c"].Tree != row.Tree {
		t.Errorf("a path that only reads works in %s", paths["c"].Tree)
	}
	step, err := h.controller().Reader().State(t.Context(), paths["a"].Head)
	if err != nil {
		t.Fatal(err)
	}
	detail, err := h.controller().Reader().Detail(t.Context(), step.Detail)
	if err != nil || detail.TreeBefore == nil || detail.TreeAfter == nil || *detail.TreeBefore == *detail.TreeAfter {
		t.Errorf("trees of the step: %+v: %v", detail, err)
	}

	// A manual fork works on what its step left, next to the person's own files.
	fork, err := h.controller().Fork(t.Context(), Fork{Thread: paths["a"].ID})
	if err != nil || fork.Tree == row.Tree || fork.Tree == paths["a"].Tree {
		t.Fatalf("the fork works in %q: %v", fork.Tree, err)
	}
	in, err := h.controller().Fork(t.Context(), Fork{Thread: paths["a"].ID, InPlace: true})
	if err != nil || in.Tree != paths["a"].Tree {
		t.Errorf("the fork in place works in %q: %v", in.Tree, err)
	}
	wantStatus(t, h.drive(h.controller(), fork.ID, Resume{}), store.Completed, "")
	if got, err := os.ReadFile(filepath.Join(fork.Tree, "f")); string(got) != "of a" {
		t.Errorf("the fork begins with %q: %v", got, err)
	}

	// Removing the task removes its worktrees and refs, and nothing else.
	if err := h.controller().Remove(t.Context(), []string{row.ID}, func(store.Thread) error { return nil }); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a", "b"} {
		if _, err := os.Stat(paths[id].Tree); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the worktree of path %s is still there: %v", id, err)
		}
	}
	refs := exec.Command("git", "for-each-ref", "refs/plait/"+paths["a"].ID)
	refs.Dir = h.dir
	if out, err := refs.Output(); err != nil || len(out) > 0 {
		t.Errorf("refs left: %s %v", out, err)
	}
	if got, err := os.ReadFile(filepath.Join(fork.Tree, "f")); string(got) != "of a" {
		t.Errorf("the fork's worktree went too: %q %v", got, err)
	}
}

// Without git to keep the earlier state, writers of two tasks take turns too.
func TestOneWriterOfTwoTasks(t *testing.T) {
	began, release := make(chan string, 2), make(chan struct{})
	h := newHouse(t, map[string]scripted{"work": func(ctx context.Context, req agent.Request,
		emit func(agent.Event) error) (agent.Result, error) {
		began <- req.Task
		<-release
		return yes("written")(ctx, req, emit)
	}})
	c := h.controller()
	var ids []string
	for range 2 {
		row, err := c.Begin(t.Context(), Spec{Bundle: mustPack(t, one("write", "")).Bundle, Prompt: "x",
			Workspace: h.dir})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, row.ID)
	}
	ended := make(chan store.Thread, 2)
	for _, id := range ids {
		go func() {
			row, err := h.controller().Drive(t.Context(), id, Resume{})
			if err != nil {
				t.Error(err)
			}
			ended <- row
		}()
	}
	first := <-began
	select {
	case <-began:
		t.Error("two write at once")
	case <-time.After(150 * time.Millisecond):
	}
	close(release)
	if second := <-began; second == first {
		t.Error("one task wrote twice")
	}
	for range 2 {
		wantStatus(t, <-ended, store.Completed, "")
	}
}

// The worktree of a writer that was cut off is reset, and the writer runs again without
// asking.
func TestInterruptedWritersArePutBack(t *testing.T) {
	begun, first := make(chan struct{}), true
	agents := surveyAgents()
	agents["db"] = writesFile("g", "b")
	agents["api"] = func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		if _, err := os.Stat(filepath.Join(req.Dir, "half")); err == nil {
			t.Error("what the attempt before left is still there")
		}
		if first {
			first = false
			os.WriteFile(filepath.Join(req.Dir, "half"), []byte("done"), 0o644)
			close(begun)
			<-ctx.Done()
			return agent.Result{}, &agent.Failure{Kind: agent.Cancelled, Message: "stopped"}
		}
		return writesFile("f", "of a")(ctx, req, emit)
	}
	h := newHouse(t, agents)
	h.repository()
	c := h.controller()
	row := h.begin(c, writers())
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-begun; cancel() }()
	if _, err := c.Drive(ctx, row.ID, Resume{}); !errors.Is(err, engine.ErrInterrupted) {
		t.Fatal(err)
	}
	wantStatus(t, h.drive(h.controller(), row.ID, Resume{}), store.Completed, "")
}

// Without git, writers take turns in the single tree.
func TestOneWriterAtATime(t *testing.T) {
	inside := make(chan struct{}, 1)
	writer := func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		select {
		case inside <- struct{}{}:
		default:
			t.Error("two write at once")
		}
		defer func() { <-inside }()
		return writesFile(req.Role, "x")(ctx, req, emit)
	}
	agents := surveyAgents()
	agents["api"], agents["db"] = writer, writer
	h := newHouse(t, agents)
	row := h.run(writers())
	wantStatus(t, row, store.Completed, "")
	for id, p := range h.below(row) {
		if p.Tree != row.Tree {
			t.Errorf("path %s works in %s", id, p.Tree)
		}
	}
}

// TestForkOfAnImportedPart checks that a fork of any part of an imported task counts as imported: it runs nothing unasked.
func TestForkOfAnImportedPart(t *testing.T) {
	h := newHouse(t, nil)
	root := h.begin(h.controller(), race)
	was := root.State()
	root.Options = []byte(`{"imported":"there"}`)
	b := stated(root.Task, store.Batch{Threads: []store.ThreadChange{{Row: root, From: was}}})
	if err := h.store.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	part := store.Thread{ID: "part", Root: root.ID, Task: root.ID, Kind: store.KindPath}
	next, err := h.controller().forkRow(t.Context(), part, "next", forkPoint{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if from, err := Imported(next); from != "there" || err != nil {
		t.Errorf("imported from %q, %v", from, err)
	}
}
