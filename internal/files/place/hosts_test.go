package place_test

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/files/worktree"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/housetest"
)

const shop = `
version: 1
name: shop
roles:
  write-plan: {description: d, access: write}
  write-left: {description: d, access: write}
  write-more: {description: d, access: write}
  write-right: {description: d, access: write}
  look: {description: d}
  middle: {flow: sub}
  write-report: {description: d, access: write}
forks:
  both:
    forkPaths:
      - {pathId: a, childNodeId: write-left}
      - {pathId: b, childNodeId: write-right}
      - {pathId: c, childNodeId: look}
joins:
  met: {forkPathIds: [a, b, c], mainPathId: c}
graph:
  $START: {new: {role: write-plan, prompt: "{{ prompt }}"}}
  write-plan: {done: {role: both}}
  write-left: {done: {role: write-more, prompt: "on"}}
  write-more: {done: {role: met}}
  write-right: {done: {role: met}}
  look: {done: {role: met}}
  met: {joined: {role: middle, prompt: "call"}}
  middle: {done: {role: write-report, prompt: "on"}}
  write-report: {done: {role: $END}}
`

const sub = `
version: 1
name: sub
roles: {write-dig: {description: d, access: write}, watch: {description: d}}
graph:
  $START: {new: {role: write-dig, prompt: "{{ prompt }}"}}
  write-dig: {done: {role: watch, prompt: "on"}}
  watch: {done: {role: $END, prompt: "clean"}}
`

// alone drives the flow on a single machine, in a person's directory.
func alone(t *testing.T) (digest, tree string) {
	t.Helper()
	dir := project(t)
	m := newTeam(t, working)
	reader := thread.NewReader(m.record)
	e := engine.New(engine.Config{Store: m.record, Reader: reader, Desks: housetest.BareDesks{}, Agents: m.cast("home"),
		Trees: worktree.New(worktree.Config{Store: m.record, Reader: reader})})
	housetest.Begin(t.Context(), t, m.record, store.Thread{ID: taskID, CreatedAt: 1, Workspace: dir,
		Options: json.RawMessage(`{"limits":{},"keepFiles":true}`)}, housetest.Bundle(t, shop, sub), "go")
	if _, err := e.Run(t.Context(), taskID); err != nil {
		t.Fatal(err)
	}
	d, tree := m.digest()
	return d.String(), tree
}

// However the threads of a task are distributed over machines that share nothing but the record, and whichever of them
// lose their disks, the outcome and the files are the same.
func TestThreeMachines(t *testing.T) {
	digest, tree := alone(t)
	for i := range 3 {
		m := newTeam(t, working)
		m.begin(project(t), "", shop, sub)
		var workers []*worker
		for _, name := range []string{"a", "b", "c"} {
			workers = append(workers, m.worker(name, t.TempDir()))
		}
		lost := 0
		for turn := 0; ; turn++ {
			w := workers[rand.IntN(3)]
			did, err := w.step(t.Context(), taskID)
			if err != nil {
				t.Fatal(err)
			}
			if w.row(t, taskID).Ended() {
				break
			}
			if !did && turn > 200 {
				t.Fatalf("nothing goes on: %v", m.runs)
			}
			if i%2 == 1 && rand.IntN(3) == 0 { // its disk is lost; the machine starts again with an empty one
				if err := os.RemoveAll(w.dir); err != nil {
					t.Fatal(err)
				}
				lost++
				workers[w.name[0]-'a'] = m.worker(w.name, w.dir)
			}
		}
		d, left := m.digest()
		if d.String() != digest || left != tree {
			t.Errorf("%d disks lost: digest %s, want %s; tree %s, want %s; %v", lost, d, digest, left, tree, m.runs)
		}
		if len(m.runs) != 8 {
			t.Errorf("agents ran %d times for 8 steps: %v", len(m.runs), m.runs)
		}
	}
}

