package git_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/files/git"
)

// makeTree writes f as a tree into the repository, without its work tree.
func makeTree(t testing.TB, dir string, f files) string {
	t.Helper()
	at := newDir(t)
	f.write(t, filepath.Join(at, "w"))
	run := func(args ...string) string {
		cmd := exec.Command("git",
			append([]string{"--git-dir=" + filepath.Join(dir, ".git"), "--work-tree=.", "-c", "core.autocrlf=false"},
				args...)...)
		cmd.Dir = filepath.Join(at, "w")
		cmd.Env = append(os.Environ(), "GIT_INDEX_FILE="+filepath.Join(at, "index"))
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("git %q: %v", args, err)
		}
		return strings.TrimSpace(string(out))
	}
	if err := os.MkdirAll(filepath.Join(at, "w"), 0o755); err != nil {
		t.Fatal(err)
	}
	run("add", "-A", "-f")
	return run("write-tree")
}

// with returns f changed by g, where "" deletes.
func (f files) with(g files) files {
	out := files{}
	for _, from := range []files{f, g} {
		for path, text := range from {
			out[path] = text
			if text == "" {
				delete(out, path)
			}
		}
	}
	return out
}

func lines(text ...string) string { return strings.Join(text, "\n") + "\n" }

func TestMerge(t *testing.T) {
	long := lines("1", "2", "3", "4", "5", "6", "7", "8", "9")
	edited := func(from, to string) string { return strings.Replace(long, from, to, 1) }
	for _, tt := range []struct {
		name      string
		base      files
		into      files // changes to base, like the sides
		sides     []files
		want      files // changes to base
		taken     string
		conflicts map[string][]string
	}{
		{name: "no sides", base: files{"a": "1"}, into: files{"a": "2"}, want: files{"a": "2"}},
		{name: "nothing changed", base: files{"a": "1"}, into: files{"a": "2"}, sides: []files{{}},
			want: files{"a": "2"}},
		{name: "apart", base: files{"a": "1", "b": "1", "c": "1"}, into: files{"c": "2"},
			sides: []files{{"a": "2", "new/x": "3"}, {"b": ""}, {"y\nz": "4"}},
			want:  files{"a": "2", "new/x": "3", "b": "", "c": "2", "y\nz": "4"}, taken: "0 1 2"},
		{name: "one file, apart", base: files{"a": long},
			sides: []files{{"a": edited("1", "one")}, {"a": edited("9", "nine")}},
			want:  files{"a": strings.Replace(edited("9", "nine"), "1", "one", 1)}, taken: "0 1"},
		{name: "the same twice", base: files{"a": "1"}, sides: []files{{"a": "2"}, {"a": "2"}}, want: files{"a": "2"},
			taken: "0 1"},
		{name: "one file, together", base: files{"a": "1", "b": "1"}, sides: []files{{"a": "2"}, {"a": "3", "b": "3"},
			{"b": "4"}},
			want: files{"a": "2", "b": "4"}, taken: "0 2", conflicts: map[string][]string{"1": {"a"}}},
		{name: "with what the person did", base: files{"a": "1"}, into: files{"a": "2"},
			sides: []files{{"a": "3"}, {"b": "1"}},
			want:  files{"a": "2", "b": "1"}, taken: "1", conflicts: map[string][]string{"0": {"a"}}},
		{name: "both add", base: files{"a": "1"}, sides: []files{{"n\nl": "2"}, {"n\nl": "3"}},
			want: files{"n\nl": "2"}, taken: "0",
			conflicts: map[string][]string{"1": {"n\nl"}}},
		{name: "delete and change", base: files{"a": "1", "b": "1"}, sides: []files{{"a": "", "b": "2"}, {"a": "2"},
			{"b": ""}},
			want: files{"a": "", "b": "2"}, taken: "0", conflicts: map[string][]string{"1": {"a"}, "2": {"b"}}},
		{name: "binary", base: files{"a": "\x00" + long}, sides: []files{{"a": "\x00" + edited("1", "one")},
			{"a": "\x00" + edited("9", "nine")}},
			want: files{"a": "\x00" + edited("1", "one")}, taken: "0", conflicts: map[string][]string{"1": {"a"}}},
		{name: "renamed and changed", base: files{"a": long},
			sides: []files{{"a": "", "b": long}, {"a": edited("9", "nine")}},
			want:  files{"a": "", "b": edited("9", "nine")}, taken: "0 1"},
		{name: "renamed to two places", base: files{"a": long},
			sides: []files{{"a": "", "b": long}, {"a": "", "c": long}},
			want:  files{"a": "", "b": long}, taken: "0", conflicts: map[string][]string{"1": {"a", "b", "c"}}},
		{name: "directory renamed", base: files{"d/a": long, "d/b": long + "x"},
			sides: []files{{"d/a": "", "d/b": "", "e/a": long, "e/b": long + "x"}, {"d/new": "1"}},
			want:  files{"d/a": "", "d/b": "", "e/a": long, "e/b": long + "x"}, taken: "0",
			conflicts: map[string][]string{"1": {"e/new"}}},
		{name: "mode", base: files{"a": "exec:" + long}, sides: []files{{"a": "exec:" + edited("9", "nine")},
			{"a": "exec:" + edited("1", "one")}},
			want: files{"a": "exec:" + strings.Replace(edited("9", "nine"), "1", "one", 1)}, taken: "0 1"},
		{name: "file and directory", base: files{"x": "1"},
			sides: []files{{"a": "2"}, {"a/b": "3"}, {"a/c": "4", "d": "5"}},
			want:  files{"a": "2"}, taken: "0", conflicts: map[string][]string{"1": {"a"}, "2": {"a"}}},
		{name: "file becomes directory", base: files{"a": "1"}, sides: []files{{"a": "", "a/b": "2"}, {"c": "3"}},
			want: files{"a": "", "a/b": "2", "c": "3"}, taken: "0 1"},
		{name: "links", base: files{"l": "link:x", "f": "1"}, sides: []files{{"l": "link:y"}, {"l": "link:z"},
			{"f": "link:x"}, {"f": "2"}},
			want: files{"l": "link:y", "f": "link:x"}, taken: "0 2",
			conflicts: map[string][]string{"1": {"l"}, "3": {"f"}}},
		{name: "attributes", base: files{".gitattributes": "a -merge\nd/u merge=union\n", "a": long, "d/u": "1\n"},
			sides: []files{{"a": edited("1", "one"), "d/u": "1\n2\n"}, {"a": edited("9", "nine")}, {"d/u": "1\n3\n"}},
			want:  files{"a": edited("1", "one"), "d/u": "1\n2\n3\n"}, taken: "0 2",
			conflicts: map[string][]string{"1": {"a"}}},
		{name: "attributes of a side", base: files{"a": "1\n"},
			sides: []files{{"a": "1\n2\n"}, {"a": "1\n3\n", ".gitattributes": "* merge=union\n"}},
			want:  files{"a": "1\n2\n"}, taken: "0", conflicts: map[string][]string{"1": {"a"}}},
		{name: "line ends", base: files{".gitattributes": "* text=auto\n", "a": "1\r\n2\r\n"},
			sides: []files{{"a": "1\r\n3\r\n"}, {"b": "1\r\n"}},
			want:  files{"a": "1\r\n3\r\n", "b": "1\r\n"}, taken: "0 1"},
		{name: "case", base: files{"x": "1"}, sides: []files{{"readme": "1"}, {"README": "2"}},
			want: files{"readme": "1", "README": "2"}, taken: "0 1"},
	} {
		for _, format := range []string{"sha1", "sha256"} {
			t.Run(tt.name+"/"+format, func(t *testing.T) {
				t.Parallel()
				dir := commit(t, files{"unrelated": "1"}, "--object-format="+format)
				raw := func(f files) string { return makeTree(t, dir, f) }
				userGit(t, dir, "config", "core.autocrlf", "true") // must not matter
				before := state(t, dir)
				base := raw(tt.base)
				var sides []git.Side
				touched := map[string][]string{}
				for i, f := range tt.sides {
					name := string(rune('0' + i))
					sides = append(sides, git.Side{Name: name, Base: base, Tree: raw(tt.base.with(f))})
					for path := range f {
						touched[path] = append(touched[path], name)
					}
				}
				got, err := open(t, dir).Merge(context.Background(), raw(tt.base.with(tt.into)), sides)
				if err != nil {
					t.Fatal(err)
				}
				if want := raw(tt.base.with(tt.want)); got.Tree != want {
					t.Errorf("tree (-want +got):\n%s", cmp.Diff(treeFiles(t, dir, want), treeFiles(t, dir, got.Tree)))
				}
				if taken := strings.Join(got.Taken, " "); taken != tt.taken {
					t.Errorf("taken %q, want %q", taken, tt.taken)
				}
				conflicts := map[string][]string{}
				for _, c := range got.Conflicts {
					conflicts[c.Name] = c.Paths
				}
				want := tt.conflicts
				if want == nil {
					want = map[string][]string{}
				}
				if diff := cmp.Diff(want, conflicts); diff != "" {
					t.Errorf("conflicts (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(touched, got.Touched); diff != "" {
					t.Errorf("touched (-want +got):\n%s", diff)
				}
				if after := state(t, dir); after != before {
					t.Errorf("state was\n%s\nand is\n%s", before, after)
				}
			})
		}
	}
}

// state returns everything that Merge and Apply must leave alone.
func state(t testing.TB, dir string) string {
	t.Helper()
	index, err := os.ReadFile(filepath.Join(dir, ".git/index"))
	if err != nil {
		t.Fatal(err)
	}
	head, err := os.ReadFile(filepath.Join(dir, ".git/HEAD"))
	if err != nil {
		t.Fatal(err)
	}
	return string(index) + string(head) + userGit(t, dir, "for-each-ref")
}

func TestMergeOneModeChange(t *testing.T) {
	dir := commit(t, files{"unrelated": "1"})
	id := strings.Fields(userGit(t, dir, "ls-tree", "HEAD", "unrelated"))[2]
	tree := func(mode, text string) string {
		files{"in": text}.write(t, dir)
		return mkTree(t, dir, mode+" blob "+userGit(t, dir, "hash-object", "-w", "in")+"\ta")
	}
	old, changed := lines("1", "2", "3"), lines("1", "2", "4")
	base := tree("100644", old)
	got, err := open(t, dir).Merge(context.Background(), base, []git.Side{
		{Name: "mode", Base: base, Tree: tree("100755", old)},
		{Name: "text", Base: base, Tree: tree("100644", changed)}})
	if err != nil || len(got.Taken) != 2 || got.Tree != tree("100755", changed) {
		t.Errorf("%+v: %v (%s)", got, err, id)
	}
}

// mkTree makes a tree of entries that no index would accept.
func mkTree(t *testing.T, dir string, entries ...string) string {
	t.Helper()
	cmd := userCommand(dir, "mktree", "-z")
	cmd.Stdin = strings.NewReader(strings.Join(entries, "\x00") + "\x00")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// nested returns entries with a blob at the path.
func nested(t *testing.T, dir, path string) string {
	t.Helper()
	files{"in": "hostile"}.write(t, dir)
	entry := "100644 blob " + userGit(t, dir, "hash-object", "-w", "in")
	remove(t, filepath.Join(dir, "in"))
	parts := strings.Split(path, "/")
	for i := len(parts) - 1; i >= 0; i-- {
		entry += "\t" + parts[i]
		if i > 0 {
			entry = "040000 tree " + mkTree(t, dir, entry)
		}
	}
	return entry
}

// TestHostilePaths uses trees that no snapshot can be.
func TestHostilePaths(t *testing.T) {
	ctx := context.Background()
	for _, path := range []string{".git", ".git/hooks/pre-commit", "d/.git", "d/.GIT/config", "..", "../x", "d/../x",
		".", "d/./x", ".plait/x", ".Plait/x", "git~1/x"} {
		t.Run(strings.ReplaceAll(path, "/", "|"), func(t *testing.T) {
			t.Parallel()
			dir := commit(t, files{"a": "1"})
			r := open(t, dir)
			from := snapshot(t, r, "")
			ok := strings.Fields(userGit(t, dir, "ls-tree", from, "a"))[2]
			to := mkTree(t, dir, "100644 blob "+ok+"\ta", nested(t, dir, path))
			if err := r.Apply(ctx, from, to); !errors.Is(err, git.ErrRefused) {
				t.Errorf("Apply returned %v", err)
			}
			if err := r.Apply(ctx, to, from); !errors.Is(err, git.ErrRefused) {
				t.Errorf("Apply backwards returned %v", err)
			}
			if _, err := r.Merge(ctx, from, []git.Side{{Name: "x", Base: from, Tree: to}}); !errors.Is(err,
				git.ErrRefused) {
				t.Errorf("Merge returned %v", err)
			}
			if diff := cmp.Diff(files{"a": "1"}, readFiles(t, dir)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestMergeDriver uses a merge driver that an unprotected git is shown to run.
func TestMergeDriver(t *testing.T) {
	long := lines("1", "2", "3", "4", "5", "6", "7", "8", "9")
	first, last := strings.Replace(long, "1", "one", 1), strings.Replace(long, "9", "nine", 1)
	dir := commit(t, files{"a": long, ".gitattributes": "* merge=x\n"})
	marker := filepath.Join(newDir(t), "run")
	userGit(t, dir, "config", "merge.x.driver", "touch "+marker)
	userGit(t, dir, "config", "merge.default", "x")
	files{".git/info/attributes": "* merge=x\n"}.write(t, dir)
	r := open(t, dir)
	base := snapshot(t, r, "")
	one := makeTree(t, dir, files{"a": first, ".gitattributes": "* merge=x\n"})
	two := makeTree(t, dir, files{"a": last, ".gitattributes": "* merge=x\n"})
	got, err := r.Merge(context.Background(), base, []git.Side{{"one", base, one}, {"two", base, two}})
	if err != nil || len(got.Taken) != 2 || len(got.Conflicts) != 0 {
		t.Fatalf("%+v: %v", got, err)
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("the driver was run")
	}
	onto := func(tree string) string {
		return userGit(t, dir, "commit-tree", tree, "-p", "HEAD", "-m", "x")
	}
	userCommand(dir, "merge-tree", "--write-tree", onto(one), onto(two)).Run()
	if _, err := os.Stat(marker); err != nil {
		t.Error("git does not run the driver: this tests nothing")
	}
}
