package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/testing/soak"
	"github.com/plait-run/plait/plaitd/pgtest"
	"github.com/plait-run/plait/plaitd/postgres"
)

// mix is a flow with a fork of two writers and a call, whose files are merged, a plan of a writer and a forked reader,
// a question, and a last writer. BEGIN and the like are agents.
var mix = map[string]string{
	"mix.yaml": `version: 1
name: mix
limits: {maxConcurrent: 4}
roles:
  begin: {retry: {interrupted: true}, agent: BEGIN}
  left: {access: write, retry: {interrupted: true}, agent: LEFT}
  right: {access: write, retry: {interrupted: true}, agent: RIGHT}
  deep: {flow: deep}
  lead: {plan: true, retry: {interrupted: true}, agent: LEAD}
  last: {access: write, retry: {interrupted: true}, agent: LAST}
forks:
  work: {forkPaths: [{pathId: l, childNodeId: left}, {pathId: r, childNodeId: right}, {pathId: d, childNodeId: deep}]}
joins:
  worked: {forkPathIds: [l, r, d], mainPathId: l}
gates:
  ask: {kind: input, question: "Which?"}
graph:
  $START: {new: {role: begin, prompt: "{{ prompt }}"}}
  begin: {done: {role: work}}
  left: {done: {role: worked}}
  right: {done: {role: worked}}
  deep: {done: {role: worked}}
  worked: {joined: {role: lead, prompt: plan}}
  lead: {finished: {role: ask}}
  ask: {answered: {role: last, prompt: "it is {{ answer }}"}}
  last: {done: {role: $END, prompt: all}}
`,
	"deep.yaml": `version: 1
name: deep
roles: {one: {retry: {interrupted: true}, agent: ONE}, two: {retry: {interrupted: true}, agent: TWO}}
graph:
  $START: {new: {role: one, prompt: "{{ prompt }}"}}
  one: {done: {role: two, prompt: on}}
  two: {done: {role: $END}}
`,
}

// mixSteps is how many steps of agents it has.
const mixSteps = 9

// Tasks that are under way at once, and faults meanwhile.
const (
	stormTasks  = 6
	stormFaults = 10
)

// A storm is three isolated workers to which faults happen.
type storm struct {
	*isolated
	server  *pgtest.Server
	record  *postgres.Store
	calls   *rollCall
	random  *rand.Rand
	silence time.Duration
	proxies map[*apart]*pgtest.Proxy
	begun   int // tasks

	up    sync.RWMutex // held while the record is away, and while a worker starts, which needs it
	mu    sync.Mutex
	busy  map[*apart]bool // workers to which a fault is happening
	after sync.WaitGroup  // what ends faults
	log   []string
}

// TestStorm has faults happen to three isolated workers, each with its user, home and disk, and to what they share,
// under six tasks at once. All tasks end as on one machine, no step is taken twice, and no agent is at work beside its
// successor. With soak.Env a worker counts as lost after the default time.
func TestStorm(t *testing.T) {
	needRoot(t)
	t.Parallel()
	rounds := soak.Rounds(t, 10)
	x := newStorm(t)
	want := x.alone()
	cut := 0
	for done := 0; done < rounds; {
		struck, lost := x.batch(min(stormFaults, rounds-done), want)
		done, cut = done+struck, cut+lost
	}
	slices.Sort(x.log)
	t.Logf("faults: %s", strings.Join(x.log, ", "))
	soak.Figure(t, "%d faults under %d tasks, six at a time, on three isolated workers that count as lost after %v: all "+
		"completed, same outcome digest, no step twice, no agent beside its successor, %d attempts cut off", rounds, x.begun,
		x.silence, cut)
}

