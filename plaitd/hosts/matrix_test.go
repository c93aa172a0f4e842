package hosts

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/plait-run/plait/internal/control"
	"github.com/plait-run/plait/internal/event"
	"github.com/plait-run/plait/internal/soak"
	"github.com/plait-run/plait/internal/store"
	"github.com/plait-run/plait/plaitd/pgtest"
)

// gridRole is a role that logs that it begins, in one file for all hosts and worktrees, and does something.
func gridRole(name, more, does string) string {
	return fmt.Sprintf(`{description: %s, retry: {interrupted: true}, %sagent: {kind: command, pass: [GRID], command: [sh, -ec, `+
		`"echo %s >> $GRID/log; %s; echo from %s"]}}`, name, more, name, does, name)
}

// grid is a flow with a fork of two writers and a call, whose files are merged; one of which the first path is
// enough, the other would never end; and a question.
var grid = map[string]string{
	"grid.yaml": `version: 1
name: grid
limits: {maxConcurrent: 4}
roles:
  begin: ` + gridRole("begin", "", "sleep 0.1") + `
  left: ` + gridRole("left", "access: write, ", "sleep 0.3; echo left > left.txt") + `
  right: ` + gridRole("right", "access: write, ", "sleep 0.3; echo right > right.txt") + `
  deep: {flow: deep}
  quick: ` + gridRole("quick", "", "sleep 0.3") + `
  endless: ` + gridRole("endless", "", "until [ -e $GRID/over ]; do sleep 0.1; done") + `
  last: ` + gridRole("last", "access: write, ", "sleep 0.1; cat left.txt right.txt > both.txt") + `
forks:
  work: {forkPaths: [{pathId: l, childNodeId: left}, {pathId: r, childNodeId: right}, {pathId: d, childNodeId: deep}]}
  race: {forkPaths: [{pathId: q, childNodeId: quick}, {pathId: e, childNodeId: endless}]}
joins:
  worked: {forkPathIds: [l, r, d], mainPathId: l}
  raced: {forkPathIds: [q, e], joinStrategy: ANY_COMPLETED}
gates:
  ask: {kind: input, question: "Which?"}
graph:
  $START: {new: {role: begin, prompt: "{{ prompt }}"}}
  begin: {done: {role: work}}
  left: {done: {role: worked}}
  right: {done: {role: worked}}
  deep: {done: {role: worked}}
  worked: {joined: {role: race}}
  quick: {done: {role: raced}}
  endless: {done: {role: raced}}
  raced: {joined: {role: ask}}
  ask: {answered: {role: last, prompt: "it is {{ answer }}"}}
  last: {done: {role: $END, prompt: both}}
`,
	"deep.yaml": `version: 1
name: deep
roles: {one: ` + gridRole("one", "", "sleep 0.1") + `, two: ` + gridRole("two", "", "sleep 0.1") + `}
graph:
  $START: {new: {role: one, prompt: "{{ prompt }}"}}
  one: {done: {role: two, prompt: on}}
  two: {done: {role: $END}}
`,
}

// gridSteps is how many steps of agents the grid has: the one that never ends is none.
const gridSteps = 7

// newGrid makes a team and the host of a person who has the grid's flows in a repository.
func newGrid(t *testing.T, record ...string) (*team, *host) {
	m := newTeam(t, record...)
	m.env = append(m.env, "GRID="+m.work)
	h := m.host("person")
	for name, text := range grid {
		h.write(name, text)
	}
	repository(h)
	return m, h
}

// Faults of the matrix.
const (
	hostDies     = "host"     // the worker and its agents, and its disk
	workerDies   = "worker"   // alone: its agents go on for nobody
	workerStops  = "stop"     // for longer than it is waited for, and comes back
	postgresDies = "postgres" // and is back a second later
	engineWiped  = "wipe"
	networkCut   = "network" // one worker hears and says nothing any more
)

var faults = []string{hostDies, workerDies, workerStops, postgresDies, engineWiped, networkCut}

