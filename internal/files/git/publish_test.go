package git

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestPublish commits to a branch in the person's name, pushes it, and follows what others push.
func TestPublish(t *testing.T) {
	t.Setenv("GIT_AUTHOR_NAME", "Ann")
	t.Setenv("GIT_AUTHOR_EMAIL", "ann@example.com")
	t.Setenv("GIT_COMMITTER_NAME", "Ann")
	t.Setenv("GIT_COMMITTER_EMAIL", "ann@example.com")
	work, bare, other := t.TempDir(), filepath.Join(t.TempDir(), "bare.git"), filepath.Join(t.TempDir(), "other")
	run := func(dir string, args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=Bob", "-c", "user.email=b@example.com"}, args...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	write := func(dir, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run("", "init", "-q", "--bare", "-b", "main", bare)
	run(work, "init", "-q", "-b", "main")
	write(work, "one\n")
	run(work, "add", ".")
	run(work, "commit", "-qm", "one")
	run(work, "remote", "add", "origin", bare)
	for _, upstream := range []string{"", "main"} {
		if upstream != "" {
			run(work, "push", "-q", "-u", "origin", "main")
		}
		r, err := Open(t.Context(), work)
		if err != nil {
			t.Fatal(err)
		}
		has, follows, err := r.OnRemote(t.Context(), "origin", run(work, "rev-parse", "HEAD"))
		if err != nil || has != (upstream != "") || follows != upstream {
			t.Errorf("on the remote: %t, %s, %v; want %q", has, follows, err, upstream)
		}
	}
	// What a repository says to run is not run.
	hook := filepath.Join(work, ".git", "hooks", "reference-transaction")
	if err := os.MkdirAll(filepath.Dir(hook), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(hook, []byte("#!/bin/sh\ntouch "+work+"/ran\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	run(work, "config", "gpg.program", work+"/evil")
	ctx := t.Context()
	r, err := Open(ctx, work)
	if err != nil {
		t.Fatal(err)
	}
	head, err := r.Head(ctx)
	if err != nil {
		t.Fatal(err)
	}
	write(work, "two\n")
	tree, err := r.Snapshot(ctx, "refs/plait/x/attempt-1")
	if err != nil {
		t.Fatal(err)
	}
	if base, err := r.BaseOf(ctx, "refs/plait/x/", tree); err != nil || base != head {
		t.Errorf("base %s, %v; want %s", base, err, head)
	}
	const branch = "plait/x"
	made, err := r.CommitAs(ctx, Draft{Branch: branch, Parent: head, Tree: tree, Message: "two\n\nPlait-Task: x\n"})
	if err != nil {
		t.Fatal(err)
	}
	list, err := r.History(ctx, branch)
	if err != nil || len(list) != 2 || list[0].ID != made || list[0].Parent != head || list[1].Parent != "" ||
		!strings.HasPrefix(list[0].Message, "two\n\nPlait-Task: x") {
		t.Fatalf("history %+v, %v", list, err)
	}
	if by := run(work, "log", "-1", "--format=%an %cn", branch); by != "Ann Ann" {
		t.Errorf("the commit is by %s", by)
	}
	if now := run(work, "rev-parse", "HEAD"); now != head || run(work, "status", "--porcelain") != "M a.txt" {
		t.Error("HEAD or the index has changed")
	}
	for range 2 {
		if err := r.Push(ctx, "origin", branch); err != nil {
			t.Fatal(err)
		}
	}

	run("", "clone", "-q", "-b", branch, bare, other)
	run(other, "commit", "-q", "--allow-empty", "-m", "by Bob")
	run(other, "push", "-q", "origin", branch)
	if err := r.Follow(ctx, "origin", branch); err != nil {
		t.Fatal(err)
	}
	if list, err = r.History(ctx, branch); err != nil || len(list) != 3 || list[0].Message != "by Bob\n" {
		t.Fatalf("followed: %+v, %v", list, err)
	}
	if _, err := r.CommitAs(ctx, Draft{Branch: branch, Parent: made, Tree: tree, Message: "x\n"}); !errors.Is(err, ErrRefused) {
		t.Errorf("a commit beside the branch: %v", err)
	}
	run(other, "commit", "-q", "--allow-empty", "-m", "more by Bob")
	run(other, "push", "-q", "origin", branch)
	if _, err := r.CommitAs(ctx, Draft{Branch: branch, Parent: list[0].ID, Tree: tree, Message: "own\n"}); err != nil {
		t.Fatal(err)
	}
	if err := r.Follow(ctx, "origin", branch); !errors.Is(err, ErrRefused) {
		t.Errorf("both sides have commits: %v", err)
	}
	if err := r.Push(ctx, "origin", branch); err == nil {
		t.Error("a push overwrote what others pushed")
	}
	for _, name := range []string{"main", "plait/../main", "plait/a b"} {
		if err := r.Push(ctx, "origin", name); !errors.Is(err, ErrRefused) {
			t.Errorf("push %s: %v", name, err)
		}
	}
	if _, err := os.Stat(filepath.Join(work, "ran")); err == nil {
		t.Error("a hook ran")
	}
}

// TestCommitAs commits with the name and the key that the user's settings have for this repository, in its format, and
// with their program.
func TestCommitAs(t *testing.T) {
	work, home := t.TempDir(), t.TempDir()
	for _, name := range []string{"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"} {
		t.Setenv(name, "")
		os.Unsetenv(name)
	}
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", "")
	key := filepath.Join(home, "key")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen: %v: %s", err, out)
	}
	for name, text := range map[string]string{
		".gitconfig": "[user]\n\tname = Home\n\temail = home@example.com\n" +
			"[includeIf \"gitdir:" + work + "/\"]\n\tpath = work\n",
		"work": "[user]\n\tname = Work\n\tsigningKey = " + key + "\n[commit]\n\tgpgSign\n[gpg \"ssh\"]\n\tprogram = " +
			home + "/sign\n",
		"sign": "#!/bin/sh\ntouch " + home + "/ran\nexec ssh-keygen \"$@\"\n",
	} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("git", append([]string{"-C", work}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
		return string(out)
	}
	run("init", "-q")
	run("config", "gpg.format", "ssh")
	run("config", "gpg.ssh.program", "false")
	r, err := Open(t.Context(), work)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := r.Snapshot(t.Context(), "refs/plait/x/attempt-1")
	if err != nil {
		t.Fatal(err)
	}
	made, err := r.CommitAs(t.Context(), Draft{Branch: "plait/x", Tree: tree, Message: "one\n"})
	if err != nil {
		t.Fatal(err)
	}
	if got := run("cat-file", "commit", made); !strings.Contains(got, "author Work <home@example.com>") ||
		!strings.Contains(got, "BEGIN SSH SIGNATURE") {
		t.Errorf("got %s", got)
	}
	if _, err := os.Stat(filepath.Join(home, "ran")); err != nil {
		t.Error("the user's program did not sign")
	}
}
