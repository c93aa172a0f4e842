package control

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine/gate"
	"github.com/plait-run/plait/internal/record/store"
)

// edits is a worker that writes files: names and texts, alternately.
func edits(files ...string) scripted {
	return func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		for i := 0; i < len(files); i += 2 {
			name := filepath.Join(req.Dir, files[i])
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				return agent.Result{}, err
			}
			if err := os.WriteFile(name, []byte(files[i+1]), 0o644); err != nil {
				return agent.Result{}, err
			}
		}
		return output("success", "wrote")(ctx, req, emit)
	}
}

// twoWriters begins a task in a repository with the files a and b, whose planner sets the
// workers a and b to write.
func twoWriters(t *testing.T, a, b scripted) *house {
	h := newHouse(t, map[string]scripted{
		"planner": plans(actions("", act("one", `, "access": "write"`), act("two", `, "access": "write"`)), finish),
		"one":     a, "two": b,
	})
	h.file("a", "1\n2\n3\n")
	h.file("b", "1\n2\n3\n")
	h.repository()
	return h
}

func (h *house) file(name, text string) {
	h.t.Helper()
	if err := os.WriteFile(filepath.Join(h.dir, name), []byte(text), 0o644); err != nil {
		h.t.Fatal(err)
	}
}

// read returns a file of the workspace, "" if it does not exist.
func (h *house) read(name string) string {
	data, _ := os.ReadFile(filepath.Join(h.dir, name))
	return string(data)
}

// branch returns what git shows of a file on the branch of a task whose last part is id.
func (h *house) branch(row store.Thread, id, file string) string {
	h.t.Helper()
	cmd := exec.Command("git", "show", "plait/"+row.Task+"/"+id+":"+file)
	cmd.Dir = h.dir
	out, _ := cmd.Output()
	return string(out)
}

// theGate returns the one open gate of a task.
func (h *house) theGate(c *Controller, row store.Thread) store.Gate {
	h.t.Helper()
	open, err := c.Gates().Gates(h.t.Context(), store.GateFilter{Task: row.Task, State: store.GateOpen})
	if err != nil || len(open) != 1 {
		h.t.Fatalf("open gates: %+v, %v", open, err)
	}
	return open[0]
}

func TestWritersAreMerged(t *testing.T) {
	h := twoWriters(t, edits("a", "1\n2\n3\nfour\n", "new/c", "new"), edits("b", "zero\n1\n2\n3\n"))
	var told string
	planner := h.agents["planner"]
	h.agents["planner"] = func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result,
		error) {
		told = req.Prompt
		return planner(ctx, req, emit)
	}
	c := h.controller()
	began := h.orchestrate(c)
	h.file("mine", "the person's")
	row := h.drive(c, began.ID, Resume{})
	wantStatus(t, row, store.Completed, "")
	for name, want := range map[string]string{"a": "1\n2\n3\nfour\n", "b": "zero\n1\n2\n3\n", "new/c": "new",
		"mine": "the person's"} {
		if got := h.read(name); got != want {
			t.Errorf("%s holds %q, want %q", name, got, want)
		}
	}
	if got := h.branch(row, "one", "a"); got != "" {
		t.Errorf("the branch of one, which is merged, has %q", got)
	}
	for _, want := range []string{"the files of one are merged", "the files of two are merged"} {
		if !strings.Contains(told, want) {
			t.Errorf("the planner is not told %q:\n%s", want, told)
		}
	}
	for id, w := range h.below(row) {
		if _, err := os.Stat(w.Tree); !os.IsNotExist(err) {
			t.Errorf("the worktree of %s is still there: %v", id, err)
		}
	}
	steps, err := c.Reader().Steps(t.Context(), row.Head)
	if err != nil {
		t.Fatal(err)
	}
	detail, err := c.Reader().Detail(t.Context(), steps[1].State.Detail)
	if err != nil || detail.Merge == nil || h.inTree(detail.TreeAfter, "new/c") != "new" ||
		h.inTree(detail.TreeBefore, "new/c") != "" {
		t.Errorf("the join's detail: %+v, %+v, %q %q %v", detail.Merge.Sides, *detail.TreeAfter,
			h.inTree(detail.TreeAfter, "new/c"), h.inTree(detail.TreeBefore, "new/c"), err)
	}
}

