package hosts

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/view"
	"github.com/plait-run/plait/plaitd/pgtest"
)

// stands returns how the list of tasks displays the task.
func (h *host) stands() view.Display {
	var list struct {
		Data struct {
			Tasks []struct {
				ID      string
				Display view.Display
			}
		}
	}
	h.read(&list, "ls", "--json")
	for _, x := range list.Data.Tasks {
		if x.ID == taskID {
			return x.Display
		}
	}
	return view.Display{}
}

// TestLostWorkerIsWaitedFor: what a lost worker has left waits for a worker that can do it, and needs a person only if
// no worker serves any more.
func TestLostWorkerIsWaitedFor(t *testing.T) {
	server := pgtest.Shared(t)
	needHosts(t)
	m := newTeam(t, newRecord(t, server), impatient+"=2s")
	person, a, b := m.host("person"), m.host("a"), m.host("b")
	a.mortal = true
	person.write("six.yaml", strings.ReplaceAll(six("while [ ! -e ../go ]; do sleep 0.01; done"), "description:",
		"retry: {interrupted: true}, description:"))
	person.must("run", "six.yaml", "-p", "go", "-q", "-d", "--id", taskID, "--on", control.OnTeam, "--needs", "gpu")
	if got := person.stands(); got.State != view.DisplayNeedsYou || got.Reason != "no worker serves: start one" {
		t.Errorf("without any worker: %+v", got)
	}
	able, other := a.worker("--labels", "gpu"), b.worker()
	m.until("the fourth step begins", func() bool { return slices.Contains(m.log(), "d") })
	able.kill()
	var got view.Display
	m.until("it waits for another worker", func() bool {
		got = person.stands()
		return got.Reason != ""
	})
	// The worker may have been killed between starting the agent and the commit that says where it works.
	want := regexp.MustCompile(`^waiting for a worker with gpu: (a|the one that had it) was lost, last heard of `)
	if got.State != view.DisplayRunning || !want.MatchString(got.Reason) {
		t.Errorf("its worker is lost: %+v, want %s…", got, want)
	}
	other.kill()
	m.until("no worker serves", func() bool {
		got = person.stands()
		return got.State == view.DisplayNeedsYou
	})
	if got.Reason != "no worker serves: start one" {
		t.Errorf("no worker serves: %+v", got)
	}
	person.write("../../go", "")
	b.worker("--labels", "gpu")
	m.until("the task ends", func() bool { return person.status() == "completed" })
	person.must("verify")
}

// TestLogOfAnOutage: while Postgres is down a worker logs it once, and once when it is back.
func TestLogOfAnOutage(t *testing.T) {
	needHosts(t)
	server := pgtest.Start(t, pgtest.Config{})
	m := newTeam(t, newRecord(t, server))
	person := m.host("person")
	writeSplit(person)
	p := m.host("a").worker("--engine", onRiver)
	server.Stop(pgtest.Immediate)
	says := func(what string) {
		m.until("the worker says "+what, func() bool { return strings.Contains(p.said.String(), what) })
	}
	says("record is away")
	time.Sleep(8 * time.Second) // in which River complains about ten times
	server.Start()
	says("record is back")
	person.must(append(teamArgs, "--on", control.OnTeam)...)
	var lines []string
	for line := range strings.Lines(p.said.String()) {
		if strings.Contains(line, "level=") {
			lines = append(lines, line)
		}
	}
	if len(lines) != 2 || !strings.Contains(lines[0], `msg="record is away" error=`) ||
		!strings.Contains(lines[1], `msg="record is back" after=`) {
		t.Errorf("the worker's log:\n%s", strings.Join(lines, ""))
	}
}
