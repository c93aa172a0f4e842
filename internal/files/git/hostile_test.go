package git_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/files/git"
)

// A trap is something in a repository that makes git run a program. "!" stands
// for the program.
type trap struct {
	name  string
	files files
	then  func(t *testing.T, dir, program string)
	// the command with which an unprotected git springs the trap, to show that it is
	// one; nil if there is no short one.
	spring []string
}

func config(key, value string) func(*testing.T, string, string) {
	return func(t *testing.T, dir, program string) {
		userGit(t, dir, "config", key, strings.ReplaceAll(value, "!", program))
	}
}

func traps() []trap {
	attributes := files{".gitattributes": "* filter=f diff=d merge=m\n"}
	add, diff := []string{"add", "-A"}, []string{"diff"}
	return []trap{
		{"filter clean", attributes, config("filter.f.clean", "!"), add},
		{"filter smudge", attributes, config("filter.f.smudge", "!"), []string{"checkout", "--", "."}},
		{"filter process", attributes, func(t *testing.T, dir, program string) {
			config("filter.f.process", "!")(t, dir, program)
			config("filter.f.required", "true")(t, dir, program)
		}, add},
		{"filter in an included file", attributes, func(t *testing.T, dir, program string) {
			userGit(t, dir, "config", "-f", "inc", "filter.f.clean", program)
			userGit(t, dir, "config", "include.path", "../inc")
		}, add},
		{"filter in the worktree's config", attributes, func(t *testing.T, dir, program string) {
			userGit(t, dir, "config", "extensions.worktreeConfig", "true")
			userGit(t, dir, "config", "--worktree", "filter.f.clean", program)
		}, add},
		{"attributes in info", nil, func(t *testing.T, dir, program string) {
			files{".git/info/attributes": "* filter=f\n"}.write(t, dir)
			config("filter.f.clean", "!")(t, dir, program)
		}, add},
		{"attributes named by the config", nil, func(t *testing.T, dir, program string) {
			files{".git/attr": "* filter=f\n"}.write(t, dir)
			config("core.attributesFile", filepath.Join(dir, ".git/attr"))(t, dir, program)
			config("filter.f.clean", "!")(t, dir, program)
		}, add},
		{"external diff", nil, config("diff.external", "!"), diff},
		{"diff driver", attributes, config("diff.d.command", "!"), diff},
		{"textconv", attributes, config("diff.d.textconv", "!"), diff},
		{"merge driver", attributes, config("merge.m.driver", "!"), nil},
		{"monitor", nil, config("core.fsmonitor", "!"), []string{"status"}},
		{"hooks", nil, func(t *testing.T, dir, program string) { hooks(t, filepath.Join(dir, ".git/hooks"), program) },
			[]string{"update-ref", "refs/heads/x", "HEAD"}},
		{"hooks elsewhere", nil, func(t *testing.T, dir, program string) {
			hooks(t, filepath.Join(dir, "h"), program)
			config("core.hooksPath", filepath.Join(dir, "h"))(t, dir, program)
		}, []string{"update-ref", "refs/heads/x", "HEAD"}},
		{"pager", nil, config("core.pager", "!"), nil},
		{"alias", nil, func(t *testing.T, dir, program string) {
			for _, verb := range []string{"ls-files", "write-tree", "update-index", "read-tree", "diff-tree"} {
				userGit(t, dir, "config", "alias."+verb, "!"+program)
			}
		}, nil},
		{"signing", nil, func(t *testing.T, dir, program string) {
			config("commit.gpgSign", "true")(t, dir, program)
			config("gpg.program", "!")(t, dir, program)
		}, []string{"commit", "--allow-empty", "-m", "x"}},
		{"missing object fetched by ssh", nil, func(t *testing.T, dir, program string) {
			config("core.sshCommand", "!")(t, dir, program)
			config("remote.o.url", "ssh://host/x")(t, dir, program)
			config("remote.o.promisor", "true")(t, dir, program)
			config("extensions.partialClone", "o")(t, dir, program)
		}, []string{"cat-file", "-p", "0123456789012345678901234567890123456789"}},
		{"filter inside a submodule", nil, func(t *testing.T, dir, program string) {
			sub := filepath.Join(dir, "sub")
			userGit(t, dir, "submodule", "--quiet", "add", commit(t, files{"s": "1"}), "sub")
			userGit(t, dir, "commit", "-qm", "sub")
			userGit(t, sub, "config", "filter.f.clean", program)
			userGit(t, sub, "config", "core.fsmonitor", program)
			files{"sub/s": "2", "sub/.gitattributes": "* filter=f\n"}.write(t, dir)
		}, add},
		{"filter inside a nested repository", nil, func(t *testing.T, dir, program string) {
			files{"n/x": "1", "n/.gitattributes": "* filter=f\n"}.write(t, dir)
			n := filepath.Join(dir, "n")
			userGit(t, n, "init", "-q")
			userGit(t, n, "commit", "-q", "--allow-empty", "-m", "x")
			userGit(t, n, "config", "filter.f.clean", program)
			userGit(t, n, "config", "core.fsmonitor", program)
		}, nil},
	}
}