func TestConflictsAreAskedAbout(t *testing.T) {
	t.Parallel()
	for _, approve := range []bool{true, false} {
		t.Run(fmt.Sprint(approve), func(t *testing.T) {
			h := twoWriters(t, edits("a", "one\n2\n3\n"), edits("a", "two\n2\n3\n"))
			c := h.controller()
			row := h.drive(c, h.orchestrate(c).ID, Resume{})
			wantStatus(t, row, store.Blocked, "conflict")
			if got := h.read("a"); got != "1\n2\n3\n" {
				t.Errorf("before the answer a holds %q", got)
			}
			g := h.theGate(c, row)
			if g.Source != store.SourceMerge || g.Kind != store.GateApproval || !strings.Contains(g.Question, "two") ||
				!strings.Contains(g.Question, "conflicts in a") {
				t.Errorf("the gate: %+v", g)
			}
			row = h.drive(c, row.ID, Resume{})
			wantStatus(t, row, store.Blocked, "conflict")
			if again := h.theGate(c, row); again.ID != g.ID {
				t.Errorf("a resume asks again: %s", again.ID)
			}
			if _, err := c.Gates().Answer(t.Context(), g.ID, gate.Answer{Approve: approve, Reject: !approve, By: "me",
				Via: store.ViaCLI}); err != nil {
				t.Fatal(err)
			}
			row = h.drive(h.controller(), row.ID, Resume{})
			wantStatus(t, row, store.Completed, "")
			want := "1\n2\n3\n"
			if approve {
				want = "one\n2\n3\n"
			}
			if got := h.read("a"); got != want {
				t.Errorf("a holds %q, want %q", got, want)
			}
			if got := h.branch(row, "two", "a"); got != "two\n2\n3\n" {
				t.Errorf("the branch of two has %q", got)
			}
			if _, err := os.Stat(h.below(row)["two"].Tree); err != nil {
				t.Errorf("the worktree of what is not merged is gone: %v", err)
			}
		})
	}
}

func TestProtectedFilesAreAskedAbout(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"AGENTS.md", "sub/AGENTS.md", ".gitignore", ".github/workflows/x.yml",
		".workflows/x.yaml", ".codex/config.toml"} {
		t.Run(strings.ReplaceAll(name, "/", "_"), func(t *testing.T) {
			t.Parallel()
			h := twoWriters(t, edits(name, "obey"), edits("b", "two\n"))
			c := h.controller()
			row := h.drive(c, h.orchestrate(c).ID, Resume{})
			wantStatus(t, row, store.Blocked, "conflict")
			g := h.theGate(c, row)
			if !strings.Contains(g.Question, name) {
				t.Errorf("the question is %q", g.Question)
			}
			if _, err := c.Gates().Answer(t.Context(), g.ID,
				gate.Answer{Reject: true, By: "me", Via: store.ViaCLI}); err != nil {
				t.Fatal(err)
			}
			row = h.drive(c, row.ID, Resume{})
			wantStatus(t, row, store.Completed, "")
			if got := h.read(name); got != "" {
				t.Errorf("%s holds %q though it was denied", name, got)
			}
		})
	}
}

func TestMergePolicies(t *testing.T) {
	t.Parallel()
	h := twoWriters(t, edits("a", "one\n"), edits("b", "two\n"))
	c := h.controller()
	row := h.drive(c, h.orchestrate(c).ID, Resume{Options: Options{Merge: MergeKeep}})
	wantStatus(t, row, store.Completed, "")
	if h.read("a") != "1\n2\n3\n" || h.branch(row, "one", "a") != "one\n" {
		t.Errorf("a holds %q, its branch %q", h.read("a"), h.branch(row, "one", "a"))
	}

	h = twoWriters(t, edits("a", "one\n"), edits("b", "two\n"))
	c = h.controller()
	row = h.drive(c, h.orchestrate(c).ID, Resume{Options: Options{Merge: MergeAsk}})
	wantStatus(t, row, store.Blocked, "conflict")
	if _, err := c.Gates().Answer(t.Context(), h.theGate(c, row).ID,
		gate.Answer{Approve: true, By: "me", Via: store.ViaCLI}); err != nil {
		t.Fatal(err)
	}
	row = h.drive(c, row.ID, Resume{})
	wantStatus(t, row, store.Completed, "")
	if h.read("a") != "one\n" || h.read("b") != "two\n" {
		t.Errorf("a holds %q, b %q", h.read("a"), h.read("b"))
	}
}

