package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/history"
	"github.com/plait-run/plait/internal/testing/soak"
)

// killFlow has six steps that each take a while; some only read, some act.
const killFlow = `version: 1
name: six
roles:
  a: {description: one, agent: {kind: command, command: [fake, log=../log, sleep=20ms, "say=from a"]}}
  b: {description: two, access: write, agent: {kind: command, command: [fake, log=../log, sleep=20ms, "leave=b.txt:left", "say=from b"]}}
  c: {description: three, agent: {kind: command, command: [fake, log=../log, sleep=20ms, status=ready, "say=from c"]}}
  d: {description: four, agent: {kind: command, command: [fake, log=../log, sleep=20ms, "say=from d"]}}
  e: {description: five, access: write, agent: {kind: command, command: [fake, log=../log, sleep=20ms, "say=from e"]}}
  f: {description: six, agent: {kind: command, command: [fake, log=../log, sleep=20ms, "say=from f"]}}
graph:
  $START: {new: {role: a, prompt: "{{ prompt }}"}}
  a: {done: {role: b, prompt: go on}}
  b: {done: {role: c, prompt: go on}}
  c: {ready: {role: d, prompt: go on}}
  d: {done: {role: e, prompt: go on}}
  e: {done: {role: f, prompt: go on}}
  f: {done: {role: $END, prompt: all six}}
`

const killID = "01JZZZZZZZZZZZZZZZZZZZZZZZ"

// A place is a home and a workspace in which plait is run as a process.
type place struct {
	t       *testing.T
	work    string
	env     []string
	logFile string // the agents' log
	served  bool   // this process serves the file system that the place is on
}

