package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/plait-run/plait/internal/testing/soak"
)

// faultFlow has steps that act, and two that write concurrently and are merged.
const faultFlow = `version: 1
name: faults
roles:
  a: {access: write, agent: {kind: command, command: [sh, -c, "echo $PLAIT_ROLE >>LOG; echo left >a.txt && echo from a"]}}
  l: {access: write, agent: {kind: command, command: [sh, -c, "echo $PLAIT_ROLE >>LOG; echo left >l.txt && echo from l"]}}
  r: {access: write, agent: {kind: command, command: [sh, -c, "echo $PLAIT_ROLE >>LOG; echo left >r.txt && echo from r"]}}
  z: {agent: {kind: command, command: [sh, -c, "echo $PLAIT_ROLE >>LOG; echo from z"]}}
forks: {split: {forkPaths: [{pathId: left, childNodeId: l}, {pathId: right, childNodeId: r}]}}
joins: {met: {forkPathIds: [left, right], mainPathId: left}}
graph:
  $START: {new: {role: a, prompt: "{{ prompt }}"}}
  a: {done: {role: split}}
  l: {done: {role: met}}
  r: {done: {role: met}}
  met: {joined: {role: z, prompt: "{{ paths.left.text }}{{ paths.right.text }}"}}
  z: {done: {role: $END}}
`

// newFaulty is a place whose record and working tree, a git repository, are on a disk that can fail. The
// agents' log is not.
func newFaulty(t *testing.T) (*place, *faultDisk) {
	t.Helper()
	p := newPlace(t)
	log := filepath.Join(p.work, "log")
	p.work = filepath.Join(p.work, "disk")
	if err := os.Mkdir(p.work, 0o755); err != nil {
		t.Fatal(err)
	}
	d := newFaultDisk(t, p.work)
	p.env = p.env[:1]
	for key, value := range scriptEnv(p.work) {
		p.env = append(p.env, key+"="+value)
	}
	p.logFile, p.served = log, true
	if err := os.Mkdir(filepath.Join(p.work, "ws"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.write("faults.yaml", strings.ReplaceAll(faultFlow, "LOG", log))
	p.git("init", "-q")
	p.git("add", "-A")
	p.git("commit", "-q", "-m", "begin")
	return p, d
}

// TestFaultsOfTheDisk makes changes of plait and its git to the disk fail, one in each run and in each way, or
// fills the disk at one and makes room again later. Then it resumes the task: its outcome and its files are
// those of an undisturbed run, and no committed step runs again.
func TestFaultsOfTheDisk(t *testing.T) {
	calm, d := newFaulty(t)
	if out, code := calm.run("run", "faults.yaml", "-p", "go", "-q", "--id", killID); code != 0 {
		t.Fatalf("undisturbed run: exit code %d: %s", code, out)
	}
	want, _ := calm.run("thread", "show", killID, "--digest")
	type trial struct {
		fault fault
		n     int
	}
	var all []trial
	for _, f := range faults {
		for n := range d.seen[f] {
			all = append(all, trial{f, n + 1})
		}
	}
	t.Logf("%v changes", d.seen)
	tried := soak.Portion(t, all, soak.Tries(32, 32))
	var hits atomic.Int64
	t.Cleanup(func() {
		soak.Figure(t, "%d of %d changes to the disk failed, each in one of %d ways: same outcome digest, same files, "+
			"no committed step twice",
			hits.Load(), len(all), len(faults))
	})
	for _, x := range tried {
		t.Run(fmt.Sprintf("%s/%d", x.fault, x.n), func(t *testing.T) {
			t.Parallel()
			p, d := newFaulty(t)
			d.arm(x.fault, x.n)
			out, code := p.run("run", "faults.yaml", "-p", "go", "-q", "--id", killID)
			hit := d.disarm()
			if hit != "" {
				hits.Add(1)
			}
			t.Logf("%s: exit code %d: %s", hit, code, out)
			p.extends()
			p.goOn(want)
			p.extends()
		})
	}
}

// goOn resumes a task, now without faults, until it is done, and checks the outcome.
func (p *place) goOn(want string) {
	t := p.t
	t.Helper()
	for try := 0; ; try++ {
		status, _, found := p.thread(killID)
		if status == "completed" {
			break
		}
		if try == 5 {
			t.Fatalf("after %d times it is still %s", try, status)
		}
		committed, logged := []string{}, len(p.log())
		args := []string{"run", "faults.yaml", "-p", "go", "-q", "--id", killID}
		if found {
			committed = p.committed()
			args = []string{"resume", killID, "--again", "-q"}
		}
		if out, code := p.run(args...); code != 0 {
			t.Logf("%s: exit code %d: %s", args[0], code, out)
		}
		for _, role := range p.log()[logged:] {
			if slices.Contains(committed, role) {
				t.Errorf("%s was committed and ran again", role)
			}
		}
	}
	if got, code := p.run("thread", "show", killID, "--digest"); code != 0 || got != want {
		t.Errorf("digest %q (exit code %d), want %q", got, code, want)
	}
	for _, name := range []string{"a.txt", "l.txt", "r.txt"} {
		if got, err := os.ReadFile(filepath.Join(p.work, "ws", name)); err != nil || string(got) != "left\n" {
			t.Errorf("%s is %q: %v", name, got, err)
		}
	}
	if out, code := p.run("verify"); code != 0 {
		t.Errorf("verify: exit code %d: %s", code, out)
	}
}