func hooks(t *testing.T, dir, program string) {
	t.Helper()
	for _, name := range []string{"reference-transaction", "post-checkout", "post-index-change", "pre-commit",
		"post-commit", "pre-auto-gc", "pre-push"} {
		os.Remove(filepath.Join(dir, name))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(program, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTraps does everything that the package can do in repositories full of traps,
// none of which may spring. Each is shown to be a trap.
func TestTraps(t *testing.T) {
	for _, tt := range traps() {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			marker := filepath.Join(newDir(t), "sprung")
			dir, program := trapped(t, tt, marker)
			everything(t, dir, program)
			if b, err := os.ReadFile(marker); err == nil {
				t.Fatalf("run: %s", b)
			}
			if tt.spring == nil {
				return
			}
			dir, _ = trapped(t, tt, marker)
			cmd := userCommand(dir, tt.spring...)
			cmd.WaitDelay = 10 * time.Second
			stop := time.AfterFunc(2*time.Minute, func() { cmd.Process.Kill() })
			cmd.Run()
			stop.Stop()
			if _, err := os.Stat(marker); err != nil {
				t.Errorf("git %q does not spring it: this tests nothing", tt.spring)
			}
		})
	}
}

func trapped(t *testing.T, tt trap, marker string) (dir, program string) {
	t.Helper()
	dir = commit(t, files{"a": "1", "d/b": "2"})
	program = filepath.Join(newDir(t), "program")
	script := "#!/bin/sh\necho \"$0 $*\" >>'" + marker + "'\ncase \"$*\" in *host*) exit 1;; esac\ncat\n"
	// A child forked meanwhile would hold it open for writing, and a file that is
	// open for writing cannot be run.
	syscall.ForkLock.RLock()
	err := os.WriteFile(program, []byte(script), 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	tt.files.write(t, dir)
	userGit(t, dir, "add", "-A")
	userGit(t, dir, "commit", "-q", "--allow-empty", "-m", "attributes")
	if tt.then != nil {
		tt.then(t, dir, program)
	}
	files{"a": "changed", "new": "x"}.write(t, dir)
	remove(t, marker) // setting a trap may spring it
	return dir, program
}

// everything calls every function of the package.
func everything(t *testing.T, dir, program string) {
	t.Helper()
	ctx := context.Background()
	r := open(t, dir)
	first := snapshot(t, r, "refs/plait/t/1")
	files{"a": "3", "d/c": "4"}.write(t, dir)
	second := snapshot(t, r, "refs/plait/t/2")
	if _, err := r.Diff(ctx, first, second); err != nil {
		t.Error(err)
	}
	if _, err := r.Changed(ctx, first, second); err != nil {
		t.Error(err)
	}
	w := filepath.Join(newDir(t), "w")
	if err := r.Checkout(ctx, w, second); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(treeFiles(t, dir, second)["a"], readFiles(t, w)["a"]); diff != "" {
		t.Error(diff)
	}
	files{"a": "5"}.write(t, w)
	linked := open(t, w)
	if err := linked.Restore(ctx, first); err != nil {
		t.Error(err)
	}
	if got := snapshot(t, linked, ""); got != first {
		t.Errorf("restored to %s, want %s", got, first)
	}
	if _, err := r.Remove(ctx, w, "refs/plait/t/3", git.Caches{}); err != nil {
		t.Error(err)
	}
	bringTogether(t, r, dir, second)
	remote := filepath.Join(newDir(t), "remote.git")
	userGit(t, newDir(t), "init", "-q", "--bare", remote)
	userGit(t, dir, "config", "remote.witness.url", remote)
	add(t, git.Chain{Repo: open(t, dir), Ref: chainRef, Remote: "witness"}, "one")
	if refs, err := r.Refs(ctx, "refs/plait/t/"); err != nil || len(refs) != 3 {
		t.Errorf("refs %v: %v", refs, err)
	}
	if err := r.DropRefs(ctx, "refs/plait/t/"); err != nil {
		t.Error(err)
	}
}

// bringTogether merges, applies and makes branches in a work tree that matches tree.
func bringTogether(t *testing.T, r *git.Repo, dir, tree string) {
	t.Helper()
	ctx := context.Background()
	files{"m": lines("1", "2", "3", "4", "5")}.write(t, dir)
	base := snapshot(t, r, "")
	if err := r.Apply(ctx, base, tree); err != nil {
		t.Error(err)
	}
	var sides []git.Side
	for _, text := range []string{lines("one", "2", "3", "4", "5"), lines("1", "2", "3", "4", "five")} {
		files{"m": text}.write(t, dir)
		sides = append(sides, git.Side{Name: text, Base: base, Tree: snapshot(t, r, "")})
	}
	got, err := r.Merge(ctx, base, sides)
	if err != nil || len(got.Taken) != 2 {
		t.Fatalf("%+v: %v", got, err)
	}
	if err := r.Apply(ctx, sides[1].Tree, got.Tree); err != nil {
		t.Error(err)
	}
	if text := readFiles(t, dir)["m"]; text != lines("one", "2", "3", "4", "five") {
		t.Errorf("applied %q", text)
	}
	for range 2 {
		if _, err := r.Branch(ctx, "plait/t/x", got.Tree, "", "m", time.Unix(1, 0)); err != nil {
			t.Error(err)
		}
	}
}

// TestRefused opens repositories that lead elsewhere.
func TestRefused(t *testing.T) {
	for _, tt := range []struct {
		name string
		then func(t *testing.T, dir string)
		says string
	}{
		{"a link to another's git directory", func(t *testing.T, dir string) {
			remove(t, filepath.Join(dir, ".git"))
			files{".git": "link:" + filepath.Join(commit(t, nil), ".git")}.write(t, dir)
		}, "symbolic link"},
		{"a file that names another's git directory", func(t *testing.T, dir string) {
			remove(t, filepath.Join(dir, ".git"))
			files{".git": "gitdir: " + filepath.Join(commit(t, nil), ".git")}.write(t, dir)
		}, "does not lead back"},
		{"a worktree of its own making, with another's refs", func(t *testing.T, dir string) {
			own := newDir(t)
			remove(t, filepath.Join(dir, ".git"))
			files{".git": "gitdir: " + own}.write(t, dir)
			files{"gitdir": dir + "/.git", "commondir": filepath.Join(commit(t, nil), ".git"),
				"HEAD": "ref: refs/heads/main"}.write(t, own)
		}, "does not point back"},
		{"no git file", func(t *testing.T, dir string) {
			remove(t, filepath.Join(dir, ".git"))
			files{".git": "hello"}.write(t, dir)
		}, "not a git file"},
		{"a FIFO", func(t *testing.T, dir string) {
			remove(t, filepath.Join(dir, ".git"))
			if err := syscall.Mkfifo(filepath.Join(dir, ".git"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "not a regular file"},
		{"core.worktree", func(t *testing.T, dir string) { userGit(t, dir, "config", "core.worktree", newDir(t)) },
			"core.worktree"},
		{"objects elsewhere", func(t *testing.T, dir string) { linkAway(t, dir, "objects") }, "objects"},
		{"refs elsewhere", func(t *testing.T, dir string) { linkAway(t, dir, "refs") }, "refs"},
		{"config is a link", func(t *testing.T, dir string) { linkAway(t, dir, "config") }, ""},
		{"unknown extension", func(t *testing.T, dir string) {
			files{".git/config": "[extensions]\n\trefStorage = reftable\n"}.write(t, dir)
		}, "extensions.refstorage = reftable"},
		{"broken config", func(t *testing.T, dir string) { files{".git/config": "[core"}.write(t, dir) }, "bad config"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := commit(t, files{"a": "1"})
			tt.then(t, dir)
			_, err := git.Open(context.Background(), dir)
			if err == nil || !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), dir) {
				t.Errorf("Open returned %v", err)
			}
			if tt.says != "" && !errors.Is(err, git.ErrRefused) {
				t.Errorf("%v is no ErrRefused", err)
			}
		})
	}
}

func linkAway(t *testing.T, dir, name string) {
	t.Helper()
	away := filepath.Join(newDir(t), name)
	if err := os.Rename(filepath.Join(dir, ".git", name), away); err != nil {
		t.Fatal(err)
	}
	files{filepath.Join(".git", name): "link:" + away}.write(t, dir)
}

// TestRefsAreNotWrittenThroughLinks puts a link where the refs of a thread go.
func TestRefsAreNotWrittenThroughLinks(t *testing.T) {
	dir, away := commit(t, files{"a": "1"}), newDir(t)
	files{".git/refs/plait": "link:" + away}.write(t, dir)
	r := open(t, dir)
	if _, err := r.Snapshot(context.Background(), "refs/plait/t/1"); !errors.Is(err, git.ErrRefused) {
		t.Errorf("Snapshot returned %v", err)
	}
	if err := r.DropRefs(context.Background(), "refs/plait/t/"); !errors.Is(err, git.ErrRefused) {
		t.Errorf("DropRefs returned %v", err)
	}
	if got := readFiles(t, away); len(got) > 0 {
		t.Errorf("written outside: %v", got)
	}
}

// TestReplacedObjects checks that git replace has no effect.
func TestReplacedObjects(t *testing.T) {
	dir := commit(t, files{"a": "1"})
	r := open(t, dir)
	first := snapshot(t, r, "")
	files{"a": "2"}.write(t, dir)
	second := snapshot(t, r, "")
	userGit(t, dir, "replace", second, first)
	if list, err := r.Changed(context.Background(), first, second); err != nil || len(list) != 1 {
		t.Errorf("changed %v: %v", list, err)
	}
}

// TestEnvironmentIsNotInherited sets variables that lead git elsewhere.
func TestEnvironmentIsNotInherited(t *testing.T) {
	dir, other := commit(t, files{"a": "1"}), commit(t, files{"a": "other"})
	for key, value := range map[string]string{
		"GIT_DIR": filepath.Join(other, ".git"), "GIT_WORK_TREE": other,
		"GIT_INDEX_FILE":       filepath.Join(other, ".git/index"),
		"GIT_OBJECT_DIRECTORY": filepath.Join(other, ".git/objects"), "GIT_EXTERNAL_DIFF": "false",
		"GIT_CONFIG_COUNT":      "x",
		"GIT_CONFIG_PARAMETERS": "x", "GIT_TRACE": filepath.Join(other, "trace"),
	} {
		t.Setenv(key, value)
	}
	tree := snapshot(t, open(t, dir), "")
	for _, key := range []string{"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY",
		"GIT_CONFIG_COUNT", "GIT_CONFIG_PARAMETERS", "GIT_TRACE"} {
		os.Unsetenv(key)
	}
	if diff := cmp.Diff(files{"a": "1"}, treeFiles(t, dir, tree)); diff != "" {
		t.Error(diff)
	}
}

// TestOwnProgram uses a PATH that leads into the work tree.
func TestOwnProgram(t *testing.T) {
	dir := commit(t, files{"git": "exec:#!/bin/sh"})
	t.Setenv("PATH", dir)
	if _, err := git.Open(context.Background(), dir); !errors.Is(err, git.ErrRefused) {
		t.Errorf("Open returned %v", err)
	}
	t.Setenv("PATH", newDir(t))
	if _, err := git.Open(context.Background(), dir); !errors.Is(err, git.ErrNoGit) || errors.Is(err, git.ErrNone) {
		t.Errorf("Open without git returned %v", err)
	}
}