// moments are when something happens: at the event that says so, or right after it.
var moments = []struct {
	name string
	is   func(store.Event) bool
}{
	{"batch A", func(e store.Event) bool { return event.Is(e, event.AttemptStarted{}) }},
	{"agent at work", func(e store.Event) bool { return event.Is(e, event.AgentStarted{}) && e.Thread != taskID }},
	{"batch B", func(e store.Event) bool { return event.Is(e, event.AttemptCompleted{}) && e.Thread != taskID }},
	{"decided", func(e store.Event) bool { return event.Is(e, event.JoinDecided{}) }},
	{"joining", func(e store.Event) bool { return event.Is(e, event.ThreadEnded{}) }},
	{"merging", func(e store.Event) bool { return event.Is(e, event.ThreadJoined{}) }},
	{"gate", func(e store.Event) bool { return event.Is(e, event.GateChanged{Change: event.GateBlocked}) }},
}

// TestMatrix has something happen to a team at a moment of a task, again and again. Each time the outcome is that of
// a run on one machine, each step was made once, and the files are the same.
func TestMatrix(t *testing.T) {
	needHosts(t)
	server := pgtest.Start(t, pgtest.Config{})
	want, files := gridAlone(t)
	rounds := soak.Rounds(t, 6)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	lost := 0
	var took time.Duration
	for i := range rounds {
		fault, moment := faults[i%len(faults)], random.IntN(len(moments))
		name := fmt.Sprintf("%d/%s/%s", i, fault, strings.ReplaceAll(moments[moment].name, " ", "-"))
		t.Run(name, func(t *testing.T) {
			g := &gridRound{t: t, server: server, fault: fault, random: random}
			began := time.Now()
			g.run(moment)
			took = max(took, time.Since(began))
			g.check(want, files)
			lost += g.lost
		})
	}
	soak.Figure(t, "%d runs of three workers on %s, in each a host, a worker, Postgres, the engine or the network failed: same outcome digest "+
		"and files, no step twice, %d attempts cut off, the longest run %v", rounds, engineName(), lost, took.Round(time.Second))
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

// files is the git tree of the branch that task pull makes.
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
	random  *rand.Rand
	team    *team
	person  *host
	witness witness
	url     string
	workers map[string]*process
	proxies map[string]*pgtest.Proxy
	lost    int
}

func (g *gridRound) run(moment int) {
	t := g.t
	record := newRecord(t, g.server)
	g.url = strings.TrimPrefix(record, recordAt+"=")
	g.team, g.person = newGrid(t, record, impatient+"=3s")
	t.Cleanup(func() { os.WriteFile(g.team.path("over"), nil, 0o600) }) // what a worker left behind ends
	g.witness = newWitness(t, g.url)
	g.workers, g.proxies = map[string]*process{}, map[string]*pgtest.Proxy{}
	for _, name := range []string{"a", "b", "c"} {
		h := g.team.host(name)
		h.mortal = g.fault != workerDies
		if g.fault == networkCut {
			g.proxies[name] = pgtest.NewProxy(t, g.server)
			h.own = []string{recordAt + "=" + g.proxies[name].URL(g.url)}
		}
		g.workers[name] = h.worker("--engine", engineName())
	}
	person := g.person
	person.must("run", "grid.yaml", "-p", "go", "-q", "-d", "--id", taskID, "--on", control.OnTeam)
	at := g.witness.sees(moments[moment].name, moments[moment].is)
	g.strike(g.victim(at))
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

// victim is the worker where something happens: the one that has the attempt of an event, else any.
func (g *gridRound) victim(e store.Event) string {
	if e.Attempt != "" {
		if a, err := g.witness.Attempt(g.t.Context(), e.Attempt); err == nil && g.workers[a.Host] != nil {
			return a.Host
		}
	}
	return string("abc"[g.random.IntN(3)])
}

// strike has the fault happen.
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

// wipe makes the engine lose all that it knows.
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
	if _, err := c.Exec(ctx, "TRUNCATE plait_river.river_job, plait_river.river_leader, plait_river.river_queue"); err != nil {
		g.t.Fatal(err)
	}
}

// check holds the run against one on one machine.
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
	if g.fault == workerDies {
		return // what it left ends at the end of the round
	}
	g.team.until("no process is left", func() bool { return len(agentsOf(g.team.work)) == 0 })
}

// agentsOf lists processes that were started for a team, when its workers have been killed.
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
