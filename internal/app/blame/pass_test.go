package blame

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/files/git"
)

// TestAsGit gives lines of a file with few different lines from version to version, joins among them, and compares
// with git blame on the same as commits.
func TestAsGit(t *testing.T) {
	dir := t.TempDir()
	run := func(in string, args ...string) string {
		t.Helper()
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(in)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	run("", "init", "-q")
	repo, err := git.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	made, err := repo.Annotator()
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close()
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 7))
		h := newHistory(made, versions{})
		var all []*version
		commits := map[*version]string{}
		texts := map[*version][]string{}
		for n := range 12 {
			v := &version{step: &step{n: n}}
			args := []string{"commit-tree", "-m", fmt.Sprint(n)}
			for i := 0; i < 1+n%2 && len(all) > 0; i++ {
				p := all[len(all)-1-rng.IntN(min(len(all), 3))]
				if i == 1 && p == v.parents[0] {
					continue
				}
				v.parents, args = append(v.parents, p), append(args, "-p", commits[p])
				texts[v] = append(texts[v][:len(texts[v])/(i+1):len(texts[v])/(i+1)], texts[p][len(texts[p])*i/2:]...)
			}
			for range 4 {
				at := rng.IntN(len(texts[v]) + 1)
				texts[v] = append(texts[v][:at:at], append([]string{fmt.Sprint(rng.IntN(9))}, texts[v][at:]...)...)
			}
			text := strings.Join(texts[v], "\n") + strings.Repeat("\n", n%3%2)
			v.blob = run(text, "hash-object", "-w", "--stdin")
			tree := run("100644 blob "+v.blob+"\tfile\n", "mktree")
			all, commits[v] = append(all, v), run("", append(args, tree)...)
		}
		for _, v := range all {
			lines, err := h.version(t.Context(), v)
			if err != nil {
				t.Fatal(err)
			}
			want := strings.Split(run("", "blame", "-s", "-l", "--root", commits[v], "--", "file"), "\n")
			if len(want) != len(lines) {
				t.Fatalf("seed %d, version %d: %d lines, want %d", seed, v.step.n, len(lines), len(want))
			}
			for i, l := range lines {
				if id, _, _ := strings.Cut(want[i], " "); id != commits[all[l.steps[0].n]] {
					t.Errorf("seed %d, version %d: line %d of %q is of %d: %s", seed, v.step.n, i+1, texts[v], l.steps[0].n, want[i])
				}
			}
		}
	}
}
