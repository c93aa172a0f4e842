package hosts

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/testing/soak"
	"github.com/plait-run/plait/plaitd/pgtest"
)

// alone runs a flow on SQLite, undisturbed, and returns its outcome digest.
func alone(t *testing.T, prepare func(h *host), args ...string) string {
	t.Helper()
	h := newTeam(t).host("alone")
	prepare(h)
	h.must(args...)
	return digest(h)
}

func digest(h *host) string {
	h.t.Helper()
	got := strings.TrimSpace(h.must("thread", "show", taskID, "--digest"))
	if len(got) != 64 {
		h.t.Fatalf("a digest: %q", got)
	}
	return got
}

func writeSplit(h *host) {
	for name, text := range split {
		h.write(name, text)
	}
}

// writeAudit writes a small repository with a Go package to audit.
func writeAudit(h *host) {
	flow, err := os.ReadFile(filepath.Join("..", "..", "examples", "audit.yaml"))
	if err != nil {
		h.t.Fatal(err)
	}
	h.write("audit.yaml", string(flow))
	h.write("go.mod", "module example.com/small\n\ngo 1.26\n")
	h.write("small.go", "// Package small is small.\npackage small\n\n// Two is two.\nfunc Two() int { return 2 }\n")
	h.write("small_test.go", "package small\n\nimport \"testing\"\n\nfunc TestTwo(t *testing.T) {\n\tif Two() != 2 "+
		"{\n\t\tt.Fatal()\n\t}\n}\n")
	repository(h)
}

