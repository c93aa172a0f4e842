package hosts

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/engine"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/soak"
	"github.com/plait-run/plait/internal/testing/storetest"
	"github.com/plait-run/plait/plaitd/pgtest"
)

// Faults of the matrix.
const (
	hostDies     = "host"     // the worker and its agents, and its disk
	workerDies   = "worker"   // alone: its agents continue, orphaned
	workerStops  = "stop"     // for longer than others wait for it, then comes back
	postgresDies = "postgres" // and comes back a second later
	engineWiped  = "wipe"
	networkCut   = "network" // one worker no longer sends or receives anything
)

var faults = []string{hostDies, workerDies, workerStops, postgresDies, engineWiped, networkCut}

// A moment is when something happens to a team.
type moment struct {
	name string
	most int // the event is the first up to this one, at random
	is   func(store.Event) bool
	mark string // the file that git leaves when it is about to do it, after the event; "": none
	// lasts reports whether, by the record, it is still that moment. The event is the one that began it.
	lasts func(w witness, e store.Event) bool
}

// moments are the moments of the matrix.
var moments = []moment{
	{"batch A", 9, func(e store.Event) bool { return event.Is(e, event.AttemptStarted{}) }, "", attemptRuns},
	{"agent at work", 6, func(e store.Event) bool { return event.Is(e, event.AgentStarted{}) && e.Thread != taskID }, "",
		attemptRuns},
	{"batch B", 6, func(e store.Event) bool { return event.Is(e, event.AttemptCompleted{}) && e.Thread != taskID }, "",
		lastStep},
	{"decided", 3, func(e store.Event) bool { return event.Is(e, event.JoinDecided{}) }, "", notJoined(false)},
	{"joining", 1, func(e store.Event) bool { return event.Is(e, event.JoinDecided{}) }, markTry, notJoined(false)},
	{"merging", 1, func(e store.Event) bool { return event.Is(e, event.JoinDecided{}) }, markKeep, notJoined(true)},
	{"gate", 1, func(e store.Event) bool { return event.Is(e, event.GateChanged{Change: event.GateBlocked}) }, "",
		gateOpen},
}

func attemptRuns(w witness, e store.Event) bool {
	a, err := w.Attempt(w.t.Context(), e.Attempt)
	return err == nil && a.Status == store.AttemptRunning
}

func lastStep(w witness, e store.Event) bool {
	later, err := w.Events(w.t.Context(), e.Pos, store.EventFilter{Task: taskID, Thread: e.Thread})
	return err == nil && !slices.ContainsFunc(later, func(e store.Event) bool {
		return event.Is(e,
			event.AttemptCompleted{})
	})
}

// notJoined reports whether the join of an event is decided but not yet a step. kept: the fate of the files is in
// the record, and they are being changed.
func notJoined(kept bool) func(witness, store.Event) bool {
	return func(w witness, e store.Event) bool {
		row, err := w.Thread(w.t.Context(), e.Thread)
		var d engine.Decision
		return err == nil && len(row.Decision) > 0 && json.Unmarshal(row.Decision, &d) == nil && (d.Merge != nil) == kept
	}
}

func gateOpen(w witness, e store.Event) bool {
	open, err := w.Gates(w.t.Context(), store.GateFilter{Task: e.Task, State: store.GateOpen})
	return err == nil && len(open) == 1
}

// Files, named with the host, that the git of a matrix leaves: it is about to try the merge of a join, or has
// changed the files, which are about to be kept. It pauses then.
const (
	markTry  = "try"
	markKeep = "keep"
)

// slowGit is a git that announces its merges.
const slowGit = `#!/bin/sh
PATH=/usr/bin:/bin
case " $* " in
*" merge-tree "*)
	uname -n >%[1]s/try; sleep 0.4;;
*" pack-objects "*)
	if [ -e %[1]s/try ] && [ ! -e %[1]s/keep ]; then uname -n >%[1]s/keep; sleep 0.4; fi;;
esac
exec %[2]s "$@"
`

// slowGit makes all hosts use slowGit.
func (m *team) slowGit() {
	m.t.Helper()
	git, err := exec.LookPath("git")
	if err == nil {
		err = os.Mkdir(m.path("bin"), 0o755)
	}
	if err == nil {
		err = os.WriteFile(m.path("bin", "git"), fmt.Appendf(nil, slowGit, m.work, git), 0o755)
	}
	if err != nil {
		m.t.Fatal(err)
	}
	m.onPath(m.path("bin"))
}

