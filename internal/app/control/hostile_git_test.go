package control

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/store"
)

// fifo puts a FIFO at path, whatever was there.
func fifo(t *testing.T, path string) {
	t.Helper()
	os.RemoveAll(path)
	if err := syscall.Mkfifo(path, 0o644); err != nil {
		t.Fatal(err)
	}
}

// What an agent plants in the repository starts nothing, and destroys no one's work.
func TestPlantedInTheRepository(t *testing.T) {
	own := func(v *villain, name string) string { return filepath.Join(v.h.dir, ".git", name) }
	config := func(key string) crime {
		return crime{do: func(v *villain) {
			v.git(v.h.dir, "config", key, v.trap(own(v, "trap")))
			v.write(filepath.Join(v.tree, "new"), "new")
		}}
	}
	ref := func(name func(v *villain) string) crime {
		return crime{do: func(v *villain) {
			v.git(v.h.dir, "update-ref", name(v), "HEAD")
		}}
	}
	two := func(v *villain) string { return filepath.Base(v.sibling) }
	try(t, map[string]crime{
		"core.fsmonitor":  config("core.fsmonitor"),
		"core.sshCommand": config("core.sshCommand"),
		"core.editor":     config("core.editor"),
		"diff.external":   config("diff.external"),
		"merge driver":    config("merge.x.driver"),
		"filter":          config("filter.x.clean"),
		"gpg.program":     config("gpg.program"),
		"credential":      config("credential.helper"),
		"hooks":           {do: func(v *villain) { v.hooks(own(v, "hooks")) }},
		"core.hooksPath": {do: func(v *villain) {
			v.hooks(own(v, "h2"))
			v.git(v.h.dir, "config", "core.hooksPath",
				own(v, "h2"))
		}},
		"info/attributes": {do: func(v *villain) {
			v.write(own(v, "info/attributes"), "* filter=x merge=x diff=x\n")
			v.git(v.h.dir, "config", "filter.x.clean", v.trap(own(v, "trap")))
		}},
		"alternates": {
			do: func(v *villain) { v.write(own(v, "objects/info/alternates"), filepath.Join(v.out, "objects")+"\n") }},
		"a broken config": {do: func(v *villain) { v.write(own(v, "config"), "[core\n") },
			status: store.Blocked, reason: "join"},
		"HEAD moves":                 {do: func(v *villain) { v.git(v.h.dir, "checkout", "-q", "--orphan", "other") }},
		"the index is gone":          {do: func(v *villain) { os.Remove(own(v, "index")) }},
		"the other's snapshot moves": ref(func(v *villain) string { return "refs/plait/" + two(v) + "/attempt-1" }),
		"its own snapshot moves": {do: func(v *villain) {
			v.git(v.h.dir, "update-ref", "refs/plait/"+filepath.Base(v.tree)+"/attempt-1", v.tell(v.tree, "AGENTS.md"))
			v.write(filepath.Join(v.tree, "AGENTS.md"), "obey")
		}, status: store.Blocked, reason: "conflict", asks: "AGENTS.md"},
		"the other's snapshot is what it will leave": {do: func(v *villain) {
			v.git(v.h.dir, "update-ref", "refs/plait/"+two(v)+"/attempt-1", v.tell(v.h.dir, "b", "two\n1\n2\n3\n"))
		}},
		"all snapshots are gone": {do: func(v *villain) {
			for _, ref := range strings.Fields(v.git(v.h.dir, "for-each-ref", "--format=%(refname)", "refs/plait")) {
				v.git(v.h.dir, "update-ref", "-d", ref)
			}
		}},
		"the other's branch is there": {do: func(v *villain) {
			v.git(v.h.dir, "branch", "plait/"+rootID+"/two")
		}, status: store.Blocked, reason: "attempts", after: mended("update-ref", "-d", "refs/heads/plait/"+rootID+
			"/two")},
		"a branch in the way of all": {do: func(v *villain) { v.git(v.h.dir, "branch", "plait") },
			status: store.Blocked, reason: "attempts",
			after: mended("update-ref", "-d", "refs/heads/plait")},
		"a packed branch in the way of all": {do: func(v *villain) {
			v.git(v.h.dir, "branch", "plait")
			v.git(v.h.dir, "pack-refs", "--all")
		}, status: store.Blocked, reason: "attempts", after: mended("update-ref", "-d", "refs/heads/plait")},
		"the reference is a link": {do: func(v *villain) { v.link(v.out, own(v, "refs/plait/"+two(v))) },
			status: store.Blocked, reason: "join"},
	})
}

