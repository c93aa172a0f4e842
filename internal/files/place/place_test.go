package place_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/files/place"
	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/housetest"
	"github.com/plait-run/plait/internal/testing/mem"
)

const two = `
version: 1
name: two
roles: {write-one: {description: d, access: write}, write-two: {description: d, access: write}}
graph:
  $START: {new: {role: write-one, prompt: "{{ prompt }}"}}
  write-one: {done: {role: write-two, prompt: "on"}}
  write-two: {done: {role: $END}}
`

// finish lets a machine drive the task to its end.
func (w *worker) finish(t *testing.T) store.Thread {
	t.Helper()
	for {
		row := w.row(t, taskID)
		if row.Ended() {
			return row
		}
		did, err := w.step(t.Context(), taskID)
		if err != nil {
			t.Fatal(err)
		}
		if row = w.row(t, taskID); row.Status == store.Blocked || !did && !row.Ended() {
			t.Fatalf("nothing goes on: %+v", row.Reason)
		}
	}
}

func TestNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"shop": true, "Shop_2.x-y": true, "": false, ".": false, "..": false, "a/b": false, "-x": false, ".git": false,
		"x.git": false,
		"ü":     false, "a b": false, strings.Repeat("x", 64): true, strings.Repeat("x", 65): false, "a\x00": false,
	} {
		ws, err := place.Workspace(name)
		if (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
		if got, is := place.Named(ws); ok && (!is || got != name) {
			t.Errorf("%q is read back as %q, %v", ws, got, is)
		}
	}
}

// A row has directories when it is read, and names in the record.
func TestRows(t *testing.T) {
	m := mem.New(mem.Config{})
	defer m.Close()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p, err := place.New(place.Config{Dir: dir, Store: m})
	if err != nil {
		t.Fatal(err)
	}
	s := p.Store()
	at := dir + "/tasks/shop/T"
	for _, tt := range []struct{ ws, tree, here, in string }{
		{"ws:shop", "ws:shop/.plait/worktrees/T/sub", at, at + "/.plait/worktrees/T/sub"},
		{"ws:shop", "", at, ""},
		{"ws:shop", "ws:shop/../../../etc", at, ""},
		{"ws:shop", "/etc", at, ""},
		{"ws:../x", "ws:../x/y", "ws:../x", "ws:../x/y"},
		{"/home/me", "/home/me/sub", "/home/me", "/home/me/sub"},
	} {
		row := store.Thread{ID: "T", Task: "T", Root: "T", Status: store.Running, Workspace: tt.ws, Tree: tt.tree}
		if err := m.Commit(t.Context(), store.Batch{Threads: []store.ThreadChange{{Row: row}}}); err != nil {
			t.Fatal(err)
		}
		got, err := s.Thread(t.Context(), "T")
		if err != nil || got.Workspace != tt.here || got.Tree != tt.in {
			t.Errorf("%s %s: here %s %s, %v", tt.ws, tt.tree, got.Workspace, got.Tree, err)
		}
		if p.Has(got) != strings.HasPrefix(tt.here, dir) {
			t.Errorf("Has of %s is %v", got.Workspace, p.Has(got))
		}
		rows, err := s.Task(t.Context(), "T")
		if err != nil || rows.Threads[0].Tree != tt.in {
			t.Errorf("Task: %+v, %v", rows, err)
		}
		found, err := s.Threads(t.Context(), store.ThreadFilter{Workspace: tt.here})
		if err != nil || len(found) != 1 {
			t.Errorf("found by %s: %+v, %v", tt.here, found, err)
		}
		if err := s.Commit(t.Context(), store.Batch{Threads: []store.ThreadChange{{Row: got,
			From: got.State()}}}); err != nil {
			t.Fatal(err)
		}
		back, err := m.Thread(t.Context(), "T")
		if err != nil || back.Workspace != tt.ws || tt.in != "" && back.Tree != tt.tree {
			t.Errorf("%s %s: comes back as %s %s, %v", tt.ws, tt.tree, back.Workspace, back.Tree, err)
		}
		if err := m.Commit(t.Context(), store.Batch{Remove: []string{"T"}}); err != nil {
			t.Fatal(err)
		}
	}
}

