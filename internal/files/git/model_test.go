package git_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plait-run/plait/internal/files/git"
	"github.com/plait-run/plait/internal/testing/soak"
)

// TestMergeModel merges sides that change disjoint paths: the merged and applied
// files must be those that the changes themselves make, also after crashes.
func TestMergeModel(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dir := commit(t, files{"first": "1"})
	r := open(t, dir)
	empty := makeTree(t, dir, files{})
	if err := r.Apply(ctx, snapshot(t, r, ""), empty); err != nil {
		t.Fatal(err)
	}
	const owners = 3 // the last one is the person
	serial := 0
	soak.Checks(t, 20) // each runs git some sixty times
	rapid.Check(t, func(rt *rapid.T) {
		draw := func(owner int, label string) files {
			f := files{}
			for _, path := range []string{"a", "b\n", "d", "d/x", "d/y/z", "d/y", ".gitattributes", "e/.gitattributes",
				"e/x.txt"} {
				over := slices.ContainsFunc(slices.Collect(maps.Keys(f)),
					func(other string) bool { return strings.HasPrefix(path, other+"/") })
				kind := rapid.SampledFrom([]string{"", "", "", "text", "text", "exec:", "link:"}).Draw(rt, label+path)
				if kind == "" || over {
					continue
				}
				maps.DeleteFunc(f, func(other, _ string) bool { return strings.HasPrefix(other, path+"/") })
				serial++
				f[path] = fmt.Sprintf("%s%d\n%d\n", strings.TrimPrefix(kind, "text"), serial, serial*7)
				if strings.HasSuffix(path, ".gitattributes") {
					f[path] = fmt.Sprintf("*.txt text eol=crlf\n# %d\n", serial)
				}
			}
			own := files{}
			for path, text := range f {
				own[fmt.Sprintf("%d/%s", owner, path)] = text
				if path == "a" || path == "e/x.txt" {
					own[fmt.Sprintf("shared/%d%s", owner, strings.ReplaceAll(path, "/", "-"))] = text + "shared\n"
				}
			}
			return own
		}
		join := func(parts ...files) files {
			all := files{}
			for _, f := range parts {
				maps.Copy(all, f)
			}
			return all
		}
		var before, after []files
		for i := range owners {
			before = append(before, draw(i, fmt.Sprintf("before %d ", i)))
			after = append(after, before[i])
			if rapid.Bool().Draw(rt, "changes") {
				after[i] = draw(i, fmt.Sprintf("after %d ", i))
			}
		}
		base := makeTree(t, dir, join(before...))
		into := makeTree(t, dir, join(before[0], before[1], after[2]))
		sides := []git.Side{
			{Name: "0", Base: base, Tree: makeTree(t, dir, join(after[0], before[1], before[2]))},
			{Name: "1", Base: base, Tree: makeTree(t, dir, join(before[0], after[1], before[2]))},
		}
		got, err := r.Merge(ctx, into, sides)
		if err != nil || len(got.Conflicts) > 0 {
			rt.Fatalf("%+v: %v", got, err)
		}
		want := join(after...)
		if got.Tree != makeTree(t, dir, want) {
			rt.Fatalf("merged (-want +got):\n%s", cmp.Diff(want, treeFiles(t, dir, got.Tree)))
		}
		if err := r.Apply(ctx, empty, into); err != nil {
			rt.Fatal(err)
		}
		for range 3 {
			n := rapid.IntRange(0, 12).Draw(rt, "crash")
			if _, err := r.ApplyUntil(ctx, into, got.Tree, n, func() {}); err != nil {
				rt.Fatalf("crash before %d: %v", n, err)
			}
		}
		if err := r.Apply(ctx, into, got.Tree); err != nil {
			rt.Fatal(err)
		}
		if tree := snapshot(t, r, ""); tree != got.Tree {
			rt.Fatalf("applied (-want +got):\n%s", cmp.Diff(want, treeFiles(t, dir, tree)))
		}
		if err := r.Apply(ctx, got.Tree, empty); err != nil {
			rt.Fatal(err)
		}
		if left := readFiles(t, dir); len(left) > 0 {
			rt.Fatalf("left: %v", left)
		}
	})
}

