package blame_test

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/app/blame"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/housetest"
	"github.com/plait-run/plait/internal/view"
)

// BenchmarkFile blames a file of 500, which many tasks of a step each have changed: 100 of them the same file, 10,000
// all in turn, without an index and with one.
func BenchmarkFile(b *testing.B) {
	for _, n := range []struct{ tasks, files int }{{100, 1}, {10_000, 500}} {
		b.Run(fmt.Sprintf("tasks=%d", n.tasks), func(b *testing.B) {
			w := newWorld(b, 1, 500, 20)
			text := w.history(n.tasks, n.files)
			r := blame.Reader{Repo: w.repo, View: &view.Reader{Store: w.store, Nodes: thread.NewReader(w.store)}}
			for _, index := range []string{"", filepath.Join(b.TempDir(), "index")} {
				r.Index = index
				b.Run(fmt.Sprintf("index=%t", index != ""), func(b *testing.B) {
					for b.Loop() {
						f, err := r.File(b.Context(), one, []byte(text))
						if err != nil || len(f.Steps) < n.tasks/n.files {
							b.Fatalf("%d steps: %v", len(f.Steps), err)
						}
					}
				})
			}
		})
	}
}

// history records tasks that each add a line to one of so many files, in turn, and returns what is in the first then.
func (w *world) history(tasks, files int) string {
	w.t.Helper()
	texts := make([]string, files)
	var in bytes.Buffer
	for n := range tasks {
		i := n % files
		path := fmt.Sprintf("pkg%d/file%d.go", i%10, i)
		if texts[i] == "" {
			texts[i] = textOf(w.files[path])
		}
		at := strings.Index(texts[i][len(texts[i])*(n%7)/7:], "\n") + 1 + len(texts[i])*(n%7)/7
		texts[i] = texts[i][:at] + fmt.Sprintf("\tresult%d := measure(%d)\n", n, n) + texts[i][at:]
		fmt.Fprintf(&in, "commit refs/plait/all\ncommitter a <a@example.com> %d +0000\ndata 0\n", n)
		if n == 0 {
			in.WriteString("from refs/heads/main^0\n")
		}
		fmt.Fprintf(&in, "M 100644 inline %s\ndata %d\n%s\n", path, len(texts[i]), texts[i])
	}
	cmd := exec.Command("git", "fast-import", "--quiet")
	cmd.Dir, cmd.Stdin = w.dir, &in
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("git fast-import: %v: %s", err, out)
	}
	trees := strings.Fields(w.git("log", "--reverse", "--format=%T", "refs/plait/all"))
	for i := range tasks {
		task := w.task()
		began := w.now
		w.now = w.now.Add(time.Second)
		housetest.Append(w.t.Context(), w.t, w.store, task.row, draft(&thread.Detail{TreeBefore: &trees[i],
			TreeAfter: &trees[i+1], StartedAt: began.UnixMilli(), EndedAt: w.now.UnixMilli()}))
	}
	return texts[0]
}
