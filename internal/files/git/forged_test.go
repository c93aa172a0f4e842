package git_test

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/files/git"
)

// forge replaces an object's name in an index and corrects the checksum.
func forge(t *testing.T, index, from, to string) {
	t.Helper()
	data, err := os.ReadFile(index)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := hex.DecodeString(from)
	b, _ := hex.DecodeString(to)
	if !bytes.Contains(data, a) {
		t.Fatal("nothing to forge")
	}
	body := bytes.Replace(data[:len(data)-sha1.Size], a, b, 1)
	sum := sha1.Sum(body)
	if err := os.WriteFile(index, append(body, sum[:]...), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestForgedIndex uses an index that claims that a changed file is unchanged.
func TestForgedIndex(t *testing.T) {
	ctx := context.Background()
	dir := commit(t, files{"a": "1"})
	r := open(t, dir)
	at := checkout(t, r, snapshot(t, r, "")).Root()
	// The content of one file under the name and times of another.
	old := userGit(t, at, "rev-parse", ":a")
	files{"a": "2"}.write(t, at)
	long := time.Now().Add(-time.Hour) // otherwise git would look again, since the file is so recent
	if err := os.Chtimes(filepath.Join(at, "a"), long, long); err != nil {
		t.Fatal(err)
	}
	userGit(t, at, "add", "a")
	forged := userGit(t, at, "rev-parse", ":a")
	index := filepath.Join(userGit(t, at, "rev-parse", "--absolute-git-dir"), "index")
	forge(t, index, forged, old)
	if got := treeFiles(t, dir, snapshot(t, open(t, at), "")); got["a"] != "1" {
		t.Errorf("the index is not well forged: a snapshot has %v", got)
	}
	if err := open(t, at).Apply(ctx, makeTree(t, dir, files{"a": "1"}), makeTree(t, dir, files{"a": "3"})); !errors.Is(
		err, git.ErrChanged) {
		t.Errorf("Apply over the changed file returned %v", err)
	}
	tree, err := r.Remove(ctx, at, "refs/plait/t/1", git.Caches{})
	if err != nil {
		t.Fatal(err)
	}
	if got := treeFiles(t, dir, tree); got["a"] != "2" {
		t.Errorf("kept %v", got)
	}
}
