package git_test

import (
	"context"
	"errors"
	"testing"

	"github.com/plait-run/plait/internal/files/git"
)

func TestKeptBranches(t *testing.T) {
	dir := commit(t, files{"a": "1"})
	r, ctx := open(t, dir), context.Background()
	tree := makeTree(t, dir, files{"a": "2"})
	commits := map[string]string{}
	for _, name := range []string{"plait/t/left", "plait/t/merged", "plait/t/stood", "plait/t/touched"} {
		made, err := r.Branch(ctx, name, tree, "", "m of "+name, noon)
		if err != nil {
			t.Fatal(err)
		}
		commits[name] = made
	}
	userGit(t, dir, "branch", "other", "plait/t/merged")
	userGit(t, dir, "worktree", "add", "-q", t.TempDir()+"/stand", "plait/t/stood")
	userGit(t, dir, "checkout", "-q", "plait/t/touched")
	userGit(t, dir, "commit", "-q", "--allow-empty", "-m", "mine")
	userGit(t, dir, "checkout", "-q", "other")
	list, err := r.Branches(ctx)
	if err != nil || len(list) != 4 {
		t.Fatalf("%+v, %v", list, err)
	}
	for i, want := range []git.KeptBranch{
		{Name: "plait/t/left", Ours: true}, {Name: "plait/t/merged", Ours: true, Reached: true},
		{Name: "plait/t/stood", Ours: true, CheckedOut: true}, {Name: "plait/t/touched"},
	} {
		if want.Commit = commits[want.Name]; i == 3 {
			want.Commit = userGit(t, dir, "rev-parse", want.Name)
		}
		if list[i] != want {
			t.Errorf("%+v, want %+v", list[i], want)
		}
	}
	for name, commit := range map[string]string{"plait/t/stood": commits["plait/t/stood"],
		"plait/t/touched": commits["plait/t/touched"], "other": commits["plait/t/merged"],
		"plait/t/none": commits["plait/t/left"]} {
		if err := r.DropBranch(ctx, name, commit); !errors.Is(err, git.ErrRefused) {
			t.Errorf("%s: %v, want it refused", name, err)
		}
	}
	if err := r.DropBranch(ctx, "plait/t/left", commits["plait/t/left"]); err != nil {
		t.Error(err)
	}
	if got := userGit(t, dir, "branch", "--list", "plait/*", "--format=%(refname:short)"); got !=
		"plait/t/merged\nplait/t/stood\nplait/t/touched" {
		t.Errorf("left are %q", got)
	}
}