// Tasks of a directory and of the workspace that it is a clone of are listed together.
func TestClone(t *testing.T) {
	m := mem.New(mem.Config{})
	defer m.Close()
	p, err := place.New(place.Config{Dir: t.TempDir(), Store: m})
	if err != nil {
		t.Fatal(err)
	}
	for id, ws := range map[string]string{"A": "/home/me", "B": "ws:shop", "C": "/home/me", "D": "ws:other",
		"E": "ws:shop"} {
		row := store.Thread{ID: id, Task: id, Root: id, Status: store.Running, Workspace: ws}
		if err := m.Commit(t.Context(), store.Batch{Threads: []store.ThreadChange{{Row: row}}}); err != nil {
			t.Fatal(err)
		}
	}
	p.Clone("/home/me", "shop")
	for _, tt := range []struct {
		f    store.ThreadFilter
		want string
	}{
		{store.ThreadFilter{Workspace: "/home/me"}, "A B C E"},
		{store.ThreadFilter{Workspace: "/home/me", Newest: true, Limit: 3}, "E C B"},
		{store.ThreadFilter{Workspace: "/home/me", Newest: true, After: "C"}, "B A"},
		{store.ThreadFilter{Workspace: "/home/you"}, ""},
		{store.ThreadFilter{}, "A B C D E"},
	} {
		rows, err := p.Store().Threads(t.Context(), tt.f)
		var ids []string
		for _, row := range rows {
			ids = append(ids, row.ID)
		}
		if got := strings.Join(ids, " "); err != nil || got != tt.want {
			t.Errorf("%+v: %s, %v, want %s", tt.f, got, err, tt.want)
		}
	}
	s := p.Store().(interface {
		Belongs(row store.Thread, workspace string) bool
	})
	row, err := p.Store().Thread(t.Context(), "B")
	if err != nil || !s.Belongs(row, "/home/me") || s.Belongs(row, "/home/you") {
		t.Errorf("%+v, %v", row, err)
	}
}

// What the remote has is not uploaded, and workers see its history.
func TestRemote(t *testing.T) {
	dir, remote := project(t), t.TempDir()
	userGit(t, remote, "init", "-q", "--bare")
	userGit(t, dir, "remote", "add", "origin", remote)
	userGit(t, dir, "push", "-q", "origin", "HEAD:main")
	pushed := userGit(t, dir, "rev-parse", "HEAD")
	userGit(t, dir, "commit", "-q", "--allow-empty", "-m", "not pushed")
	m := newTeam(t, working)
	m.remotes = map[string]string{"shop": "file://" + remote}
	m.begin(dir, "origin", two)
	w := m.worker("a", t.TempDir())
	if _, err := w.step(t.Context(), taskID); err != nil {
		t.Fatal(err)
	}
	row := w.finish(t)
	if log := userGit(t, row.Tree, "log", "--format=%H"); log != pushed {
		t.Errorf("the worker's tree has the history %s, want %s", log, pushed)
	}
	want := "README: read me, changed\nnew: not committed\nsub/old: old\nwrite-one: write-one visit 0\nwrite-two: " +
		"write-two visit 0"
	if d := cmp.Diff(want, strings.ReplaceAll(seen(row.Tree), ".gitignore: cache\n", "")); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	if row.Host != "a" {
		t.Errorf("the row says that its tree is on %q", row.Host)
	}

	// A person gets the work back as a branch on their own commit.
	trees := worktree.New(worktree.Config{Store: m.record, Reader: thread.NewReader(m.record)})
	last, err := m.record.Thread(t.Context(), taskID)
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := trees.Pull(t.Context(), dir, last, last.Head)
	if err != nil {
		t.Fatal(err)
	}
	if got := userGit(t, dir, "rev-parse", pulled.Branch+"^"); got != userGit(t, dir, "rev-parse", "HEAD") {
		t.Errorf("the branch follows %s, not HEAD", got)
	}
	if got := userGit(t, dir, "show", pulled.Branch+":write-two"); got != "write-two visit 0" {
		t.Errorf("the branch has %q", got)
	}
}

