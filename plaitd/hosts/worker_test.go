package hosts

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/plaitd/pgtest"
)

var teamArgs = []string{"run", "team.yaml", "-p", "go", "-q", "--id", taskID}

// worker starts a worker on the host, and returns once it serves.
func (h *host) worker(more ...string) *process {
	h.t.Helper()
	p := h.begin(append([]string{"worker", "--name", h.name, "--max-agents", "4"}, more...)...)
	h.until("worker "+h.name+" serves", func() bool {
		select {
		case <-p.ended:
			h.t.Fatalf("worker %s has ended", h.name)
		default:
		}
		return strings.Contains(p.said.String(), "worker "+h.name+": engine")
	})
	return p
}

// status returns the status of the task.
func (h *host) status() string {
	var one struct{ Data struct{ Status string } }
	h.read(&one, "thread", "show", taskID, "--json")
	return one.Data.Status
}

// TestWorkers has three workers drive a task that a person's host records, and kills one after the other meanwhile:
// the outcome is that of a run on one machine.
func TestWorkers(t *testing.T) {
	server := pgtest.Shared(t)
	needHosts(t)
	want := alone(t, writeSplit, teamArgs...)
	m := newTeam(t, newRecord(t, server), impatient+"=2s")
	person := m.host("person")
	writeSplit(person)
	for _, name := range []string{"a", "b", "c"} {
		m.host(name).worker()
	}
	person.must(append(teamArgs, "--on", control.OnTeam)...)
	if got := digest(person); got != want {
		t.Errorf("digest %s, on one machine %s", got, want)
	}
	if got := m.log(); len(got) != splitSteps {
		t.Errorf("%d agents were started, of %d: %q", len(got), splitSteps, got)
	}
	person.must("verify")
}

// TestWorkerDies kills a worker while its agent is at work. Another continues, and a worker that is told to stop
// ends its step first.
func TestWorkerDies(t *testing.T) {
	server := pgtest.Shared(t)
	needHosts(t)
	m := newTeam(t, newRecord(t, server), impatient+"=2s")
	person, a, b := m.host("person"), m.host("a"), m.host("b")
	person.write("six.yaml", strings.ReplaceAll(six("while [ ! -e ../go ]; do sleep 0.01; done"), "description:",
		"retry: {interrupted: true}, description:"))
	person.must("run", "six.yaml", "-p", "go", "-q", "-d", "--id", taskID, "--on", control.OnTeam)
	first := a.worker()
	m.until("the fourth step begins", func() bool { return slices.Contains(m.log(), "d") })
	first.kill()
	second := b.worker()
	m.until("another worker has taken over", func() bool { return len(m.log()) > 4 })
	second.cmd.Process.Signal(syscall.SIGTERM)
	person.write("../../go", "")
	<-second.ended
	if code := second.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("a worker that was told to stop: exit code %d", code)
	}
	if got := m.log(); !slices.Equal(got, []string{"a", "b", "c", "d", "d"}) {
		t.Errorf("agents were started for %q", got)
	}
	third := a.worker()
	m.until("the task ends", func() bool { return person.status() == "completed" })
	third.kill()
	if got := m.log(); !slices.Equal(got, []string{"a", "b", "c", "d", "d", "e", "f"}) {
		t.Errorf("agents were started for %q", got)
	}
	person.must("verify")
}

// TestCancelOnTeam cancels a task that workers drive, from a host without one: its agents end, and the task with them.
func TestCancelOnTeam(t *testing.T) {
	server := pgtest.Shared(t)
	m, person := newGrid(t, newRecord(t, server), impatient+"=10s")
	var workers []*process
	for _, name := range []string{"a", "b"} {
		workers = append(workers, m.host(name).worker("--engine", onRiver))
	}
	person.must("run", "grid.yaml", "-p", "go", "-q", "-d", "--id", taskID, "--on", control.OnTeam)
	m.until("an agent is at work", func() bool { return len(m.log()) > 0 })
	person.must("cancel", taskID)
	m.until("the task is cancelled", func() bool { return person.status() == "cancelled" })
	for _, p := range workers {
		p.cmd.Process.Signal(syscall.SIGTERM)
		<-p.ended
	}
	if left := agentsOf(m.work); len(left) > 0 {
		t.Errorf("agents are left: %q", left)
	}
	person.must("verify")
}
