package hosts

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/record/event"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/plaitd/pgtest"
)

// What tools/bench measures for teams, each with plaitd's defaults: go test ./hosts -run '^$' -bench Team

// embedded means no engine: each task is driven by the process that began it.
const embedded = "embedded"

// A measured is a team on an engine.
type measured struct {
	*testing.B
	*team
	witness witness
	server  *pgtest.Server
	engine  string
}

// onEngines runs a benchmark on each of some engines, skipping those that are not there.
func onEngines(b *testing.B, names []string, run func(measured)) {
	for _, name := range names {
		b.Run(name, func(b *testing.B) {
			if name == onServer && os.Getenv("TEMPORAL_ADDRESS") == "" {
				b.Skip("NOT TESTED: there is no Temporal server")
			}
			server := pgtest.Start(b, pgtest.Config{})
			record := newRecord(b, server)
			run(measured{b, newTeam(b, record), newWitness(b, strings.TrimPrefix(record, recordAt+"=")), server, name})
		})
	}
}

// BenchmarkTeamTasks runs five tasks concurrently, each with a fork of three paths and two calls: by three workers,
// or by the five processes that begin them.
func BenchmarkTeamTasks(b *testing.B) {
	onEngines(b, []string{embedded, onRiver, onServer}, func(b measured) {
		const tasks = 5
		person := b.host("person")
		writeSplit(person)
		args := []string{"run", "team.yaml", "-p", "go", "-q"}
		if b.engine != embedded {
			for _, name := range []string{"a", "b", "c"} {
				b.host(name).worker("--engine", b.engine)
			}
			args = append(args, "--on", control.OnTeam, "-d")
		}
		five := func(round int) {
			var wg sync.WaitGroup
			for i := range tasks {
				wg.Go(func() { person.must(slices.Concat(args, []string{"--id", fmt.Sprintf("01J%022d%d", round, i)})...) })
			}
			wg.Wait()
			b.until("the tasks end", func() bool {
				open, err := b.witness.Threads(b.Context(), store.ThreadFilter{Kind: store.KindRoot,
					Statuses: []store.Status{store.Pending, store.Running, store.Blocked}})
				return err == nil && len(open) == 0
			})
		}
		round := 0
		five(round) // so that all places and caches are warm
		begun := time.Now()
		for b.Loop() {
			round++
			five(round)
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(float64(round*tasks*splitSteps)/time.Since(begun).Seconds(), "steps/s")
		b.ReportMetric(time.Since(begun).Seconds()/float64(round), "s")
	})
}

// BenchmarkTeamTakeover measures how long after a worker was killed, and to all appearances its machine too,
// another takes the step that it was at.
func BenchmarkTeamTakeover(b *testing.B) {
	onEngines(b, []string{onRiver, onServer}, func(b measured) {
		person := b.host("person")
		person.write("six.yaml", strings.ReplaceAll(six("while [ ! -e ../go ]; do sleep 0.05; done"), "description:",
			"retry: {interrupted: true}, description:"))
		var took time.Duration
		rounds := 0
		for b.Loop() {
			workers := map[string]*process{}
			for _, name := range []string{"a", "b"} {
				h := b.host(fmt.Sprint(name, rounds))
				h.mortal = true
				workers[h.name] = h.worker("--engine", b.engine)
			}
			id := fmt.Sprintf("01J%023d", rounds)
			person.must("run", "six.yaml", "-p", "go", "-q", "-d", "--id", id, "--on", control.OnTeam)
			var at store.Event
			b.witness.seesOf(id, "the fourth step begins", func(e store.Event) bool {
				if at = e; !event.Is(e, event.AttemptStarted{}) {
					return false
				}
				a, err := b.witness.Attempt(b.Context(), e.Attempt)
				return err == nil && a.Role == "d"
			})
			b.until("its agent is at work", func() bool { return strings.Count(strings.Join(b.log(), ""), "d") == 2*rounds+1 })
			workers[b.witness.hostOf(at.Attempt)].kill()
			killed := time.Now()
			b.witness.seesOf(id, "another worker goes on", func(e store.Event) bool {
				return event.Is(e, event.AttemptStarted{}) && e.Pos > at.Pos
			})
			took += time.Since(killed)
			rounds++
			for _, p := range workers {
				p.kill()
			}
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(took.Seconds()/float64(rounds), "s")
	})
}

// BenchmarkTeamIdle measures what an idle worker uses, and Postgres with it.
func BenchmarkTeamIdle(b *testing.B) {
	onEngines(b, []string{embedded, onRiver, onServer}, func(b measured) {
		const settle, idle = 15 * time.Second, 30 * time.Second
		var worker string
		if b.engine != embedded { // which has no worker: only what the server and its observer use
			worker = strconv.Itoa(b.host("a").worker("--engine", b.engine).cmd.Process.Pid)
		}
		time.Sleep(settle)
		pid, err := os.ReadFile(filepath.Join(b.server.Data(), "postmaster.pid"))
		if err != nil {
			b.Fatal(err)
		}
		postmaster, _, _ := strings.Cut(string(pid), "\n")
		var ours, theirs time.Duration
		rounds := 0
		for b.Loop() {
			before, beforeServer := ticks(worker), ticksBelow(postmaster)
			time.Sleep(idle)
			ours += ticks(worker) - before
			theirs += ticksBelow(postmaster) - beforeServer
			rounds++
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(100*ours.Seconds()/idle.Seconds()/float64(rounds), "worker-%")
		b.ReportMetric(100*theirs.Seconds()/idle.Seconds()/float64(rounds), "postgres-%")
	})
}

// stat returns the fields of a process after its name, none if it is gone.
func stat(pid string) []string {
	data, _ := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	_, rest, _ := strings.Cut(string(data), ") ")
	return strings.Fields(rest)
}

// ticks returns the processor time of a process, including its children that have ended.
func ticks(pid string) (d time.Duration) {
	for i, text := range stat(pid) {
		if n, err := strconv.Atoi(text); err == nil && i >= 11 && i <= 14 {
			d += time.Duration(n) * time.Second / 100
		}
	}
	return d
}

// ticksBelow returns the processor time of a process and its children.
func ticksBelow(parent string) time.Duration {
	d := ticks(parent)
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		if f := stat(filepath.Base(dir)); len(f) > 1 && f[1] == parent {
			d += ticks(filepath.Base(dir))
		}
	}
	return d
}