func newStorm(t *testing.T) *storm {
	server := pgtest.Start(t, pgtest.Config{})
	w := settle(t, server, "ann", "ben", "cleo")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	x := &storm{isolated: w, server: server, record: w.connect(), calls: newRollCall(t), silence: store.LeaseTTL,
		busy: map[*apart]bool{}, random: rand.New(rand.NewPCG(seed, 0)), proxies: map[*apart]*pgtest.Proxy{}}
	w.as, w.flags = "hasty", []string{"--max-agents", "4"}
	hurried := os.Getenv(soak.Env) == ""
	if hurried {
		x.silence = 3 * time.Second
	}
	w.write(map[string]string{filepath.Join(w.person, ".config", "plait", "config.yaml"): x.settings()})
	w.write(x.flows())
	w.own(w.person, w.user)
	for _, a := range w.all {
		w.mount(a)
		x.proxies[a] = pgtest.NewProxy(t, server)
		if hurried {
			a.env = []string{silence + "=" + x.silence.String()}
		}
		w.write(map[string]string{a.store: x.proxies[a].URL(w.url), a.config: x.settings()})
		w.start(a)
	}
	t.Cleanup(func() {
		x.after.Wait()
		if t.Failed() {
			t.Logf("faults: %s\nthe workers said\n%s", strings.Join(x.log, ", "), w.said.String())
		}
	})
	return x
}

// settings are those of all users: they know the agent of the plan's actions.
func (x *storm) settings() string {
	return "default: doer\nagents: {doer: " + x.calls.command("sleep 0.3; "+
		`[ $PLAIT_ROLE = look ] || echo mended > mended.txt; `+
		`echo "{\"status\": \"success\", \"summary\": \"from $PLAIT_ROLE\"}"`) + "}\n"
}

func (x *storm) flows() map[string]string {
	plan := `{"$status": "planned", "sessionGoal": "mend it", "then": "end", "actions": [` +
		`{"id": "mend", "access": "write", "agent": "doer", "prompt": "mend"}, ` +
		`{"id": "look", "mode": "fork", "agent": "doer", "prompt": "look"}]}`
	says := func(name, does string) string {
		return x.calls.command("sleep 1; " + does + "echo from " + name)
	}
	agents := strings.NewReplacer("BEGIN", says("begin", ""), "LEFT", says("left", "echo left > left.txt; "),
		"RIGHT", says("right", "echo right > right.txt; "), "LEAD", x.calls.command("echo '"+plan+"'"),
		"LAST", says("last", "cat left.txt right.txt mended.txt > all.txt; "), "ONE", says("one", ""), "TWO", says("two", ""))
	files := map[string]string{}
	for name, text := range mix {
		files[filepath.Join(x.person, name)] = agents.Replace(text)
	}
	return files
}

// alone runs the flow on one machine, and returns its outcome digest.
func (x *storm) alone() string {
	h := newHost(x.t, "")
	x.must(os.RemoveAll(h.work))
	sh(x.t, `cp -a "$1" "$2"; chown -R 0:0 "$2"`, x.work, h.work)
	config := filepath.Join(filepath.Dir(h.home), ".config", "plait", "config.yaml")
	x.write(map[string]string{config: x.settings()})
	ended := h.data(4, "run", filepath.Join(x.person, "mix.yaml"), "-p", "go", "--trust")
	id, _ := ended["thread"].(string)
	h.run(0, "resume", id, "-p", "that one", "-q")
	return h.digest(id)
}

// plaitd runs a verb of the person, and returns what it prints.
func (x *storm) plaitd(args ...string) string {
	x.t.Helper()
	cmd := x.command(filepath.Join(x.dir, "plaitd"), args...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		x.t.Fatalf("plaitd %v: %v: %s", args, err, out)
	}
	return string(out)
}