// TestApplyCrash crashes at each point of a change that has all kinds of moves.
func TestApplyCrash(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	from := files{".gitattributes": "*.txt text eol=crlf\n", ".gitignore": "*.x\n", "a.txt": "1\n", "b.txt": "1\n",
		"d/e": "1", "f": "1", "g/.gitignore": "y\n",
		"l": "link:d", "x.txt": "1\n"}
	to := files{".gitattributes": "a.txt text eol=lf\n", ".gitignore": "*.txt\n", "a.txt": "2\n", "b.txt": "",
		"c.x": "1", "d/e": "", "d": "link:a.txt", "f": "",
		"f/.gitignore": "z\n", "f/y": "exec:", "g/.gitignore": "", "g": "2", "l": "", "l/n": "3", "x.txt": "3\n"}
	for n, all := 0, 1; n <= all; n++ {
		dir := commit(t, from)
		for path := range from {
			remove(t, filepath.Join(dir, path))
		}
		userGit(t, dir, "checkout", "--", ".") // with the line endings that the attributes ask for
		r := open(t, dir)
		base, target := snapshot(t, r, ""), makeTree(t, dir, from.with(to))
		var err error
		if all, err = r.ApplyUntil(ctx, base, target, n, func() {}); err != nil {
			t.Fatal(err)
		}
		if all != len(to) {
			t.Fatalf("%d moves for %d changes", all, len(to))
		}
		if err := r.Apply(ctx, base, target); err != nil {
			t.Errorf("after %d of %d: %v", n, all, err)
		}
		if got := snapshot(t, r, ""); got != target {
			t.Errorf("after %d of %d (-want +got):\n%s", n, all, cmp.Diff(from.with(to), treeFiles(t, dir, got)))
		}
	}
}

// TestApplyMeanwhile changes files between the look and the move.
func TestApplyMeanwhile(t *testing.T) {
	ctx := context.Background()
	from, to := files{"a": "1", "d/x": "1", "d/y": "1"}, files{"a": "2", "d/x": "2", "d/y": "", "n": "3"}
	for _, tt := range []struct {
		name string
		then func(t *testing.T, dir, away string)
		want files
	}{
		{"written", func(t *testing.T, dir, _ string) { files{"a": "mine"}.write(t, dir) }, files{"a": "mine"}},
		{"made", func(t *testing.T, dir, _ string) { files{"n": "mine"}.write(t, dir) }, files{"n": "mine"}},
		{"written what is to go", func(t *testing.T, dir, _ string) { files{"d/y": "mine"}.write(t, dir) },
			files{"d/y": "mine"}},
		{"a link out", func(t *testing.T, dir, away string) {
			if err := os.Rename(filepath.Join(dir, "d"), filepath.Join(dir, "old")); err != nil {
				t.Fatal(err)
			}
			files{"d": "link:" + away}.write(t, dir)
		}, files{"d": "link:"}},
		{"a link within", func(t *testing.T, dir, _ string) {
			files{"e/x": "1", "e/y": "1"}.write(t, dir)
			remove(t, filepath.Join(dir, "d"))
			files{"d": "link:e"}.write(t, dir)
		}, files{"d": "link:e", "e/x": "1", "e/y": "1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, away := commit(t, from), newDir(t)
			files{"x": "1", "y": "1"}.write(t, away)
			r := open(t, dir)
			base, target := snapshot(t, r, ""), makeTree(t, dir, from.with(to))
			if _, err := r.ApplyUntil(ctx, base, target, 10, func() { tt.then(t, dir, away) }); err == nil {
				t.Error("not noticed")
			} else if len(tt.want) == 1 && !strings.HasPrefix(tt.want["d"], "link:") &&
				!errors.Is(err, git.ErrChanged) {
				t.Errorf("noticed as %v", err)
			}
			got := readFiles(t, dir)
			for path, text := range tt.want {
				if !strings.HasPrefix(got[path], text) {
					t.Errorf("%s is %q, want %q", path, got[path], text)
				}
			}
			if diff := cmp.Diff(files{"x": "1", "y": "1"}, readFiles(t, away)); diff != "" {
				t.Errorf("written outside: %s", diff)
			}
		})
	}
}
