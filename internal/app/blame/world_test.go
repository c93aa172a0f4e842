package blame_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/app/blame"
	"github.com/plait-run/plait/internal/files/git"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/housetest"
	"github.com/plait-run/plait/internal/testing/mem"
	"github.com/plait-run/plait/internal/view"
)

// A line knows who wrote it: the name of a step, or "" for a person.
type line struct{ text, by string }

// A block is a function of a file. Its first line is its own; others may be as in any other.
type block struct {
	id    int
	lines []line
}

// A model is what files hold, by path. Blocks are not changed, but replaced.
type model map[string][]block

func (m model) copy() model {
	c := model{}
	for path, blocks := range m {
		c[path] = slices.Clone(blocks)
	}
	return c
}

func textOf(blocks []block) string {
	var b strings.Builder
	for _, f := range blocks {
		for _, l := range f.lines {
			b.WriteString(l.text + "\n")
		}
	}
	return b.String()
}

// merged returns what a three-way merge makes of a file, as long as no block was changed on both sides.
func merged(base, a, b []block) []block {
	of := func(list []block, id int) *block {
		if i := slices.IndexFunc(list, func(f block) bool { return f.id == id }); i >= 0 {
			return &list[i]
		}
		return nil
	}
	same := func(x, y *block) bool {
		return x != nil && y != nil && textOf([]block{*x}) == textOf([]block{*y})
	}
	var out []block
	for i := 0; i < len(a); i++ {
		was, there := of(base, a[i].id), of(b, a[i].id)
		switch {
		case was != nil && there == nil: // removed in b
		case was != nil && same(was, &a[i]):
			out = append(out, *there)
		default:
			out = append(out, a[i])
		}
		at := a[i].id
		for j := slices.IndexFunc(b, func(f block) bool { return f.id == at }) + 1; j > 0 && j < len(b) &&
			of(base, b[j].id) == nil && of(a, b[j].id) == nil; j++ {
			out = append(out, b[j])
		}
	}
	return out
}

// A world is a repository with people and agents who change it, and with a model of who wrote what.
type world struct {
	t       testing.TB
	dir     string
	repo    *git.Repo
	store   *mem.Store
	rng     *rand.Rand
	now     time.Time
	next    int
	files   model            // of the work tree
	commits map[string]model // by id
	tasks   int
	index   string // a file
}

func newWorld(t testing.TB, seed uint64, files, blocks int) *world {
	w := &world{t: t, dir: t.TempDir(), store: mem.New(mem.Config{}), rng: rand.New(rand.NewPCG(seed, 1)), files: model{},
		now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), commits: map[string]model{}}
	w.git("init", "-q")
	var err error
	if w.repo, err = git.Open(t.Context(), w.dir); err != nil {
		t.Fatal(err)
	}
	for i := range files {
		path := fmt.Sprintf("pkg%d/file%d.go", i%10, i)
		for range blocks {
			w.files[path] = append(w.files[path], w.block(""))
		}
	}
	w.write()
	w.commit("the beginning")
	return w
}

// git runs git as a person would, at the time of the world.
func (w *world) git(args ...string) string {
	w.t.Helper()
	out, err := w.tryGit(args...)
	if err != nil {
		w.t.Fatalf("git %q: %v: %s", args, err, out)
	}
	return out
}

func (w *world) tryGit(args ...string) (string, error) {
	w.now = w.now.Add(time.Minute)
	cmd := exec.Command("git", args...)
	cmd.Dir = w.dir
	at := w.now.Format(time.RFC3339)
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_DATE="+at, "GIT_COMMITTER_DATE="+at, "GIT_EDITOR=true")
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// write writes the model's files.
func (w *world) write() {
	w.t.Helper()
	w.now = w.now.Add(time.Minute)
	for path, blocks := range w.files {
		name := filepath.Join(w.dir, path)
		text := textOf(blocks)
		if old, err := os.ReadFile(name); err == nil && string(old) == text {
			continue
		}
		os.MkdirAll(filepath.Dir(name), 0o755)
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			w.t.Fatal(err)
		}
	}
}

// agrees reports whether the work tree is as the model says.
func (w *world) agrees() bool {
	for path, blocks := range w.files {
		data, _ := os.ReadFile(filepath.Join(w.dir, path))
		if string(data) != textOf(blocks) {
			return false
		}
	}
	return true
}

func (w *world) commit(message string, args ...string) string {
	w.t.Helper()
	w.git("add", "-A")
	w.git(append([]string{"commit", "-q", "--allow-empty", "-m", message}, args...)...)
	return w.committed()
}

func (w *world) committed() string {
	id := w.git("rev-parse", "HEAD")
	w.commits[id] = w.files.copy()
	return id
}

// common are lines that are in many places.
var common = [][]string{{"\tif err != nil {", "\t\treturn err", "\t}"}, {""}, {"\tdefer mu.Unlock()"}}

func (w *world) some(by string) []line {
	var out []line
	for range 1 + w.rng.IntN(3) {
		w.next++
		out = append(out, line{fmt.Sprintf("\tv%d := compute(%d, total)", w.next, w.rng.IntN(90)), by})
		if w.rng.IntN(3) == 0 {
			for _, text := range common[w.rng.IntN(len(common))] {
				out = append(out, line{text, by})
			}
		}
	}
	return out
}