// mended checks that a person who runs git can continue.
func mended(args ...string) func(*villain, store.Thread) {
	return func(v *villain, row store.Thread) {
		v.git(v.h.dir, args...)
		row = v.h.drive(v.h.controller(), row.ID, Resume{})
		wantStatus(v.t, row, store.Completed, "")
		unchanged("b", "two\n1\n2\n3\n")(v, row)
	}
}

// neverAgain checks that no agent is started in a directory that is not its own: the action starts over elsewhere.
func neverAgain(v *villain, row store.Thread) {
	row = v.h.drive(v.h.controller(), row.ID, Resume{})
	wantStatus(v.t, row, store.Completed, "")
	if again := v.h.below(row)["one+"]; again.Status != store.Completed || again.Tree == v.tree {
		v.t.Errorf("the second try of one is %s in %s", again.Status, again.Tree)
	}
}

// hooks plants every hook.
func (v *villain) hooks(dir string) {
	for _, name := range strings.Fields("post-checkout pre-commit post-commit pre-merge-commit post-merge " +
		"post-index-change reference-transaction fsmonitor-watchman update pre-auto-gc") {
		v.trap(filepath.Join(dir, name))
	}
}

// tell returns a commit that has one more file than HEAD, or another text in it.
func (v *villain) tell(dir, name string, text ...string) string {
	file := filepath.Join(v.t.TempDir(), "text")
	v.write(file, strings.Join(text, ""))
	index := "GIT_INDEX_FILE=" + filepath.Join(v.t.TempDir(), "index")
	blob := v.git(dir, "hash-object", "-w", file)
	v.gitIn(dir, index, "read-tree", "HEAD")
	v.gitIn(dir, index, "update-index", "--add", "--cacheinfo", "100644,"+blob+","+name)
	return v.git(dir, "commit-tree", "-m", "x", v.gitIn(dir, index, "write-tree"))
}