// TestMatrix has a fault happen to a team at a moment of a task, again and again. Each time the outcome is that of a
// run on one machine, each step was taken once, and the files are the same. As many rounds as there are pairs of a
// fault and a moment try each pair once.
func TestMatrix(t *testing.T) {
	needHosts(t)
	server := pgtest.Start(t, pgtest.Config{})
	want, files := gridAlone(t)
	rounds := soak.Rounds(t, 6)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	first := random.IntN(len(faults) * len(moments))
	hits := map[string]int{}
	lost, hit := 0, 0
	var took time.Duration
	for i := range rounds {
		// There are six faults and seven moments, which have no common divisor.
		fault, at := faults[(first+i)%len(faults)], moments[(first+i)%len(moments)]
		name := fmt.Sprintf("%d/%s/%s", i, fault, strings.ReplaceAll(at.name, " ", "-"))
		t.Run(name, func(t *testing.T) {
			g := &gridRound{t: t, server: server, fault: fault, moment: at, random: random}
			began := time.Now()
			g.run()
			took = max(took, time.Since(began))
			g.check(want, files)
			lost += g.lost
			if g.hit {
				hit++
				hits[fault+", "+at.name]++
			}
			t.Logf("%s at %q, at worker %s: hit %t, %d attempts cut off, %v", fault, at.name, g.at, g.hit, g.lost,
				time.Since(began).Round(time.Millisecond))
		})
	}
	for _, fault := range faults {
		for _, at := range moments {
			t.Logf("%-10s %-14s %d", fault, at.name, hits[fault+", "+at.name])
		}
	}
	soak.Figure(t, "%d runs of three workers on %s, in each a host, a worker, Postgres, the engine or the network "+
		"failed, %d of them at "+
		"the very moment, at %d of %d pairs of fault and moment: same outcome digest and files, no step twice, %d attempts "+
		"cut off, "+
		"the longest run %v", rounds, engineName(), hit, len(hits), len(faults)*len(moments), lost, took.Round(time.Second))
}

// gridAlone runs the grid on one machine, and returns its digest and files.
func gridAlone(t *testing.T) (digestOf, files string) {
	_, h := newGrid(t)
	if out, code := h.run("run", "grid.yaml", "-p", "go", "-q", "--id", taskID, "--keep-files"); code != 4 {
		t.Fatalf("it does not ask: exit code %d: %s", code, out)
	}
	h.must("resume", taskID, "-p", "that one", "-q")
	h.write("../over", "")
	return digest(h), h.files()
}

// files returns the git tree of the branch that task pull creates.
func (h *host) files() string {
	h.t.Helper()
	var p struct{ Data struct{ Branch string } }
	if err := json.Unmarshal([]byte(h.must("task", "pull", taskID, "--json")), &p); err != nil {
		h.t.Fatal(err)
	}
	return h.git("ls-tree", p.Data.Branch)
}

// A gridRound is one run with one fault.
type gridRound struct {
	t       *testing.T
	server  *pgtest.Server
	fault   string
	moment  moment
	random  *rand.Rand
	team    *team
	person  *host
	witness witness
	log     storetest.Witness // of the record
	url     string
	workers map[string]*process
	proxies map[string]*pgtest.Proxy
	lost    int
	at      string // the worker
	hit     bool   // whether it was still that moment
}

func (g *gridRound) run() {
	t := g.t
	record := newRecord(t, g.server)
	g.url = strings.TrimPrefix(record, recordAt+"=")
	g.team, g.person = newGrid(t, record, impatient+"=3s")
	g.team.slowGit()
	t.Cleanup(func() { os.WriteFile(g.team.path("over"), nil, 0o600) }) // ends what a worker left behind
	g.witness = newWitness(t, g.url)
	t.Cleanup(func() {
		if t.Failed() {
			g.witness.tell()
		}
	})
	g.workers, g.proxies = map[string]*process{}, map[string]*pgtest.Proxy{}
	for _, name := range []string{"a", "b", "c"} {
		h := g.team.host(name)
		h.knowsDoer()
		h.mortal = g.fault != workerDies
		if g.fault == networkCut {
			g.proxies[name] = pgtest.NewProxy(t, g.server)
			h.own = []string{recordAt + "=" + g.proxies[name].URL(g.url)}
		}
		g.workers[name] = h.worker("--engine", engineName())
	}
	person := g.person
	person.must("run", "grid.yaml", "-p", "go", "-q", "-d", "--id", taskID, "--on", control.OnTeam)
	g.await()
	if err := g.log.Glance(t.Context(), g.witness); err != nil {
		t.Error(err)
	}
	gate := g.witness.sees("the question", func(e store.Event) bool {
		return event.Is(e, event.GateChanged{Change: event.GateBlocked})
	})
	open, err := g.witness.Gates(t.Context(), store.GateFilter{Task: gate.Task, State: store.GateOpen})
	if err != nil || len(open) != 1 {
		t.Fatalf("%d questions: %v", len(open), err)
	}
	person.must("answer", open[0].ID, "-m", "that one")
	if row := g.witness.ended(); row.Status != store.Completed {
		t.Fatalf("the task is %s: %+v", row.Status, row.Reason)
	}
}

