package place_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/engine/attempt"
	"github.com/plait-run/plait/internal/files/place"
	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/housetest"
	"github.com/plait-run/plait/internal/testing/mem"
)

// TestMain gives git its own home directory: the configuration of the machine's user must not matter.
func TestMain(m *testing.M) {
	flag.Parse()
	home := housetest.GitHome(testing.Short(), "")
	if home == "" {
		return
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(home)
		os.Exit(code)
	}))
}

// files maps paths to file contents.
type files map[string]string

func (f files) write(t testing.TB, dir string) {
	t.Helper()
	for name, text := range f {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// userGit runs git as a person would.
func userGit(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// project makes a person's repository with a commit and uncommitted changes.
func project(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	userGit(t, dir, "init", "-q")
	files{"README": "read me\n", "sub/old": "old\n", ".gitignore": "cache\n"}.write(t, dir)
	userGit(t, dir, "add", "-A")
	userGit(t, dir, "commit", "-q", "-m", "first")
	files{"README": "read me, changed\n", "new": "not committed\n", "cache": "stays here\n"}.write(t, dir)
	return dir
}

// A worker is a machine with a place; it shares nothing with others but the record.
type worker struct {
	name   string
	dir    string
	place  *place.Place
	store  store.Store
	trees  *worktree.Trees
	engine *engine.Engine
	ended  []string // tasks of which all was removed
}

// A team is a record and what its agents do.
type team struct {
	t       testing.TB
	record  *mem.Store
	agents  housetest.Role
	remotes map[string]string
	setup   []string
	breaks  func(machine string, s store.Store) store.Store // nil: the record works for all

	mu   sync.Mutex
	runs []string // role on machine, in the order they began
}

func newTeam(t testing.TB, do housetest.Role) *team {
	s := mem.New(mem.Config{})
	t.Cleanup(func() { s.Close() })
	return &team{t: t, record: s, agents: do}
}

// worker starts a machine in a directory.
func (m *team) worker(name, dir string) *worker {
	m.t.Helper()
	w := &worker{name: name, dir: dir}
	var err error
	var s store.Store = m.record.Share()
	if m.breaks != nil {
		s = m.breaks(name, s)
	}
	ended := func(task string) error { w.ended = append(w.ended, task); return nil }
	if w.place, err = place.New(place.Config{Dir: dir, Store: s, Remotes: m.remotes, Ended: ended}); err != nil {
		m.t.Fatal(err)
	}
	w.store = w.place.Store()
	reader := thread.NewReader(w.store)
	w.trees = worktree.New(worktree.Config{Store: w.store, Reader: reader, Place: w.place, Setup: m.setup})
	w.engine = engine.New(engine.Config{
		Store: w.store, Reader: reader, Desks: housetest.BareDesks{}, Trees: w.trees,
		Claim: engine.ThreadClaim{Store: w.store}, Backoff: time.Microsecond,
		WorkerBackoff: engine.Backoff{First: 1},
		Agents:        m.cast(name), Host: attempt.Host{Name: name, Boot: "1"}, Worker: name,
	})
	return w
}

// cast returns the agents of a machine.
func (m *team) cast(host string) attempt.Agents {
	do := housetest.Role(func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		m.mu.Lock()
		m.runs = append(m.runs, req.Role+" on "+host)
		m.mu.Unlock()
		return m.agents(ctx, req, emit)
	})
	return attempt.Agents{Defined: map[string]flow.Agent{"do": {Kind: "do"}}, Default: "do",
		Make: func(string, flow.Agent, attempt.AgentOptions) (agent.Agent, error) { return do, nil }}
}

const taskID = "01JD0000000000000000000000"

// begin uploads a person's directory and begins a task with it.
func (m *team) begin(dir, remote string, flows ...string) store.Thread {
	m.t.Helper()
	ctx := context.Background()
	trees := worktree.New(worktree.Config{Store: m.record, Reader: thread.NewReader(m.record)})
	up, err := trees.Upload(ctx, worktree.Upload{Row: store.Thread{ID: taskID, Workspace: dir}, Remote: remote},
		stageIn(m.record, taskID))
	if err != nil {
		m.t.Fatal(err)
	}
	if err := m.record.Commit(ctx, store.Batch{Objects: up.Objects}); err != nil {
		m.t.Fatal(err)
	}
	ws, err := place.Workspace("shop")
	if err != nil {
		m.t.Fatal(err)
	}
	return housetest.Begin(ctx, m.t, m.record, store.Thread{ID: taskID, CreatedAt: 1, Workspace: ws, Files: up.Files,
		Tree: worktree.TreeIn(ws, taskID, up.Inside), Options: json.RawMessage(`{"limits":{},"keepFiles":true}`)},
		housetest.Bundle(m.t, flows...), "go")
}

// step makes a machine drive one thread that can be driven now, and reports whether there was one.
func (w *worker) step(ctx context.Context, task string) (bool, error) {
	agenda, err := w.engine.Reconcile(ctx, task)
	if err != nil || len(agenda.Drive) == 0 {
		return false, err
	}
	_, err = w.engine.Drive(ctx, agenda.Drive[0])
	return true, err
}

// breakDown lets a machine work until it fails with an error, and removes its directory.
func (w *worker) breakDown(t testing.TB, want error) {
	t.Helper()
	for {
		if _, err := w.step(t.Context(), taskID); errors.Is(err, want) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.RemoveAll(w.dir); err != nil {
		t.Fatal(err)
	}
}

// row returns a thread's row as the machine sees it.
func (w *worker) row(t testing.TB, id string) store.Thread {
	t.Helper()
	row, err := w.store.Thread(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return row
}

// digest returns the outcome digest of the task and the git tree of its files.
func (m *team) digest() (dag.Hash, string) {
	m.t.Helper()
	r := thread.NewReader(m.record)
	row, err := m.record.Thread(context.Background(), taskID)
	if err != nil {
		m.t.Fatal(err)
	}
	if row.Status != store.Completed {
		rows, _ := m.record.Threads(context.Background(), store.ThreadFilter{Task: taskID})
		for _, r := range rows {
			m.t.Logf("%s %s %s %+v", r.ID, r.Kind, r.Status, r.Reason)
		}
		m.t.Fatalf("the task is %s: %+v", row.Status, row.Reason)
	}
	d, err := r.Digest(context.Background(), row.Head)
	if err != nil {
		m.t.Fatal(err)
	}
	trees := worktree.New(worktree.Config{Store: m.record, Reader: r})
	left, err := trees.Left(context.Background(), row.Head, dag.Hash{})
	if err != nil {
		m.t.Fatal(err)
	}
	return d, left
}

// seen returns the files of a directory with their content, without those of git and Plait.
func seen(dir string) string {
	var all []string
	filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, path)
		switch {
		case err != nil:
			return err
		case rel == ".git" || rel == ".plait" || rel == "cache":
			if d.IsDir() {
				return filepath.SkipDir
			}
		case d.Type().IsRegular():
			text, _ := os.ReadFile(path)
			all = append(all, fmt.Sprintf("%s: %s", rel, strings.TrimSpace(string(text))))
		}
		return nil
	})
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// working is an agent that lists the files it sees, and changes one if its role begins with "write".
func working(_ context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
	text := "---\n$status: done\n---\n" + seen(req.Dir)
	if strings.HasPrefix(req.Role, "write") {
		name := filepath.Join(req.Dir, req.Role)
		old, _ := os.ReadFile(name)
		line := fmt.Sprintf("%s visit %d\n", req.Role, req.Visit)
		if err := os.WriteFile(name, append(old, line...), 0o644); err != nil {
			return agent.Result{}, err
		}
		os.WriteFile(filepath.Join(req.Dir, "cache"), []byte("of "+req.Role), 0o644)
	}
	return housetest.Answer(req, emit, text)
}

// stageIn keeps blobs in a store, pinned.
func stageIn(s store.Store, pin string) func(io.Reader) (dag.Hash, error) {
	return func(r io.Reader) (dag.Hash, error) {
		h, _, err := s.Stage(context.Background(), pin, r)
		return h, err
	}
}