func (w *world) block(by string) block {
	w.next++
	b := block{w.next, []line{{fmt.Sprintf("func f%d() error {", w.next), by}}}
	for range 2 {
		b.lines = append(b.lines, w.some(by)...)
	}
	b.lines = append(b.lines, line{"\treturn nil", by}, line{"}", by}, line{"", by})
	return b
}

// edit changes a file of the model at one place. within restricts it to blocks for which it is true.
func (w *world) edit(path, by string, within func(id int) bool) {
	blocks := slices.Clone(w.files[path])
	var may []int
	for i, b := range blocks {
		if within == nil || within(b.id) {
			may = append(may, i)
		}
	}
	if len(may) == 0 {
		return
	}
	i := may[w.rng.IntN(len(may))]
	lines := slices.Clone(blocks[i].lines)
	at := 1 + w.rng.IntN(len(lines)-3) // in the body, at the beginning of a statement
	for strings.HasPrefix(lines[at].text, "\t\t") || lines[at].text == "\t}" {
		at--
	}
	end := at + 1
	if strings.HasSuffix(lines[at].text, "{") {
		end = at + 3
	}
	switch w.rng.IntN(4) {
	case 0:
		w.files[path] = slices.Insert(blocks, i+1, w.block(by))
		return
	case 1:
		end = at
	case 2:
		if at+3 < len(lines)-3 && !strings.HasPrefix(lines[at+3].text, "\t\t") && lines[at+3].text != "\t}" {
			end = at + 3
		}
	}
	lines = slices.Replace(lines, at, end, w.some(by)...)
	blocks[i] = block{blocks[i].id, lines}
	w.files[path] = blocks
}

// A task is one of the world.
type task struct {
	w   *world
	row store.Thread
}

func (w *world) task() *task {
	w.tasks++
	w.now = w.now.Add(time.Minute)
	at := w.now.UnixMilli()
	row := housetest.Begin(w.t.Context(), w.t, w.store, store.Thread{ID: thread.FirstID(at), CreatedAt: at,
		Workspace: w.dir, Short: fmt.Sprintf("t%d", w.tasks)}, housetest.Bundle(w.t, housetest.TwoSteps("write")), "change it")
	return &task{w, row}
}

// name is what the next step will be called.
func (t *task) name() string { return fmt.Sprintf("%s/%d", t.row.Short, t.row.Steps+1) }

// step lets an agent do something to the model, and records it.
func (t *task) step(do func(by string)) {
	w := t.w
	w.t.Helper()
	w.write()
	before := w.snapshot()
	began := w.now
	do(t.name())
	w.write()
	after := w.snapshot()
	t.row = housetest.Append(w.t.Context(), w.t, w.store, t.row, draft(&thread.Detail{TreeBefore: &before,
		TreeAfter: &after, StartedAt: began.UnixMilli(), EndedAt: w.now.UnixMilli()}))
}

func draft(d *thread.Detail) thread.Draft {
	d.Agent, d.Attempts, d.Context = "go", []thread.EarlierAttempt{}, []thread.ContextUse{}
	return thread.Draft{Role: "second", Meta: json.RawMessage("{}"), Text: "done", Detail: d, At: d.EndedAt}
}

func (w *world) snapshot() string {
	w.now = w.now.Add(time.Minute)
	tree, err := w.repo.Snapshot(w.t.Context(), "")
	if err != nil {
		w.t.Fatal(err)
	}
	return tree
}

// A score is how many lines were attributed rightly, wrongly, and not.
type score struct{ right, wrong, unsure int }

// score blames all lines of files, and compares.
func (w *world) score(paths ...string) (s score) {
	w.t.Helper()
	for _, path := range paths {
		got, want := w.blame(path), w.lines(path)
		for i := range want {
			s.add(w.t, path, got[i], want[i])
		}
	}
	return s
}

// lines returns those of a file of the model.
func (w *world) lines(path string) (list []line) {
	for _, b := range w.files[path] {
		list = append(list, b.lines...)
	}
	return list
}

func (w *world) blame(path string) []blame.Line {
	w.t.Helper()
	data, err := os.ReadFile(filepath.Join(w.dir, path))
	if err != nil {
		w.t.Fatal(err)
	}
	r := blame.Reader{Index: w.index, Repo: w.repo, View: &view.Reader{Store: w.store, Nodes: thread.NewReader(w.store)}}
	f, err := r.File(w.t.Context(), path, data)
	if err != nil {
		w.t.Fatal(err)
	}
	if n := len(w.lines(path)); n != len(f.Lines) {
		w.t.Fatalf("%s: %d lines, want %d", path, len(f.Lines), n)
	}
	return f.Lines
}

func (s *score) add(t testing.TB, path string, got blame.Line, want line) {
	t.Helper()
	by := ""
	if got.By == blame.ByStep {
		by = got.Steps[0]
	}
	switch {
	case got.By == blame.ByUnsure:
		s.unsure++
	case by == want.by:
		s.right++
	default:
		s.wrong++
		t.Logf("%s:%d %q is of %q, not of %q", path, got.N, got.Text, want.by, by)
	}
}