// batch has faults happen while tasks are under way, and compares how they end with one machine. It returns how many
// faults there were, fewer if the tasks were faster, and how many attempts were cut off.
func (x *storm) batch(faults int, want string) (struck, cut int) {
	var tasks []string
	for range stormTasks {
		x.begun++
		id := fmt.Sprintf("%s%03d", other[:23], x.begun)
		x.plaitd("run", filepath.Join(x.person, "mix.yaml"), "-p", "go", "--on", "team", "--trust", "-d", "--id", id)
		tasks = append(tasks, id)
	}
	answered := map[string]bool{}
	steps, late := 0, time.Now().Add(5*time.Minute)
	for {
		open, now := x.look(tasks, answered)
		if now > steps {
			steps, late = now, time.Now().Add(5*time.Minute)
		}
		if open == 0 {
			break
		}
		if time.Now().After(late) {
			x.t.Fatalf("nothing happens any more: %d of %d tasks are open", open, len(tasks))
		}
		if struck < faults && steps >= (struck+1)*stormTasks*mixSteps/(stormFaults+2) && x.strike() {
			struck++
		}
		time.Sleep(50 * time.Millisecond)
	}
	x.after.Wait()
	for _, id := range tasks {
		cut += x.compare(id, want)
	}
	x.plaitd("verify")
	x.calls.mu.Lock()
	defer x.calls.mu.Unlock()
	if len(x.calls.both) > 0 {
		x.t.Errorf("these began beside an agent of the same thread: %q", x.calls.both)
	}
	return struck, cut
}

// look answers the questions of tasks, and returns how many tasks are open and how many steps they have. While the
// record is away it knows nothing.
func (x *storm) look(tasks []string, answered map[string]bool) (open, steps int) {
	open = len(tasks)
	for _, id := range tasks {
		row, err := x.record.Thread(x.t.Context(), id)
		if err != nil {
			return open, 0
		}
		if row.Status == store.Completed {
			open--
		}
		if row.Status == store.Failed || row.Status == store.Blocked && row.Reason.Kind != store.ReasonGate {
			x.t.Fatalf("task %s is %s: %+v", id, row.Status, row.Reason)
		}
		attempts, err := x.record.Attempts(x.t.Context(), store.AttemptFilter{Task: id, Status: store.AttemptDone})
		if err != nil {
			return open, 0
		}
		steps += len(attempts)
		gates, err := x.record.Gates(x.t.Context(), store.GateFilter{Task: id, State: store.GateOpen})
		if err != nil {
			return open, 0
		}
		for _, g := range gates {
			if answered[g.ID] {
				continue
			}
			if g.Source != store.SourceFlow {
				x.t.Fatalf("task %s asks %+v", id, g)
			}
			cmd := x.command(filepath.Join(x.dir, "plaitd"), "answer", g.ID, "-m", "that one")
			answered[g.ID] = cmd.Run() == nil
		}
	}
	return open, steps
}

// compare checks a task that has completed, and returns how many of its attempts were cut off.
func (x *storm) compare(id, want string) (cut int) {
	if got := strings.TrimSpace(x.plaitd("thread", "show", id, "--digest")); got != want {
		x.t.Errorf("task %s: digest %s, on one machine %s", id, got, want)
	}
	attempts, err := x.record.Attempts(x.t.Context(), store.AttemptFilter{Task: id})
	x.must(err)
	made := map[string]bool{}
	for _, a := range attempts {
		switch at := a.Thread + a.From.String(); a.Status {
		case store.AttemptDone:
			if made[at] {
				x.t.Errorf("thread %s has two steps after %s", a.Thread, a.From.Short())
			}
			made[at] = true
		case store.AttemptRunning:
			x.t.Errorf("attempt %s of %s runs for ever", a.ID, a.Role)
		default:
			cut++
		}
	}
	if len(made) != mixSteps {
		x.t.Errorf("task %s has %d steps, want %d", id, len(made), mixSteps)
	}
	return cut
}

// A fault happens to a worker, or to what all share. It returns what ends it, to be called after a while.
type fault struct {
	name    string
	alone   bool // it happens to a worker
	happens func(x *storm, a *apart) (ends func(), lasts time.Duration)
}