// A worker that cannot fetch what a task begins with reports that, and continues the task once it can.
func TestNoRemote(t *testing.T) {
	dir, remote := project(t), t.TempDir()
	userGit(t, remote, "init", "-q", "--bare")
	userGit(t, dir, "remote", "add", "origin", remote)
	userGit(t, dir, "push", "-q", "origin", "HEAD:main")
	for _, tt := range []struct {
		name, remote, want string
	}{
		{"none is known", "", "no remote is configured for it on this worker"},
		{"it is gone", "file:///nowhere/at/all", "fetch file:///nowhere/at/all"},
		{"a program", "ext::sh -c true", "want a URL"},
		{"an option", "--upload-pack=true", "want a URL"},
		{"another repository", "other", "which the remote of its workspace does not have"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newTeam(t, working)
			m.remotes = map[string]string{"shop": tt.remote}
			if tt.remote == "other" {
				m.remotes["shop"] = project(t)
				userGit(t, m.remotes["shop"], "commit", "-q", "--amend", "-m", "another")
			}
			m.begin(dir, "origin", two)
			w := m.worker("a", t.TempDir())
			var own *engine.WorkerError
			if _, err := w.step(t.Context(), taskID); err != nil && !errors.As(err, &own) {
				t.Fatal(err)
			}
			row := w.row(t, taskID)
			other := tt.remote == "other" // that is the task's fault
			if (row.Status == store.Blocked) != other || (own == nil) != other || !strings.Contains(row.Reason.Message, tt.want) {
				t.Errorf("%s: %+v", row.Status, row.Reason)
			}
			if len(m.runs) > 0 {
				t.Errorf("agents ran: %v", m.runs)
			}
		})
	}
}