// A person works in the tree while agents do: what they write stays, and if it cannot
// be merged, Plait asks.
func TestMergeWithWhatAPersonWrote(t *testing.T) {
	t.Parallel()
	h := twoWriters(t, nil, edits("b", "two\n2\n3\n"))
	h.agents["one"] = func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		h.file("a", "1\n2\n3\nmine\n")
		h.file("b", "mine\n2\n3\n")
		return edits("a", "one\n1\n2\n3\n")(ctx, req, emit)
	}
	c := h.controller()
	row := h.drive(c, h.orchestrate(c).ID, Resume{})
	wantStatus(t, row, store.Blocked, "conflict")
	if _, err := c.Gates().Answer(t.Context(), h.theGate(c, row).ID,
		gate.Answer{Approve: true, By: "me", Via: store.ViaCLI}); err != nil {
		t.Fatal(err)
	}
	row = h.drive(c, row.ID, Resume{})
	wantStatus(t, row, store.Completed, "")
	if got := h.read("a"); got != "one\n1\n2\n3\nmine\n" {
		t.Errorf("a holds %q", got)
	}
	if got := h.read("b"); got != "mine\n2\n3\n" {
		t.Errorf("b holds %q", got)
	}
}

func TestSetUpOfWorktrees(t *testing.T) {
	t.Parallel()
	h := twoWriters(t, edits("a", "one\n"), edits("b", "two\n"))
	h.setup = []string{"sh", "-c", "echo ready > made && pwd >> " + filepath.Join(h.home, "log")}
	h.agents["one"] = holds(t, "made", "ready\n", h.agents["one"])
	c := h.controller()
	row := h.drive(c, h.orchestrate(c).ID, Resume{})
	wantStatus(t, row, store.Completed, "")
	if h.read("made") != "" {
		t.Error("what was set up is merged as if an agent had made it")
	}
	log, _ := os.ReadFile(filepath.Join(h.home, "log"))
	if n := strings.Count(string(log), "\n"); n != 2 {
		t.Errorf("set up %d times:\n%s", n, log)
	}

	h = twoWriters(t, edits("a", "one\n"), edits("b", "two\n"))
	h.setup = []string{"sh", "-c", "echo no network >&2; exit 3"}
	c = h.controller()
	row = h.drive(c, h.orchestrate(c).ID, Resume{})
	wantStatus(t, row, store.Blocked, "join")
	if !strings.Contains(row.Reason.Message, "exit 3") || h.runs["one"] != 0 {
		t.Errorf("blocked: %q, runs %v", row.Reason.Message, h.runs)
	}
	h.setup = nil
	row = h.drive(h.controller(), row.ID, Resume{})
	wantStatus(t, row, store.Completed, "")
}

// A crash at any commit of the merge leads to the same files.
func TestMergeSurvivesCrashes(t *testing.T) {
	t.Parallel()
	for n := 0; n < 30+crashStride(t); n += crashStride(t) {
		h := twoWriters(t, edits("a", "one\n1\n2\n3\n"), edits("b", "two\n1\n2\n3\n", "c", "c"))
		c := h.controller()
		began := h.orchestrate(c)
		broken := failingAfter(h.store, n)
		sick := h.controller()
		sick.cfg.Store = broken
		crashed := true
		if _, err := New(sick.cfg).Drive(t.Context(), began.ID, Resume{}); err == nil {
			crashed = false
		}
		row := h.drive(h.controller(), began.ID, Resume{})
		wantStatus(t, row, store.Completed, "")
		if diff := cmp.Diff([]string{"one\n1\n2\n3\n", "two\n1\n2\n3\n", "c"},
			[]string{h.read("a"), h.read("b"), h.read("c")}); diff != "" {
			t.Errorf("after %d commits: -want +got\n%s", n, diff)
		}
		if !crashed {
			return
		}
	}
	t.Error("the task has more commits than the test tried")
}

// A failing store commits only a given number of batches.
type failing struct {
	store.Store
	left atomic.Int64
}

// failingAfter returns a store that commits n batches to s.
func failingAfter(s store.Store, n int) *failing {
	f := &failing{Store: s}
	f.left.Store(int64(n))
	return f
}

func (f *failing) Commit(ctx context.Context, b store.Batch) error {
	if f.left.Add(-1) < 0 {
		return errBroken
	}
	return f.Store.Commit(ctx, b)
}