// The same with machines that work concurrently.
func TestThreeMachinesAtOnce(t *testing.T) {
	digest, tree := alone(t)
	m := newTeam(t, working)
	m.begin(project(t), "", shop, sub)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for _, name := range []string{"a", "b", "c"} {
		w := m.worker(name, t.TempDir())
		wg.Go(func() {
			for ctx.Err() == nil {
				did, err := w.step(ctx, taskID)
				if err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
				row, err := w.store.Thread(ctx, taskID)
				if err != nil || row.Ended() {
					return
				}
				if !did {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	wg.Wait()
	d, left := m.digest()
	if d.String() != digest || left != tree {
		t.Errorf("digest %s, want %s; tree %s, want %s; %v", d, digest, left, tree, m.runs)
	}
}

// What a path did counts only once a join has merged it, even if the conversation continues through the path.
func TestFailedPathsLeaveNothing(t *testing.T) {
	const text = `
version: 1
name: failing
roles:
  write-plan: {description: d, access: write}
  write-left: {description: d, access: write}
  write-right: {description: d, access: write}
  fail: {description: d}
  write-report: {description: d, access: write}
forks: {both: {forkPaths: [{pathId: a, childNodeId: write-left}, {pathId: b, childNodeId: write-right}]}}
joins: {met: {forkPathIds: [a, b], mainPathId: a, joinStrategy: ALL_FAILED}}
graph:
  $START: {new: {role: write-plan, prompt: "{{ prompt }}"}}
  write-plan: {done: {role: both}}
  write-left: {done: {role: fail, prompt: "on"}}
  fail: {done: {role: met}}
  write-right: {done: {role: fail, prompt: "on"}}
  met: {joined: {role: write-report, prompt: "on"}}
  write-report: {done: {role: $END}}
`
	m := newTeam(t, func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		result, err := working(ctx, req, emit)
		if req.Role == "fail" {
			result.Output = []byte(strings.Replace(string(result.Output), "status: done", "status: failed", 1))
		}
		return result, err
	})
	m.begin(project(t), "", text)
	a, b := m.worker("a", t.TempDir()), m.worker("b", t.TempDir())
	for w := a; !a.row(t, taskID).Ended(); {
		if did, err := w.step(t.Context(), taskID); err != nil || !did && a.row(t, taskID).Status == store.Blocked {
			t.Fatal(err, a.row(t, taskID).Reason)
		}
		if len(m.runs) == 3 {
			w = b
		}
	}
	files := seen(b.row(t, taskID).Tree)
	if strings.Contains(files, "write-left") || strings.Contains(files, "write-right") ||
		!strings.Contains(files, "write-report") {
		t.Errorf("the files are\n%s", files)
	}
}

// If an agent is interrupted because its machine is gone, what it did is not there where the step is done again.
func TestHalfAStepIsLeftBehind(t *testing.T) {
	broken := errors.New("the machine is gone")
	first := true
	m := newTeam(t, func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		if req.Role == "write-right" && first {
			first = false
			os.WriteFile(filepath.Join(req.Dir, "half"), []byte("half"), 0o644)
			return agent.Result{}, broken
		}
		return working(ctx, req, emit)
	})
	m.begin(project(t), "", shop, sub)
	a, b := m.worker("a", t.TempDir()), m.worker("b", t.TempDir())
	a.breakDown(t, broken)
	b.finish(t)
	if digest, tree := m.digest(); tree == "" || strings.Contains(seen(b.row(t, taskID).Tree), "half") {
		t.Errorf("digest %s, files:\n%s", digest, seen(b.row(t, taskID).Tree))
	}
}

const three = `
version: 1
name: three
roles:
  write-one: {description: d, access: write}
  write-two: {description: d, access: write}
  write-three: {description: d, access: write}
graph:
  $START: {new: {role: write-one, prompt: "{{ prompt }}"}}
  write-one: {done: {role: write-two, prompt: "on"}}
  write-two: {done: {role: write-three, prompt: "on"}}
  write-three: {done: {role: $END}}
`

// What an interrupted agent did is not there for a later step on its machine either, if the step was done again
// elsewhere and changed nothing.
func TestHalfAStepIsNotCarriedOn(t *testing.T) {
	broken := errors.New("the machine is gone")
	tries := map[string]int{}
	m := newTeam(t, func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
		tries[req.Role]++
		switch {
		case req.Role == "write-two" && tries[req.Role] == 1:
			os.WriteFile(filepath.Join(req.Dir, "half"), []byte("half"), 0o644)
			return agent.Result{}, broken
		case req.Role == "write-two":
			return housetest.Answer(req, emit, "---\n$status: done\n---\nnothing to do")
		case req.Role == "write-three" && tries[req.Role] == 1:
			return agent.Result{}, broken
		}
		return working(ctx, req, emit)
	})
	m.begin(project(t), "", three)
	a, b := m.worker("a", t.TempDir()), m.worker("b", t.TempDir())
	for _, w := range []*worker{a, b} {
		for {
			if _, err := w.step(t.Context(), taskID); errors.Is(err, broken) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
	a = m.worker("a", a.dir)
	a.finish(t)
	m.digest() // it is completed
	if files := seen(a.row(t, taskID).Tree); strings.Contains(files, "half") {
		t.Errorf("the files are\n%s", files)
	}
}

// noJoin is a record that fails when the step of a join is committed.
type noJoin struct{ store.Store }

var errGone = errors.New("the machine is gone")

func (s noJoin) Commit(ctx context.Context, b store.Batch) error {
	if slices.ContainsFunc(b.Events, func(e store.Event) bool { return event.Is(e, event.ThreadJoined{}) }) {
		return errGone
	}
	return s.Store.Commit(ctx, b)
}

// A machine and its disk are lost after it has recorded the decision for a join and changed the files, before the join
// is committed as a step: what it merged was nowhere else, so another machine merges again.
func TestMergedElsewhere(t *testing.T) {
	want, tree := alone(t)
	m := newTeam(t, working)
	m.breaks = func(machine string, s store.Store) store.Store {
		if machine == "a" {
			return noJoin{s}
		}
		return s
	}
	m.begin(project(t), "", shop, sub)
	a, b := m.worker("a", t.TempDir()), m.worker("b", t.TempDir())
	a.breakDown(t, errGone)
	if row := b.row(t, taskID); !strings.Contains(string(row.Decision), `"merge":{`) {
		t.Fatalf("it was not merging: %s", row.Decision)
	}
	b.finish(t)
	if digest, left := m.digest(); digest.String() != want || left != tree {
		t.Errorf("digest %s, on one machine %s; files %s, on one machine %s", digest, want, left, tree)
	}
}
