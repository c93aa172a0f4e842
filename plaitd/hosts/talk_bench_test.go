package hosts

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/plait-run/plait/internal/app/control"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/plaitd/pgtest"
)

// talkSteps is how many steps the task has whose talk is measured.
const talkSteps = 50

// chain is a flow of so many steps, one after the other.
func chain(steps int) string {
	var roles, graph strings.Builder
	for i := range steps {
		next := fmt.Sprintf("{role: s%d, prompt: go on}", i+1)
		if i == steps-1 {
			next = "{role: $END, prompt: done}"
		}
		fmt.Fprintf(&roles, "  s%d: %s\n", i, role(fmt.Sprint("s", i), "true"))
		fmt.Fprintf(&graph, "  s%d: {done: %s}\n", i, next)
	}
	return "version: 1\nname: chain\nlimits: {maxRounds: 1000}\nroles:\n" + roles.String() +
		"graph:\n  $START: {new: {role: s0, prompt: \"{{ prompt }}\"}}\n" + graph.String()
}

// A talk counts what clients say to a server.
type talk struct {
	mu     sync.Mutex
	named  map[string]string // prepared statements, whose names follow from their text
	bound  map[int]string    // by connection
	counts map[string]int    // by statement
	trips  int
}

// hear counts a message, and lets it pass.
func (t *talk) hear(m pgtest.Message) pgtest.Act {
	if m.Back {
		return pgtest.Pass
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	fields := bytes.SplitN(m.Body, []byte{0}, 3)
	switch m.Type {
	case 'P':
		t.named[string(fields[0])] = string(fields[1])
	case 'B':
		t.bound[m.Conn] = t.named[string(fields[1])]
	case 'E':
		t.counts[t.bound[m.Conn]]++
	case 'Q':
		t.counts[string(fields[0])]++
		t.trips++
	case 'S':
		t.trips++
	}
	return pgtest.Pass
}

// take returns what was counted since it was last called.
func (t *talk) take() (statements, trips int, counts map[string]int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	counts, trips = t.counts, t.trips
	t.counts, t.trips = map[string]int{}, 0
	for _, n := range counts {
		statements += n
	}
	return statements, trips, counts
}

// BenchmarkTeamTalk measures what a worker on River and Postgres say to each other for each step of a task of 50, and
// how long the task takes on the team to how long it takes on one machine with SQLite. The first page written after a
// checkpoint is logged whole, which depends on when checkpoints are: the server does not do so here.
func BenchmarkTeamTalk(b *testing.B) {
	for _, away := range []time.Duration{0, 2 * time.Millisecond} {
		b.Run("away="+away.String(), func(b *testing.B) {
			server := pgtest.Start(b, pgtest.Config{Settings: map[string]string{"full_page_writes": "off"}})
			record := newRecord(b, server)
			at := strings.TrimPrefix(record, recordAt+"=")
			proxy := pgtest.NewProxy(b, server)
			heard := &talk{named: map[string]string{}, bound: map[int]string{}, counts: map[string]int{}}
			proxy.See(heard.hear)
			through := proxy.URL(at)
			if away > 0 {
				through = pgtest.Far(b, through, away)
			}
			m, single := newTeam(b, record), newTeam(b)
			person, worker, one := m.host("person"), m.host("a"), single.host("one")
			worker.own = []string{recordAt + "=" + through}
			w := newWitness(b, at)
			person.write("chain.yaml", chain(talkSteps))
			one.write("chain.yaml", chain(talkSteps))
			worker.worker("--engine", onRiver)
			args := []string{"run", "chain.yaml", "-p", "go", "-q", "--id"}
			var alone, team time.Duration
			var statements, trips int
			var wal int64
			counts := map[string]int{}
			rounds := 0
			for b.Loop() {
				id := fmt.Sprintf("01J%023d", rounds)
				begun := time.Now()
				one.must(append(args, id)...)
				alone += time.Since(begun)
				from := lsn(b, at)
				heard.take()
				begun = time.Now()
				person.must(append(args, id, "-d", "--on", control.OnTeam)...)
				w.seesOf(id, "the task ends", func(e store.Event) bool { return e.Type == "task.completed" })
				team += time.Since(begun)
				n, k, more := heard.take()
				statements, trips, wal = statements+n, trips+k, wal+lsn(b, at)-from
				for text, n := range more {
					counts[text] += n
				}
				rounds++
			}
			steps := float64(rounds * talkSteps)
			for _, text := range slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Compare(counts[b], counts[a]) }) {
				b.Logf("%6.2f %s", float64(counts[text])/steps, shortened(text))
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(statements)/steps, "statements/step")
			b.ReportMetric(float64(trips)/steps, "trips/step")
			b.ReportMetric(float64(wal)/steps/1000, "KB-WAL/step")
			b.ReportMetric(team.Seconds()/alone.Seconds(), "to-one-machine")
		})
	}
}

// shortened returns the beginning of a statement, in one line.
func shortened(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	return text[:min(len(text), 150)]
}

// lsn returns how many bytes a server has written to its log.
func lsn(t testing.TB, at string) (n int64) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	c, err := pgx.Connect(ctx, at)
	if err == nil {
		defer c.Close(ctx)
		err = c.QueryRow(ctx, "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn").Scan(&n)
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}
