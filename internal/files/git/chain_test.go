package git_test

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/files/git"
)

const chainRef = "refs/plait/checkpoints"

// add adds a commit with a file to a chain.
func add(t testing.TB, c git.Chain, text string) {
	t.Helper()
	files := map[string][]byte{"a": []byte(text), "b": nil}
	if err := c.Add(context.Background(), files, text, time.Unix(7, 0)); err != nil {
		t.Fatal(err)
	}
}

// newest checks what a chain has.
func newest(t testing.TB, c git.Chain, want string) {
	t.Helper()
	got, err := c.Files(context.Background(), "a", "b")
	if err != nil || string(got[0]) != want || len(got[1]) != 0 {
		t.Errorf("%s has %q, want %q: %v", c, got, want, err)
	}
}

func TestChain(t *testing.T) {
	dir := commit(t, files{"x": "1"})
	head := userGit(t, dir, "rev-parse", "HEAD")
	c := git.Chain{Repo: open(t, dir), Ref: chainRef}
	if _, err := c.Files(t.Context(), "a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty chain: %v", err)
	}
	add(t, c, "one")
	add(t, c, "two")
	newest(t, c, "two")
	if _, err := c.Files(t.Context(), "c"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	if got := userGit(t, dir, "log", "--format=%an %at %s", chainRef); got != "Plait 7 two\nPlait 7 one" {
		t.Errorf("the commits are %q", got)
	}
	if now := userGit(t, dir, "rev-parse", "HEAD"); now != head || userGit(t, dir, "status", "--porcelain") != "" {
		t.Error("something else has changed")
	}
}

// TestChainOfARemote keeps a chain on a remote, with two clones, and reads it from there, whatever the clone says.
func TestChainOfARemote(t *testing.T) {
	remote := filepath.Join(newDir(t), "remote.git")
	userGit(t, newDir(t), "init", "-q", "--bare", remote)
	clone := func() (string, git.Chain) {
		dir := commit(t, files{"x": "1"})
		userGit(t, dir, "remote", "add", "origin", remote)
		return dir, git.Chain{Repo: open(t, dir), Ref: chainRef, Remote: "origin"}
	}
	dir, ours := clone()
	_, theirs := clone()
	if _, err := ours.Files(t.Context(), "a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty chain: %v", err)
	}
	add(t, ours, "one")
	newest(t, theirs, "one")
	add(t, theirs, "two")
	userGit(t, dir, "update-ref", "-d", chainRef+"-origin")
	newest(t, ours, "two")
	add(t, ours, "three")
	if got := userGit(t, remote, "log", "--format=%s", chainRef); got != "three\ntwo\none" {
		t.Errorf("the remote has %q", got)
	}
	if got := userGit(t, remote, "for-each-ref", "--format=%(refname)"); got != chainRef {
		t.Errorf("the remote has %s", got)
	}
	for name, says := range map[string]string{"gone": "does not appear to be a git repository", "": "has no remote",
		"ext::sh -c x": "want a URL"} {
		if name != "" {
			userGit(t, dir, "remote", "set-url", "origin", strings.Replace(name, "gone", filepath.Join(remote, "gone"), 1))
		}
		c := git.Chain{Repo: open(t, dir), Ref: chainRef, Remote: "origin"}
		if name == "" {
			c.Remote = "other"
		}
		_, err := c.Files(t.Context(), "a")
		if err == nil || !strings.Contains(err.Error(), says) || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %v", name, err)
		}
	}
}
