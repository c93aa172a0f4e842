package hosts

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/plaitd/pgtest"
	"github.com/plait-run/plait/plaitd/postgres"
)

// engineEnv names the engine that workers share: river, or another that is available.
const engineEnv = "PLAIT_HOSTS_ENGINE"

func engineName() string { return cmp.Or(os.Getenv(engineEnv), onRiver) }

// A witness reads the record of a team from outside.
type witness struct {
	*postgres.Store
	t testing.TB
}

func newWitness(t testing.TB, url string) witness {
	t.Helper()
	s, err := postgres.Open(context.WithoutCancel(t.Context()), postgres.Config{URL: url, Look: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return witness{s, t}
}

// sees waits for an event of the task.
func (w witness) sees(what string, is func(store.Event) bool) store.Event {
	w.t.Helper()
	return w.seesOf(taskID, what, is)
}

// seesOf waits for an event of a task.
func (w witness) seesOf(task, what string, is func(store.Event) bool) store.Event {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Minute)
	defer cancel()
	for pos := int64(0); ; {
		events, err := w.Events(ctx, pos, store.EventFilter{Task: task})
		if err != nil {
			w.t.Fatalf("waited in vain: %s: %v", what, err)
		}
		for _, e := range events {
			if pos = e.Pos; is(e) {
				return e
			}
		}
		if _, err := w.Wait(ctx, pos); err != nil {
			w.t.Fatalf("waited in vain: %s: %v", what, err)
		}
	}
}

// hostOf returns where an attempt runs, once its process has started.
func (w witness) hostOf(attempt string) (host string) {
	w.t.Helper()
	for end := time.Now().Add(time.Minute); host == ""; time.Sleep(5 * time.Millisecond) {
		a, err := w.Attempt(w.t.Context(), attempt)
		if err != nil || time.Now().After(end) {
			w.t.Fatalf("attempt %s has no process: %v", attempt, err)
		}
		host = a.Host
	}
	return host
}

// ended waits until the task has ended, and answers its questions.
func (w witness) ended() store.Thread {
	w.t.Helper()
	w.sees("the task ends", func(e store.Event) bool {
		return strings.HasPrefix(e.Type, "task.") && slices.ContainsFunc([]string{"completed", "failed", "canceled"},
			func(state string) bool { return e.Type == "task."+state })
	})
	row, err := w.Thread(w.t.Context(), taskID)
	if err != nil {
		w.t.Fatal(err)
	}
	return row
}

// once checks that each step was taken once, that nothing runs any more, and that there were more attempts than
// steps only where some were interrupted. It returns the number of steps, and of interrupted attempts.
func (w witness) once() (steps, lost int) {
	w.t.Helper()
	attempts, err := w.Attempts(w.t.Context(), store.AttemptFilter{Task: taskID})
	if err != nil {
		w.t.Fatal(err)
	}
	made := map[string]bool{}
	for _, a := range attempts {
		switch at := a.Thread + a.From.String(); a.Status {
		case store.AttemptDone:
			if made[at] {
				w.t.Errorf("thread %s has two steps after %s", a.Thread, a.From.Short())
			}
			made[at] = true
		case store.AttemptRunning:
			w.t.Errorf("attempt %s of %s runs for ever", a.ID, a.Role)
		default:
			lost++
		}
	}
	return len(made), lost
}

// codexOnPath puts the real Codex first in the hosts' PATH.
func (m *team) codexOnPath() {
	cache := cmp.Or(os.Getenv("XDG_CACHE_HOME"), filepath.Join(os.Getenv("HOME"), ".cache"))
	found, _ := filepath.Glob(filepath.Join(cache, "plait/codex/*/node_modules/@openai/codex-*/vendor/*/bin"))
	if len(found) == 0 {
		if os.Getenv("CI") != "" {
			m.t.Fatal("Codex is not installed: make setup")
		}
		m.t.Skip("NOT TESTED: Codex is not installed: make setup")
	}
	m.onPath(found[0])
}

// onPath makes all hosts look for programs in a directory first.
func (m *team) onPath(dir string) {
	for i, kv := range m.env {
		if path, ok := strings.CutPrefix(kv, "PATH="); ok {
			m.env[i] = "PATH=" + dir + string(os.PathListSeparator) + path
		}
	}
}

// TestTeam has three workers do a real task: a planner and three concurrent agents, all of them the real Codex with a
// scripted model. One worker is killed while its agents are at work. The outcome is that of a run on one machine, and
// no step was taken twice.
func TestTeam(t *testing.T) {
	server := pgtest.Shared(t)
	needHosts(t)
	args := []string{"run", "orchestrate", "-p", "Look at this repository", "--offline", "-q", "--id", taskID}
	project := func(h *host) {
		h.write("README", "A small repository.\n")
		h.write("small.go", "// Package small is small.\npackage small\n")
		repository(h)
	}
	t.Log("on one machine first: orchestrate, with the real Codex and a scripted model")
	want := alone(t, func(h *host) { h.codexOnPath(); project(h) }, args...)
	t.Logf("outcome digest %s", want[:12])
	t.Logf("now on a team: Postgres at %s, engine %s", server.Addr(), engineName())
	record := newRecord(t, server)
	m := newTeam(t, record, impatient+"="+teamSilence.String())
	m.codexOnPath()
	workers := map[string]*process{}
	for _, name := range []string{"a", "b", "c"} {
		h := m.host(name)
		project(h)
		h.mortal = true
		workers[name] = h.worker("--engine", engineName(), "--max-agents", "2")
		t.Logf("worker %s serves, on a host with a disk of its own", name)
	}
	person := m.host("person")
	project(person)
	person.must(append(args, "-d", "--on", control.OnTeam)...)
	t.Log("a person has begun the task with --on team, and left")
	w := newWitness(t, strings.TrimPrefix(record, recordAt+"="))
	began := 0
	at := w.sees("two agents of the plan are at work", func(e store.Event) bool {
		if event.Is(e, event.AttemptStarted{}) && e.Thread != taskID {
			began++
		}
		return began == 2
	})
	host := w.hostOf(at.Attempt)
	workers[host].kill()
	killed := time.Now()
	t.Logf("two agents of the plan are at work; worker %s was killed with its agents (kill -9)", host)
	next := w.sees("another worker goes on", func(e store.Event) bool {
		return event.Is(e, event.AttemptStarted{}) && e.Thread == at.Thread && e.Attempt != at.Attempt
	})
	t.Logf("worker %s makes that step now, %v after the kill; silence counts as death after %v here, after %v by default",
		w.hostOf(next.Attempt), time.Since(killed).Round(100*time.Millisecond), teamSilence, store.LeaseTTL)
	if row := w.ended(); row.Status != store.Completed {
		t.Fatalf("the task is %s: %+v", row.Status, row.Reason)
	}
	steps, lost := w.once()
	if lost == 0 {
		t.Error("no attempt was cut off")
	}
	if got := digest(person); got != want {
		t.Errorf("digest %s, on one machine %s", got, want)
	}
	person.must("verify")
	if !t.Failed() {
		t.Logf("the task is completed: %d steps, each made once, %d attempts cut off; outcome digest %s, as on one "+
			"machine; verify finds nothing wrong",
			steps, lost, want[:12])
	}
}

// teamSilence is how long a worker may be silent before it counts as dead.
const teamSilence = 3 * time.Second
