package git_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/files/git"
)

// packed returns a bundle of the tree, and its bytes.
func packed(t testing.TB, r *git.Repo, tree, onto string) (git.Bundle, []byte) {
	t.Helper()
	b, f, err := r.Bundle(context.Background(), git.Packing{Ref: "refs/plait/t/files", Tree: tree, Onto: onto,
		Bounded: true})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return b, data
}

func takeIn(r *git.Repo, b git.Bundle, data []byte) error {
	return r.Unbundle(context.Background(), "refs/plait/t/files", b, bytes.NewReader(data))
}

// TestBundle moves every scene to another repository, and then a change to it.
func TestBundle(t *testing.T) {
	for i, x := range scenes() {
		for _, format := range []string{"sha1", "sha256"}[:max(1, 2-i)] {
			t.Run(format+"/"+x.name, func(t *testing.T) {
				t.Parallel()
				dir := commit(t, x.first, "--object-format="+format)
				x.then(t, dir)
				r := open(t, dir)
				first, data := packed(t, r, snapshot(t, r, ""), "")
				there := newDir(t)
				userGit(t, there, "init", "-q", "--object-format="+format)
				other := open(t, there)
				if err := takeIn(other, first, data); err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(treeFiles(t, dir, first.Tree), treeFiles(t, there, first.Tree)); d != "" {
					t.Errorf("-here +there\n%s", d)
				}
				files{"one more": "line"}.write(t, dir)
				next, more := packed(t, r, snapshot(t, r, ""), first.Commit)
				if next.Onto != first.Commit || len(more) > 2000 {
					t.Errorf("the next one, onto %q, has %d bytes", next.Onto, len(more))
				}
				if err := takeIn(other, next, more); err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(treeFiles(t, dir, next.Tree), treeFiles(t, there, next.Tree)); d != "" {
					t.Errorf("-here +there\n%s", d)
				}
				// It is a bundle that git itself reads.
				file := filepath.Join(newDir(t), "b")
				if err := os.WriteFile(file, data, 0o600); err != nil {
					t.Fatal(err)
				}
				userGit(t, there, "bundle", "verify", "--quiet", file)
			})
		}
	}
}

// TestBundleOntoNothing checks that a bundle has the whole tree if the previous commit is missing.
func TestBundleOntoNothing(t *testing.T) {
	r := open(t, commit(t, files{"a": "1"}))
	b, data := packed(t, r, snapshot(t, r, ""), strings.Repeat("ab", 20))
	if b.Onto != "" {
		t.Errorf("it is onto %s", b.Onto)
	}
	there := newDir(t)
	userGit(t, there, "init", "-q")
	if err := takeIn(open(t, there), b, data); err != nil {
		t.Error(err)
	}
}

// TestHostileBundles checks that bytes that are not the expected bundle leave nothing behind.
func TestHostileBundles(t *testing.T) {
	dir := commit(t, files{"a": "1", "d/b": strings.Repeat("text\n", 500)})
	r := open(t, dir)
	first, whole := packed(t, r, snapshot(t, r, ""), "")
	files{"a": "2"}.write(t, dir)
	next, thin := packed(t, r, snapshot(t, r, ""), first.Commit)
	split := bytes.Index(whole, []byte("\n\nPACK")) + 2
	type try struct {
		name string
		want git.Bundle
		data []byte
	}
	tries := []try{
		{"nothing", first, nil},
		{"no bundle", first, []byte("tree of files\n\n")},
		{"a header alone", first, whole[:split]},
		{"cut", first, whole[:len(whole)-30]},
		{"an endless header", first, append([]byte("# v2 git bundle\n"), bytes.Repeat([]byte("-x\n"), 1e6)...)},
		{"another commit", git.Bundle{Tree: first.Tree, Commit: next.Commit}, whole},
		{"another tree", git.Bundle{Tree: next.Tree, Commit: first.Commit}, whole},
		{"said to be whole", git.Bundle{Tree: next.Tree, Commit: next.Commit}, thin},
		{"another one before", git.Bundle{Tree: next.Tree, Commit: next.Commit, Onto: next.Commit}, thin},
		{"what it needs is not there", next, thin},
		{"a second ref", first, bytes.Replace(whole, []byte("\n\nPACK"),
			[]byte("\n"+first.Commit+" refs/heads/main\n\nPACK"), 1)},
		{"a header that lies", git.Bundle{Tree: next.Tree, Commit: next.Commit},
			append([]byte("# v2 git bundle\n"+next.Commit+" refs/plait/t/files\n\n"),
				thin[bytes.Index(thin, []byte("PACK")):]...)},
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 40 {
		bad := bytes.Clone(whole)
		bad[split+random.IntN(len(bad)-split)] ^= 1 << random.IntN(8)
		tries = append(tries, try{fmt.Sprintf("bit %d", i), first, bad})
	}
	file, err := hex.DecodeString(userGit(t, dir, "rev-parse", first.Tree+":a"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".git", ".GIT", "..", "a/b", "git~1"} {
		tree := plant(t, dir, "100644 "+name+"\x00"+string(file))
		c := userGit(t, dir, "commit-tree", tree, "-m", "x")
		userGit(t, dir, "update-ref", "refs/heads/bad", c)
		bundle := filepath.Join(newDir(t), "bad")
		userGit(t, dir, "bundle", "create", "-q", bundle, "refs/heads/bad")
		data, err := os.ReadFile(bundle)
		if err != nil {
			t.Fatal(err)
		}
		tries = append(tries, try{"a file called " + name, git.Bundle{Tree: tree, Commit: c}, data})
	}
	for _, x := range tries {
		t.Run(x.name, func(t *testing.T) {
			there := newDir(t)
			userGit(t, there, "init", "-q")
			if err := takeIn(open(t, there), x.want, x.data); err == nil {
				t.Error("it was taken in")
			}
			if left := userGit(t, there, "count-objects", "-v"); !strings.Contains(left, "count: 0") ||
				!strings.Contains(left, "packs: 0") {
				t.Errorf("it left %s", left)
			}
		})
	}
}

// plant writes a tree that git itself would not write.
func plant(t testing.TB, dir, tree string) string {
	t.Helper()
	file := filepath.Join(newDir(t), "tree")
	if err := os.WriteFile(file, []byte(tree), 0o600); err != nil {
		t.Fatal(err)
	}
	return userGit(t, dir, "hash-object", "-t", "tree", "-w", "--literally", file)
}

// TestBundleBomb checks that files that would fill a disk are refused.
func TestBundleBomb(t *testing.T) {
	dir := commit(t, files{"zeros": strings.Repeat("0", 10<<20)})
	r := open(t, dir)
	tree := snapshot(t, r, "")
	b, data := packed(t, r, tree, "")
	there := newDir(t)
	userGit(t, there, "init", "-q")
	defer git.BoundFiles(1 << 20)()
	if err := takeIn(open(t, there), b, data); err == nil || !strings.Contains(err.Error(), "over 1048576 bytes") {
		t.Errorf("%d bytes with 10 MiB in them: %v", len(data), err)
	}
	_, _, err := r.Bundle(t.Context(), git.Packing{Ref: "refs/plait/t/more", Tree: tree, Bounded: true})
	if !errors.Is(err, git.ErrRefused) {
		t.Errorf("they are bundled: %v", err)
	}
}