func newPlace(t *testing.T) *place {
	p := &place{t: t, work: tempDir(t), env: []string{"PATH=" + os.Getenv("PATH")}}
	p.logFile = filepath.Join(p.work, "log")
	for key, value := range scriptEnv(p.work) {
		p.env = append(p.env, key+"="+value)
	}
	if err := os.MkdirAll(filepath.Join(p.work, "ws", ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.write("six.yaml", killFlow)
	return p
}

// tempDir returns a directory for scriptEnv. Its Codex homes cannot be listed, nor removed as they are.
func tempDir(t *testing.T) string {
	dir := t.TempDir()
	t.Cleanup(func() { os.Chmod(filepath.Join(dir, "user", ".local", "state", "plait", "codex"), 0o700) })
	return dir
}

func (p *place) write(name, text string) {
	if err := os.WriteFile(filepath.Join(p.work, "ws", name), []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) command(args ...string) *exec.Cmd {
	path, err := exec.LookPath("plait")
	if err != nil {
		p.t.Fatal(err)
	}
	ws := filepath.Join(p.work, "ws")
	cmd := exec.Command(path, args...)
	if p.served { // a forked child that changes to such a directory itself can deadlock with its parent
		cmd = exec.Command("env", append([]string{"-C", ws, path}, args...)...)
	} else {
		cmd.Dir = ws
	}
	cmd.Env = p.env
	return cmd
}

// git runs git in the workspace.
func (p *place) git(args ...string) {
	p.t.Helper()
	cmd := exec.Command("git", append([]string{"-C", filepath.Join(p.work, "ws")}, args...)...)
	cmd.Env = p.env
	if out, err := cmd.CombinedOutput(); err != nil {
		p.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// run runs plait to its end and returns what it printed and its exit code.
func (p *place) run(args ...string) (string, int) {
	p.t.Helper()
	cmd := p.command(args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		p.t.Fatal(err)
	}
	if code := cmd.ProcessState.ExitCode(); code != 0 {
		return out.String() + errs.String(), code
	}
	return out.String(), 0
}

// log returns the roles that agents were started for, in order.
func (p *place) log() []string {
	data, err := os.ReadFile(p.logFile)
	if err != nil {
		return nil
	}
	var roles []string
	for line := range strings.Lines(string(data)) {
		role, _, _ := strings.Cut(line, " ")
		roles = append(roles, role)
	}
	return roles
}

// strike runs plait and kills it after a while, half of the time with its whole process group. If
// after is negative, it lets plait end, and returns its error.
func (p *place) strike(after time.Duration, args ...string) error {
	cmd := p.command(args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var limit <-chan time.Time
	if after >= 0 {
		limit = time.After(after)
	}
	select {
	case err := <-ended:
		return err
	case <-limit:
		if after%2 == 0 {
			syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		} else {
			cmd.Process.Kill()
		}
		<-ended
		return nil
	}
}

// thread returns a thread's status and the roles of its steps.
func (p *place) thread(id string) (status string, roles []string, found bool) {
	p.t.Helper()
	out, code := p.run("thread", "show", id, "--json")
	if code == exitNotFound {
		return "", nil, false
	}
	var v struct {
		Data struct {
			Status string
			Steps  []struct{ Role string }
		}
	}
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != 0 {
		p.t.Fatalf("thread show: exit code %d, %v: %s", code, err, out)
	}
	for _, s := range v.Data.Steps {
		roles = append(roles, s.Role)
	}
	return v.Data.Status, roles, true
}

// extends fails the test unless the log is that over its entries, and begins with what it was the last time.
func (p *place) extends() {
	p.t.Helper()
	file := filepath.Join(p.work, "checkpoint")
	if _, err := os.Stat(file); err == nil {
		if out, code := p.run("proof", "check", file); code != 0 {
			p.t.Errorf("proof check: exit code %d: %s", code, out)
		}
	}
	out, code := p.run("proof", "show", "--json")
	var v struct {
		Data struct {
			Log  string
			Size int64
			Root dag.Hash
		}
	}
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != 0 {
		p.t.Fatalf("proof show: exit code %d, %v: %s", code, err, out)
	}
	now := history.Checkpoint{Origin: v.Data.Log, Size: v.Data.Size, Root: v.Data.Root}
	if err := os.WriteFile(file, []byte(now.String()), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// TestKillAnywhere kills plait at random times, until the flow has finished: the
// outcome is that of an undisturbed run, and nothing that was committed ran
// again.
func TestKillAnywhere(t *testing.T) {
	killing{place: newPlace, flow: "six.yaml", agents: 6, kills: 4, reach: 1.25}.test(t,
		soak.Rounds(t, soak.Tries(130, 12))) // 200 with TestKillTeam and TestKillPlan
}

// A killing is a flow whose driver is killed again and again.
type killing struct {
	place  func(*testing.T) *place
	flow   string
	agents int     // number of agents that work in it
	kills  int     // maximum
	reach  float64 // the latest time of a kill, as a fraction of the time of an undisturbed run
	parts  bool    // it has more than one thread
}

// test runs the flow again and again until plait has been killed want times in all.
func (k killing) test(t *testing.T, want int) {
	calm := k.place(t)
	began := time.Now()
	if out, code := calm.run("run", k.flow, "-p", "go", "-q", "--id", killID); code != 0 {
		t.Fatalf("undisturbed run: exit code %d: %s", code, out)
	}
	took := time.Since(began)
	digest, code := calm.run("thread", "show", killID, "--digest")
	if code != 0 || len(strings.TrimSpace(digest)) != 64 {
		t.Fatalf("digest: exit code %d: %q", code, digest)
	}
	if n := len(calm.log()); n != k.agents {
		t.Fatalf("%d agents ran, want %d: %v", n, k.agents, calm.log())
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d, an undisturbed run takes %v", seed, took)
	var rounds, kills atomic.Int64
	t.Cleanup(func() {
		soak.Figure(t, "%d runs with %d kills, same outcome digest, no committed step twice", rounds.Load(), kills.Load())
	})
	for hand := range 4 {
		t.Run(fmt.Sprint(hand), func(t *testing.T) {
			t.Parallel()
			for kills.Load() < int64(want) && !t.Failed() {
				round := rounds.Add(1)
				t.Run(fmt.Sprint(round), func(t *testing.T) {
					random := rand.New(rand.NewPCG(seed, uint64(round)))
					kills.Add(int64(k.round(t, random, time.Duration(k.reach*float64(took)), digest)))
				})
			}
		})
	}
}

// round returns how often plait was killed.
func (k killing) round(t *testing.T, random *rand.Rand, reach time.Duration, want string) int {
	p := k.place(t)
	type mark struct {
		committed []string
		logged    int
	}
	var marks []mark
	args := []string{"run", k.flow, "-p", "go", "-q", "--id", killID}
	for kills := 0; ; kills++ {
		limit := time.Duration(-1)
		if kills < k.kills {
			limit = time.Duration(random.Int64N(int64(reach)))
		}
		if err := p.strike(limit, args...); err != nil {
			t.Fatalf("%s after %d kills: %v", args[0], kills, err)
		}
		p.extends()
		status, roles, found := p.thread(killID)
		if status == "completed" {
			break
		}
		if found {
			args = []string{"resume", killID, "--again", "-q"}
		}
		if k.parts {
			roles = p.committed()
		}
		marks = append(marks, mark{roles, len(p.log())})
	}
	t.Logf("%d kills; committed at each: %v", len(marks), marks)
	if got, code := p.run("thread", "show", killID, "--digest"); code != 0 || got != want {
		t.Errorf("digest %q (exit code %d), want %q", got, code, want)
	}
	log := p.log()
	for _, m := range marks {
		for i, role := range log[m.logged:] {
			if slices.Contains(m.committed, role) {
				t.Errorf("%s was committed (%v), and run again as number %d of %v", role, m.committed, m.logged+i, log)
			}
		}
	}
	if out, code := p.run("verify"); code != 0 {
		t.Errorf("verify: exit code %d: %s", code, out)
	}
	if left := processesIn(p.work); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
	return len(marks)
}

// processesIn lists agents' processes that run below a directory.
func processesIn(dir string) []string {
	var out []string
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		env, err := os.ReadFile(file)
		if err == nil && bytes.Contains(env, []byte("PLAIT_TAG=")) && bytes.Contains(env, []byte("PLAIT_ARTIFACTS="+dir)) {
			cmdline, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
			out = append(out, fmt.Sprintf("%s: %q", file, cmdline))
		}
	}
	return out
}