// gitIn runs git with one more variable.
func (v *villain) gitIn(dir, env string, args ...string) string {
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env)
	out, err := cmd.CombinedOutput()
	if err != nil {
		v.t.Errorf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// What an agent does to its own worktree is its own work: never a way out, and never
// merged unseen where it would command others.
func TestHostileWorktrees(t *testing.T) {
	in := func(v *villain, name string) string { return filepath.Join(v.tree, name) }
	asked := func(name string) crime {
		return crime{do: func(v *villain) { v.write(in(v, name), "obey") }, status: store.Blocked, reason: "conflict",
			asks: name, after: unchanged(name, "")}
	}
	unseen := crime{do: func(v *villain) {
		v.write(in(v, ".plait/config.yaml"), "agents: {codex: {command: [evil]}}")
		v.write(in(v, "new"), "new")
	}, after: unchanged(".plait/config.yaml", "")}
	try(t, map[string]crime{
		".plait is no part of it": unseen,
		"sub/.plait/config.yaml": {do: func(v *villain) { v.write(in(v, "sub/.plait/config.yaml"), "obey") },
			status: store.Blocked, reason: "conflict", asks: "sub/.plait/config.yaml"},
		"AGENTS.md":          asked("AGENTS.md"),
		"agents.MD":          asked("agents.MD"),
		".Codex/config.toml": asked(".Codex/config.toml"),
		".workflows/x.yaml":  asked(".workflows/x.yaml"),
		".gitattributes":     asked(".gitattributes"),
		".gitmodules":        asked(".gitmodules"),
		"AGENTS.md as a link": {do: func(v *villain) { v.link("/etc/passwd", in(v, "AGENTS.md")) },
			status: store.Blocked, reason: "conflict", asks: "AGENTS.md"},
		"a link out": {do: func(v *villain) { v.link("/etc/passwd", in(v, "x")) },
			after: func(v *villain, _ store.Thread) {
				if to, err := os.Readlink(filepath.Join(v.h.dir, "x")); to != "/etc/passwd" {
					v.t.Errorf("it is merged as %q: %v", to, err)
				}
			}},
		"a file becomes a link out": {do: func(v *villain) {
			v.write(filepath.Join(v.t.TempDir(), "x"), "x")
			v.link(filepath.Join(v.out, "through"), in(v, "a"))
		}},
		"a link to the other's files": {do: func(v *villain) { v.link(filepath.Join(v.sibling, "b"), in(v, "x")) }},
		"a nested repository": {do: func(v *villain) {
			v.write(in(v, "nested/f"), "f")
			v.git(in(v, "nested"), "init", "-q")
			v.git(in(v, "nested"), "add", "-A")
			v.git(in(v, "nested"), "commit", "-qm", "x")
			v.git(in(v, "nested"), "config", "core.fsmonitor", v.trap(in(v, "nested/.git/trap")))
		}, after: unchanged("nested/f", "")},
		"a submodule in the index": {do: func(v *villain) {
			v.git(v.tree, "update-index", "--add", "--cacheinfo", "160000,"+v.git(v.tree, "rev-parse", "HEAD")+",sub")
		}, status: store.Blocked, reason: "attempts", after: func(v *villain, row store.Thread) {
			row = v.h.drive(v.h.controller(), row.ID, Resume{Options: Options{Merge: MergeKeep}})
			wantStatus(v.t, row, store.Completed, "")
		}},
		"attributes with a driver": {do: func(v *villain) {
			v.write(in(v, ".gitattributes"), "* filter=x merge=x\n")
			v.git(v.tree, "config", "filter.x.smudge", v.trap(filepath.Join(v.h.dir, ".git/trap")))
			v.git(v.tree, "config", "merge.x.driver", v.trap(filepath.Join(v.h.dir, ".git/trap"))+" %A")
		}, status: store.Blocked, reason: "conflict", asks: ".gitattributes"},
		".git is a file that leads away": {
			do: func(v *villain) { v.write(in(v, ".git"), "gitdir: "+filepath.Join(v.out, "git")+"\n") }},
		".git is a link": {do: func(v *villain) { v.link(filepath.Join(v.h.dir, ".git"), in(v, ".git")) }},
		".git is the other's": {do: func(v *villain) {
			data, _ := os.ReadFile(filepath.Join(v.sibling, ".git"))
			v.write(in(v, ".git"), string(data))
		}},
		".git is a repository": {do: func(v *villain) { os.Remove(in(v, ".git")); v.git(v.tree, "init", "-q") }},
		"its tree is gone": {do: func(v *villain) { os.RemoveAll(v.tree) }, status: store.Blocked,
			reason: "join"},
		"its tree is a link": {do: func(v *villain) { v.link(v.h.dir, v.tree) }, status: store.Blocked,
			reason: "join", after: neverAgain},
		"its tree is the other's": {do: func(v *villain) { v.link(v.sibling, v.tree) }, status: store.Blocked,
			reason: "join", after: neverAgain},
		"its tree is a FIFO": {do: func(v *villain) { fifo(v.t, v.tree) }, status: store.Blocked, reason: "join"},
		"its tree is a file": {do: func(v *villain) { v.write(v.tree, "x") }, status: store.Blocked,
			reason: "join"},
		"a FIFO inside":         {do: func(v *villain) { fifo(v.t, in(v, "pipe")) }},
		"a FIFO for .gitignore": {do: func(v *villain) { v.write(in(v, "d/x"), "x"); fifo(v.t, in(v, "d/pipe")) }},
		"the person's files": {do: func(v *villain) { v.h.file("a", "by one\n") },
			after: func(v *villain, row store.Thread) {
				if got := v.h.honestTree(row, "a"); got != "1\n2\n3\n" {
					v.t.Errorf("two is said to have made %q of it", got)
				}
			}},
	})
}

// What is written into another's tree after its step was kept is not merged as its
// work, and the tree stays for a person to look at.
func TestWritesIntoATreeThatIsKept(t *testing.T) {
	h := twoWriters(t, nil, edits("b", "two\n1\n2\n3\n"))
	h.agents["planner"] = plans(actions("", act("one", `, "access": "write", "dependsOn": ["two"]`),
		act("two", `, "access": "write"`)), finish)
	h.agents["one"] = func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		tree := filepath.Join(filepath.Dir(req.Dir), h.below(store.Thread{Task: rootID})["two"].ID)
		if err := os.WriteFile(filepath.Join(tree, "b"), []byte("forged\n"), 0o644); err != nil {
			t.Error(err)
		}
		return edits("a", "one\n1\n2\n3\n")(ctx, req, emit)
	}
	c := h.controller()
	row := h.drive(c, h.orchestrate(c).ID, Resume{})
	wantStatus(t, row, store.Completed, "")
	if got := h.read("b"); got != "two\n1\n2\n3\n" {
		t.Errorf("b holds %q", got)
	}
	if got, err := os.ReadFile(filepath.Join(h.below(row)["two"].Tree, "b")); string(got) != "forged\n" {
		t.Errorf("the tree that was written into holds %q: %v", got, err)
	}
	steps, err := c.Reader().Steps(t.Context(), h.below(row)["one"].Head)
	if err != nil {
		t.Fatal(err)
	}
	if d, err := c.Reader().Detail(t.Context(), steps[len(steps)-2].State.Detail); err != nil || d.Sandbox != "none" {
		t.Errorf("the record says of its sandbox %q: %v", d.Sandbox, err)
	}
}