// Setup runs once for each tree on each machine.
func TestSetup(t *testing.T) {
	m := newTeam(t, working)
	m.setup = []string{"sh", "-c", "echo ran >> cache"}
	m.begin(project(t), "", two)
	a, b := m.worker("a", t.TempDir()), m.worker("b", t.TempDir())
	for _, w := range []*worker{a, a} {
		if err := w.trees.Prepare(t.Context(), w.row(t, taskID)); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.trees.Prepare(t.Context(), b.row(t, taskID)); err != nil {
		t.Fatal(err)
	}
	for _, w := range []*worker{a, b} {
		if text, err := os.ReadFile(filepath.Join(w.row(t, taskID).Tree, "cache")); err != nil || string(text) != "ran\n" {
			t.Errorf("on %s: %q, %v", w.name, text, err)
		}
	}
}

// A tree that an agent made unusable is made again.
func TestBrokenTrees(t *testing.T) {
	for name, harm := range map[string]func(top string) error{
		"its registration": func(top string) error { return os.RemoveAll(filepath.Join(top, "../../../.git/worktrees")) },
		"a link":           func(top string) error { return errors.Join(os.RemoveAll(top), os.Symlink("/etc", top)) },
		"a file":           func(top string) error { return errors.Join(os.RemoveAll(top), os.WriteFile(top, nil, 0o600)) },
		"no rights":        func(top string) error { return os.Chmod(filepath.Join(top, "sub"), 0) },
	} {
		t.Run(name, func(t *testing.T) {
			m := newTeam(t, working)
			m.begin(project(t), "", two)
			w := m.worker("a", t.TempDir())
			row := w.row(t, taskID)
			if err := w.trees.Prepare(t.Context(), row); err != nil {
				t.Fatal(err)
			}
			want := seen(row.Tree)
			if err := errors.Join(os.Remove(row.Tree+".at"), harm(row.Tree)); err != nil {
				t.Fatal(err)
			}
			if err := w.trees.Prepare(t.Context(), row); err != nil {
				t.Fatal(err)
			}
			if got := seen(row.Tree); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if info, err := os.Lstat(row.Tree); err != nil || !info.IsDir() {
				t.Errorf("%v, %v", info, err)
			}
		})
	}
}

// A record may be malicious: what it contains is accepted within limits, or not at all.
func TestHostileRecord(t *testing.T) {
	m := newTeam(t, working)
	row := m.begin(project(t), "", two)
	good, err := thread.NewReader(m.record).Files(t.Context(), row.Files)
	if err != nil {
		t.Fatal(err)
	}
	junk, _, err := m.record.Stage(context.Background(), "junk",
		strings.NewReader("# v2 git bundle\n-"+good.Commit+" \n-"+good.Commit+" \n\nPACK"))
	if err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(*thread.Files){
		"no bundle":     func(f *thread.Files) { f.Bundle = junk },
		"another tree":  func(f *thread.Files) { f.Tree = good.Commit },
		"no git object": func(f *thread.Files) { f.Commit = "--upload-pack=x" },
		"an option":     func(f *thread.Files) { f.Tree = "--exec=x" },
	} {
		bad := *good
		edit(&bad)
		node, err := thread.NewNode("tree", bad)
		if err != nil {
			t.Fatal(err)
		}
		evil := row
		evil.ID, evil.Task, evil.Root, evil.Files = "EVIL", "EVIL", "EVIL", node.Hash
		if err := m.record.Commit(t.Context(), store.Batch{Objects: []store.Object{node},
			Threads: []store.ThreadChange{{Row: evil}}}); err != nil {
			t.Fatal(err)
		}
		w := m.worker("a", t.TempDir())
		if err := w.trees.Prepare(t.Context(), w.row(t, "EVIL")); err == nil {
			t.Errorf("%s: no error", name)
		} else if _, err := os.Lstat(w.row(t, "EVIL").Tree); err == nil {
			t.Errorf("%s: there is a tree", name)
		}
		if err := m.record.Commit(t.Context(), store.Batch{Remove: []string{"EVIL"}}); err != nil {
			t.Fatal(err)
		}
	}
}

// Uploads report what workers will lack, and are limited in size.
func TestUpload(t *testing.T) {
	dir := project(t)
	files{".gitattributes": "*.bin filter=lfs diff=lfs\n"}.write(t, dir)
	inner := filepath.Join(dir, "lib")
	userGit(t, dir, "init", "-q", inner)
	files{"f": "x"}.write(t, inner)
	userGit(t, inner, "add", "f")
	userGit(t, inner, "commit", "-q", "-m", "x")
	userGit(t, dir, "-c", "advice.addEmbeddedRepo=false", "add", "lib")
	m := newTeam(t, housetest.Say("{}"))
	trees := worktree.New(worktree.Config{Store: m.record, Reader: thread.NewReader(m.record)})
	up, err := trees.Upload(t.Context(), worktree.Upload{Row: store.Thread{ID: taskID, Workspace: dir,
		Tree: filepath.Join(dir, "sub")}}, stageIn(m.record, "x"))
	if err != nil || up.Inside != "sub" || len(up.Notes) != 2 || !strings.Contains(up.Notes[0], "lib") ||
		!strings.Contains(up.Notes[1], ".gitattributes") {
		t.Errorf("%+v, %v", up, err)
	}
	if refs := userGit(t, dir, "for-each-ref", "refs/plait"); refs != "" {
		t.Errorf("refs are left:\n%s", refs)
	}
	_, err = trees.Upload(t.Context(), worktree.Upload{Row: store.Thread{ID: taskID, Workspace: dir}, Most: 100},
		stageIn(m.record, "x"))
	if !errors.Is(err, worktree.ErrUpload) {
		t.Errorf("of too much: %v", err)
	}
	_, err = trees.Upload(t.Context(), worktree.Upload{Row: store.Thread{ID: taskID, Workspace: t.TempDir()}},
		stageIn(m.record, "x"))
	if !errors.Is(err, worktree.ErrUpload) {
		t.Errorf("without git: %v", err)
	}
}