// repository makes the workspace a Git repository, the same on every host.
func repository(h *host) {
	ws := h.workspace()
	if err := os.RemoveAll(filepath.Join(ws, ".git")); err != nil {
		h.t.Fatal(err)
	}
	for _, args := range [][]string{
		{"init", "-q"}, {"add", "."}, {"-c", "user.name=Ada", "-c", "user.email=ada@example.com", "commit", "-q",
			"--date=2026-01-01T00:00:00Z", "-m", "all of it"},
	} {
		cmd := exec.Command("git", append([]string{"-C", ws}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_COMMITTER_DATE=2026-01-01T00:00:00Z", "GIT_CONFIG_GLOBAL=/dev/null")
		if out, err := cmd.CombinedOutput(); err != nil {
			h.t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
}

// TestDigests runs flows on SQLite, on Postgres, and on Postgres with a bucket: one outcome digest.
func TestDigests(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	needHosts(t)
	flows := map[string]struct {
		prepare func(*host)
		file    string
		large   bool // something for the bucket
	}{
		"chain": {func(h *host) { h.write("six.yaml", six("true")) }, "six.yaml", true},
		"fork":  {writeSplit, "team.yaml", true},
		"audit": {writeAudit, "audit.yaml", false},
	}
	for name, x := range flows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := []string{"run", x.file, "-p", "go", "-q", "--id", taskID}
			want := alone(t, x.prepare, args...)
			bucket, at := newBucket(t)
			for _, record := range [][]string{{newRecord(t, server)}, {newRecord(t, server), at}} {
				h := newTeam(t, record...).host("one")
				x.prepare(h)
				h.must(args...)
				if got := digest(h); got != want {
					t.Errorf("digest %s, on SQLite %s", got, want)
				}
				h.must("verify")
			}
			if got := len(bucket.Keys()); x.large != (got > 0) {
				t.Errorf("%d keys in the bucket", got)
			}
		})
	}
}

// TestResumeElsewhere begins a task on a host, kills the host, and resumes it on another, which
// shares nothing with it but the record.
func TestResumeElsewhere(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	needHosts(t)
	flow := six("while [ ! -e ../go ]; do sleep 0.01; done")
	want := alone(t, func(h *host) {
		h.write("six.yaml", flow)
		h.write("../../go", "")
	}, "run", "six.yaml", "-p", "go", "-q", "--id", taskID)
	bucket, at := newBucket(t)
	m := newTeam(t, newRecord(t, server), at, impatient+"=2s")
	a, b := m.host("a"), m.host("b")
	a.write("six.yaml", flow)
	p := a.begin("run", "six.yaml", "-p", "go", "-q", "--id", taskID)
	m.until("the fourth step begins", func() bool { return slices.Contains(m.log(), "d") })
	p.kill()
	if err := os.WriteFile(m.path("go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b.takeOver()
	if got := digest(b); got != want {
		t.Errorf("digest %s, undisturbed %s", got, want)
	}
	if got := m.log(); !slices.Equal(got, []string{"a", "b", "c", "d", "d", "e", "f"}) {
		t.Errorf("agents were started for %q", got)
	}
	b.must("verify")
	if len(bucket.Keys()) == 0 {
		t.Error("nothing is in the bucket")
	}
}

// Exit codes of plait: another process drives the task; its own lease ran out, which happens on a busy machine.
const exitConflict, exitInterrupted = 7, 130

// takeOver resumes the task as soon as its host is taken for dead.
func (h *host) takeOver() {
	h.t.Helper()
	h.until("the host that had the task is taken for dead", func() bool {
		out, code := h.run("resume", taskID, "--again", "-q")
		if code != 0 && code != exitConflict && code != exitInterrupted {
			h.t.Fatalf("resume: exit code %d: %s", code, out)
		}
		return code == 0
	})
}

// TestKillHosts kills one host after the other while a flow with forks and calls runs; each time
// another takes over. The outcome is that of an undisturbed run, and nothing that was committed
// ran again.
func TestKillHosts(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	needHosts(t)
	began := time.Now()
	want := alone(t, writeSplit, "run", "team.yaml", "-p", "go", "-q", "--id", taskID)
	took := time.Since(began)
	rounds, kills := soak.Rounds(t, 2), 0
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d, an undisturbed run takes %v", seed, took)
	random := rand.New(rand.NewPCG(seed, 0))
	for range rounds {
		kills += killRound(t, newTeam(t, newRecord(t, server), impatient+"=1s"), random, took, want)
	}
	soak.Figure(t, "%d runs with %d kills of hosts, each time another took over: same outcome digest, no committed step "+
		"twice", rounds, kills)
}

func killRound(t *testing.T, m *team, random *rand.Rand, took time.Duration, want string) (kills int) {
	hosts := []*host{m.host("a"), m.host("b"), m.host("c")}
	for _, h := range hosts {
		writeSplit(h) // it is read until the task is in the record
	}
	type mark struct {
		committed []string
		logged    int
	}
	var marks []mark
	args := []string{"run", "team.yaml", "-p", "go", "-q", "--id", taskID}
	for n := 0; ; n++ {
		h := hosts[n%len(hosts)]
		p := h.begin(args...)
		var limit <-chan time.Time
		if n < 4 {
			limit = time.After(time.Duration(random.Int64N(int64(took))))
		}
		select {
		case <-p.ended:
			code := p.cmd.ProcessState.ExitCode()
			if code == exitConflict { // not yet known to be dead
				n--
				continue
			}
			if code != 0 && code != exitInterrupted {
				t.Fatalf("%s after %d kills: exit code %d", args[0], kills, code)
			}
		case <-limit:
			kills++
			p.kill()
		}
		status, committed := h.committed()
		if status == "completed" {
			break
		}
		if status != "" {
			args = []string{"resume", taskID, "--again", "-q"}
		}
		marks = append(marks, mark{committed, len(m.log())})
	}
	log := m.log()
	for _, x := range marks {
		for _, role := range log[x.logged:] {
			if slices.Contains(x.committed, role) {
				t.Errorf("%s was committed (%v), and ran again: %v", role, x.committed, log)
			}
		}
	}
	if got := digest(hosts[0]); got != want {
		t.Errorf("digest %s, want %s", got, want)
	}
	hosts[1].must("verify")
	return kills
}

// committed returns the status of the task, empty if there is none, and the roles of all steps.
func (h *host) committed() (status string, roles []string) {
	h.t.Helper()
	type thread struct {
		ID, Status string
		Steps      []struct{ Role string }
	}
	var list struct {
		Data struct{ Threads []struct{ ID string } }
	}
	h.read(&list, "thread", "list", "--parts", "--all", "-n", "0", "--json")
	for _, x := range list.Data.Threads {
		var one struct{ Data thread }
		h.read(&one, "thread", "show", x.ID, "--json")
		if x.ID == taskID {
			status = one.Data.Status
		}
		for _, s := range one.Data.Steps {
			roles = append(roles, s.Role)
		}
	}
	return status, roles
}

func (h *host) read(v any, args ...string) {
	h.t.Helper()
	if err := json.Unmarshal([]byte(h.must(args...)), v); err != nil {
		h.t.Fatal(err)
	}
}

// TestCrashesUnderRuns stops Postgres at random while hosts run flows: no run notices, and no
// agent is started twice.
func TestCrashesUnderRuns(t *testing.T) {
	t.Parallel()
	crashes := soak.Rounds(t, 3)
	needHosts(t)
	server := pgtest.Start(t, pgtest.Config{})
	args := []string{"run", "team.yaml", "-p", "go", "-q", "--id", taskID}
	want := alone(t, writeSplit, args...)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	runs := 0
	for done := 0; done < crashes; runs++ {
		m := newTeam(t, newRecord(t, server))
		h := m.host("a")
		writeSplit(h)
		p := h.begin(args...)
		for over := false; !over; {
			select {
			case <-p.ended:
				over = true
			case <-time.After(time.Duration(random.IntN(600)) * time.Millisecond):
				if done < crashes {
					server.Stop(pgtest.Immediate)
					time.Sleep(time.Duration(random.IntN(1000)) * time.Millisecond)
					server.Start()
					done++
				}
			}
		}
		if code := p.cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("run %d: exit code %d", runs, code)
		}
		if got := m.log(); len(got) != splitSteps {
			t.Errorf("%d agents were started, of %d: %q", len(got), splitSteps, got)
		}
		if got := digest(h); got != want {
			t.Errorf("digest %s, want %s", got, want)
		}
		h.must("verify")
	}
	soak.Figure(t, "%d crashes of Postgres under %d runs: same outcome digest, no agent started twice", crashes, runs)
}

// TestZombieHost stops a host while its agent runs, until another has taken its task over, and lets
// it continue: it begins nothing, and reports that another has the task.
func TestZombieHost(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	m := newTeam(t, newRecord(t, server), impatient+"=2s")
	a, b := m.host("a"), m.host("b")
	a.write("six.yaml", six("while [ ! -e ../go ]; do sleep 0.01; done"))
	p := a.begin("run", "six.yaml", "-p", "go", "-q", "--id", taskID)
	m.until("the fourth step begins", func() bool { return slices.Contains(m.log(), "d") })
	p.signal(syscall.SIGSTOP) // its agent has its own process group, and continues
	if err := os.WriteFile(m.path("go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b.takeOver()
	before := digest(b)
	p.signal(syscall.SIGCONT)
	m.until("the zombie ends", func() bool {
		select {
		case <-p.ended:
			return true
		default:
			return false
		}
	})
	for _, want := range []string{"another process has taken task", "over", "show"} {
		if code := p.cmd.ProcessState.ExitCode(); code != 130 || !strings.Contains(p.said.String(), want) {
			t.Errorf("the zombie exits with %d and says %q, not %q", code, p.said, want)
		}
	}
	if got := m.log(); !slices.Equal(got, []string{"a", "b", "c", "d", "d", "e", "f"}) {
		t.Errorf("agents were started for %q", got)
	}
	if got := digest(b); got != before {
		t.Errorf("the zombie changed the outcome: %s, was %s", got, before)
	}
	b.must("verify")
}