// await waits for the moment, makes the fault happen, and notes whether it did in time.
func (g *gridRound) await() {
	n := 1 + g.random.IntN(g.moment.most)
	at := g.witness.sees(g.moment.name, func(e store.Event) bool {
		if g.moment.is(e) {
			n--
		}
		return n == 0
	})
	g.at = g.victim(at)
	if mark := g.moment.mark; mark != "" {
		g.team.until("git says "+mark, func() bool {
			host, err := os.ReadFile(g.team.path(mark))
			g.at = strings.TrimSpace(string(host))
			return err == nil && g.workers[g.at] != nil
		})
	}
	g.hit = g.moment.lasts(g.witness, at)
	g.strike(g.at)
	if g.fault != postgresDies && g.fault != engineWiped { // which do not keep the moment from passing
		g.hit = g.moment.lasts(g.witness, at)
	}
}

// victim returns the worker to strike: the one that has the attempt of an event, otherwise any.
func (g *gridRound) victim(e store.Event) string {
	if e.Attempt != "" {
		if a, err := g.witness.Attempt(g.t.Context(), e.Attempt); err == nil && g.workers[a.Host] != nil {
			return a.Host
		}
	}
	return string("abc"[g.random.IntN(3)])
}

// strike makes the fault happen.
func (g *gridRound) strike(name string) {
	switch g.fault {
	case workerDies:
		g.workers[name].kill()
	case hostDies:
		g.workers[name].kill()
		if err := os.RemoveAll(g.team.path(name)); err != nil {
			g.t.Fatal(err)
		}
	case workerStops:
		p := g.workers[name]
		p.signal(syscall.SIGSTOP)
		back := time.AfterFunc(6*time.Second, func() { p.signal(syscall.SIGCONT) })
		g.t.Cleanup(func() { back.Stop(); p.signal(syscall.SIGCONT) })
	case postgresDies:
		g.server.Stop(pgtest.Immediate)
		time.Sleep(time.Duration(g.random.IntN(1000)) * time.Millisecond)
		g.server.Start()
	case engineWiped:
		g.wipe()
	case networkCut:
		g.proxies[name].See(func(pgtest.Message) pgtest.Act { return pgtest.Part })
	}
}

// wipe makes the engine lose everything.
func (g *gridRound) wipe() {
	if name := engineName(); name != onRiver {
		g.t.Skipf("NOT TESTED: an empty %s: its own suite does that", name)
	}
	ctx := context.WithoutCancel(g.t.Context())
	c, err := pgx.Connect(ctx, g.url)
	if err != nil {
		g.t.Fatal(err)
	}
	defer c.Close(ctx)
	if _, err := c.Exec(ctx, "TRUNCATE plait_river.river_job, plait_river.river_leader, "+
		"plait_river.river_queue"); err != nil {
		g.t.Fatal(err)
	}
}

// check compares the run with one on one machine.
func (g *gridRound) check(want, files string) {
	t, person := g.t, g.person
	if got := digest(person); got != want {
		t.Errorf("digest %s, on one machine %s", got, want)
	}
	if got := person.files(); got != files {
		t.Errorf("files:\n%son one machine:\n%s", got, files)
	}
	steps, lost := g.witness.once()
	if g.lost = lost; steps != gridSteps {
		t.Errorf("%d steps, want %d", steps, gridSteps)
	}
	if calm := g.fault == engineWiped || g.fault == postgresDies; calm && lost > 1 {
		t.Errorf("%d attempts were cut off; only the one that lost the race had to be", lost)
	}
	person.must("verify")
	for _, p := range g.workers {
		p.kill()
	}
	if err := g.log.See(t.Context(), g.witness); err != nil {
		t.Error(err)
	}
	if g.fault == workerDies {
		return // what it left ends at the end of the round
	}
	g.team.until("no process is left", func() bool { return len(agentsOf(g.team.work)) == 0 })
}

// agentsOf lists processes of a team that are left after its workers have been killed.
func agentsOf(work string) (left []string) {
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range all {
		env, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(env), "GRID="+work+"\x00") {
			line, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
			left = append(left, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return left
}

// tell logs the state of the threads.
func (w witness) tell() {
	rows, err := w.Threads(context.Background(), store.ThreadFilter{})
	if err != nil {
		w.t.Log(err)
	}
	for _, r := range rows {
		owner, held, _ := w.Holder(context.Background(), "thread-"+r.ID)
		w.t.Logf("thread %s of %s: %s, wanted %q, reason %+v, attempt %q, host %q, decision %s, driven %t by %s", r.ID,
			r.Flow, r.Status, r.Intent,
			r.Reason, r.InFlight, r.Host, r.Decision, held, owner)
	}
}
