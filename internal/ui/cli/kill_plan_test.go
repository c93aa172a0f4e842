package cli

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/store/sqlite"
	"github.com/plait-run/plait/internal/testing/housetest"
	"github.com/plait-run/plait/internal/testing/soak"
)

// newFix is a place with the broken module of examples/fix in a git repository, in which
// the real Codex works.
func newFix(t *testing.T) *place {
	t.Helper()
	codex, err := realCodex()
	if err != nil {
		t.Fatal(err)
	}
	p := newPlace(t)
	for i, kv := range p.env {
		if value, ok := strings.CutPrefix(kv, "PATH="); ok {
			p.env[i] = "PATH=" + codex + string(os.PathListSeparator) + value
		}
	}
	ws := filepath.Join(p.work, "ws")
	if err := os.RemoveAll(ws); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(ws, os.DirFS(filepath.Join("..", "..", "..", "examples", "fix", "broken"))); err != nil {
		t.Fatal(err)
	}
	p.git("init", "-q")
	p.git("add", "-A")
	p.git("commit", "-q", "-m", "broken")
	if err := housetest.GoCache(filepath.Join(p.work, "user", "cache", "plait", "tasks", killID, "cache")); err != nil {
		t.Fatal(err)
	}
	return p
}

// answerAll answers what waits for a person, until stop is closed.
func (p *place) answerAll(stop <-chan struct{}) {
	for {
		p.answerOnce()
		select {
		case <-stop:
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (p *place) answerOnce() {
	for _, g := range p.openGates() {
		if g.Kind == store.GateInput {
			p.run("gate", "answer", g.ID, "-m", "use port 8080")
		} else {
			p.run("gate", "approve", g.ID)
		}
	}
}

// openGates reads what waits for a person without plait: starting plait ten times a second just to ask would cost
// more than the work itself. It returns nothing if there is no record.
func (p *place) openGates() []store.Gate {
	home := filepath.Join(p.work, "home")
	if _, err := os.Stat(filepath.Join(home, "plait.db")); err != nil {
		return nil
	}
	s, err := sqlite.Open(p.t.Context(), sqlite.Config{Dir: home})
	if err != nil {
		return nil
	}
	defer s.Close()
	gates, err := s.Gates(p.t.Context(), store.GateFilter{State: store.GateOpen})
	if err != nil {
		return nil
	}
	return gates
}

// drive runs plait while its questions are answered, and kills it after a while.
func (p *place) drive(after time.Duration, args ...string) error {
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		p.answerAll(stop)
	}()
	err := p.strike(after, args...)
	close(stop)
	<-done
	p.answerOnce()
	return err
}

// attempts counts the tries at each step of a task, by thread and head, and checks that none came after
// the step. It ignores a try whose answer was rejected: the model of these tests cites evidence by the
// names of a first try, which may be wrong in a later one.
func (p *place) attempts(task string) map[string]int {
	p.t.Helper()
	tries, step, done := map[string]int{}, map[string]string{}, map[string]bool{}
	data, err := os.ReadFile(filepath.Join(p.work, "ws", ".plait", "tasks", task, "events.jsonl"))
	if err != nil {
		p.t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var ev struct {
			Type, Thread string
			Attempt      string
			Payload      struct{ From, Kind string }
		}
		if json.Unmarshal([]byte(line), &ev) != nil {
			continue
		}
		switch ev.Type {
		case "attempt.started":
			at := ev.Thread + "@" + ev.Payload.From
			tries[at]++
			step[ev.Attempt] = at
			if done[at] {
				p.t.Errorf("attempt %s runs again what is committed", ev.Attempt)
			}
		case "attempt.completed":
			done[step[ev.Attempt]] = true
		case "attempt.failed":
			if ev.Payload.Kind == string(store.FailureInvalidOutput) {
				tries[step[ev.Attempt]]--
			}
		}
	}
	return tries
}

// TestKillPlan kills plait at random times while a model plans and the real Codex works:
// three agents, one of them blocked on a question, one on a permission, and one patch
// that is merged. However often it is killed, the outcome is that of an undisturbed run.
func TestKillPlan(t *testing.T) {
	if _, err := realCodex(); err != nil {
		if ok, err := needCodex(); !ok {
			if err != nil {
				t.Fatal(err)
			}
			t.Skip("NOT TESTED: the real Codex is not installed")
		}
	}
	calm := newFix(t)
	began := time.Now()
	goal := []string{"run", "orchestrate", "-p", "Find and fix the failing test in this module", "--offline=fix", "-q",
		"--wait", "--id", killID}
	if err := calm.drive(-1, goal...); err != nil {
		t.Fatalf("undisturbed run: %v", err)
	}
	took := time.Since(began)
	want, _ := calm.run("thread", "show", killID, "--digest")
	steps := sorted(calm.committed())
	mended, err := os.ReadFile(filepath.Join(calm.work, "ws", "sum.go"))
	if err != nil || !strings.Contains(string(mended), "range numbers") {
		t.Fatalf("sum.go was not mended: %v\n%s", err, mended)
	}
	most := soak.Rounds(t, soak.Tries(8, 4)) // a kill of a plan takes 20 times as long as others
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d, an undisturbed run takes %v", seed, took)
	random := rand.New(rand.NewPCG(seed, 1))
	for kills, round := 0, 0; kills < most; round++ {
		p := newFix(t)
		args := goal
		killed := 0
		for {
			limit := time.Duration(-1)
			if kills+killed < most && killed < 12 {
				limit = time.Duration(random.Int64N(int64(took)))
			}
			err := p.drive(limit, args...)
			p.extends()
			status, _, found := p.thread(killID)
			if status == "completed" {
				break
			}
			if limit < 0 {
				shown, _ := p.run("task", "show", killID)
				t.Fatalf("seed %d, round %d: after %d kills the task is %s: %v\n%s", seed, round, killed, status, err, shown)
			}
			killed++
			if found {
				args = []string{"resume", killID, "-q", "--wait"}
			}
		}
		kills += killed
		if got, code := p.run("thread", "show", killID, "--digest"); code != 0 || got != want {
			t.Errorf("seed %d, round %d, %d kills: digest %q (exit code %d), want %q", seed, round, killed, got, code, want)
		}
		if got, err := os.ReadFile(filepath.Join(p.work, "ws", "sum.go")); string(got) != string(mended) {
			t.Errorf("seed %d, round %d, %d kills: sum.go is %q: %v", seed, round, killed, got, err)
		}
		for at, n := range p.attempts(killID) {
			if n > 1+killed {
				out, _ := p.run("thread", "log", killID, "--json", "--jq",
					`select(.type | startswith("attempt.")) | "\(.attempt) \(.type) \(.payload | tojson)"`)
				t.Errorf("seed %d, round %d: %d tries at %s after %d kills:\n%s", seed, round, n, at, killed, out)
			}
		}
		if got := sorted(p.committed()); !slices.Equal(got, steps) {
			t.Errorf("seed %d, round %d: steps %v, want %v", seed, round, got, steps)
		}
		if out, code := p.run("verify"); code != 0 {
			t.Errorf("seed %d, round %d: verify: exit code %d: %s", seed, round, code, out)
		}
		if left := processesIn(p.work); len(left) > 0 {
			t.Errorf("seed %d, round %d: processes are left: %v", seed, round, left)
		}
		if t.Failed() {
			return
		}
	}
	soak.Figure(t, "%d kills while a model plans and Codex works, same outcome digest, same files, "+
		"no committed step twice", most)
}

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}