var storms = []fault{
	{"killed", true, func(x *storm, a *apart) (func(), time.Duration) {
		x.kill(a)
		return func() { x.restart(a) }, time.Second
	}},
	{"killed, its disk lost", true, func(x *storm, a *apart) (func(), time.Duration) {
		x.kill(a)
		for _, dir := range []string{a.places, filepath.Join(a.home, "record")} {
			sh(x.t, `find "$1" -mindepth 1 -delete`, dir)
		}
		return func() { x.restart(a) }, time.Second
	}},
	{"stopped", true, func(x *storm, a *apart) (func(), time.Duration) {
		a.process.Signal(syscall.SIGSTOP)
		return func() { a.process.Signal(syscall.SIGCONT) }, x.silence + x.silence/4
	}},
	{"drained", true, func(x *storm, a *apart) (func(), time.Duration) {
		a.process.Signal(syscall.SIGTERM)
		return func() { <-a.ended; x.restart(a) }, 0
	}},
	{"away from the record for a moment", true, func(x *storm, a *apart) (func(), time.Duration) {
		return x.part(a), x.silence / 4
	}},
	{"away from the record", true, func(x *storm, a *apart) (func(), time.Duration) {
		return x.part(a), x.silence + x.silence/4
	}},
	{"its disk full", true, func(x *storm, a *apart) (func(), time.Duration) {
		var s syscall.Statfs_t
		x.must(syscall.Statfs(a.places, &s))
		size := (int64(s.Blocks)-int64(s.Bfree))*int64(s.Bsize) + 1<<20
		sh(x.t, `mount -o remount,size=$1 "$2"`, fmt.Sprint(size), a.places)
		return func() { sh(x.t, `mount -o remount,size=1g "$1"`, a.places) }, 2 * time.Second
	}},
	{"Postgres crashed", false, func(x *storm, _ *apart) (func(), time.Duration) {
		x.up.Lock()
		defer x.up.Unlock()
		x.server.Stop(pgtest.Immediate)
		time.Sleep(time.Duration(x.random.IntN(1000)) * time.Millisecond)
		x.server.Start()
		return func() {}, 0
	}},
	{"the queue lost", false, func(x *storm, _ *apart) (func(), time.Duration) {
		ctx := context.WithoutCancel(x.t.Context())
		c, err := pgx.Connect(ctx, x.owner)
		x.must(err)
		defer c.Close(ctx)
		_, err = c.Exec(ctx, "TRUNCATE plait_river.river_job, plait_river.river_leader, plait_river.river_queue")
		x.must(err)
		return func() {}, 0
	}},
}

func (x *storm) kill(a *apart) {
	a.process.Kill()
	<-a.ended
}

func (x *storm) restart(a *apart) {
	x.up.RLock()
	defer x.up.RUnlock()
	x.start(a)
}

// part has nothing pass between a worker and the record.
func (x *storm) part(a *apart) (ends func()) {
	x.proxies[a].See(func(pgtest.Message) pgtest.Act { return pgtest.Part })
	return func() { x.proxies[a].See(nil) }
}

// strike makes a fault happen, at random, where an agent is at work, and reports whether it did: one worker is left
// alone.
func (x *storm) strike() bool {
	users := x.calls.atWork()
	if len(users) == 0 {
		return false
	}
	user := users[x.random.IntN(len(users))]
	f := storms[x.random.IntN(len(storms))]
	a := x.all[slices.IndexFunc(x.all, func(a *apart) bool { return fmt.Sprint(a.user.Uid) == user })]
	x.mu.Lock()
	busy := x.busy[a] || len(x.busy) == len(x.all)-1
	if f.alone && !busy {
		x.busy[a] = true
	}
	x.mu.Unlock()
	if f.alone && busy {
		return false
	}
	x.log = append(x.log, f.name)
	ends, lasts := f.happens(x, a)
	x.after.Go(func() {
		time.Sleep(lasts)
		ends()
		x.mu.Lock()
		defer x.mu.Unlock()
		if f.alone {
			delete(x.busy, a)
		}
	})
	return true
}
