package cli

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/soak"
)

// teamFlow forks, and calls a flow that forks, inside a path and after the join.
const teamFlow = `version: 1
name: team
limits: {maxConcurrent: 3}
roles:
  plan: {agent: {kind: command, command: [fake, log=../log, sleep=10ms, "say=plan"]}}
  a1: {agent: {kind: command, command: [fake, log=../log, sleep=20ms, "say=a one"]}}
  a2: {access: write, agent: {kind: command, command: [fake, log=../log, sleep=20ms, "say=a two"]}}
  b1: {flow: part}
  c1: {agent: {kind: command, command: [fake, log=../log, sleep=30ms, "leave=c.txt:left", "say=c one"]}}
  last: {flow: end}
forks: {split: {forkPaths: [{pathId: a, childNodeId: a1}, {pathId: b, childNodeId: b1}, {pathId: c, childNodeId: c1}]}}
joins: {met: {forkPathIds: [a, b, c], mainPathId: b}}
graph:
  $START: {new: {role: plan, prompt: "{{ prompt }}"}}
  plan: {done: {role: split}}
  a1: {done: {role: a2, prompt: go on}}
  a2: {done: {role: met}}
  b1: {done: {role: met}}
  c1: {done: {role: met}}
  met: {joined: {role: last, prompt: "{{ paths.a.text }}{{ paths.b.text }}{{ paths.c.text }}"}}
  last: {done: {role: $END, prompt: all of them}}
`

const partFlow = `version: 1
name: part
roles:
  x1: {agent: {kind: command, command: [fake, log=../log, sleep=10ms, "say=x one"]}}
  y1: {agent: {kind: command, command: [fake, log=../log, sleep=10ms, "say=y one"]}}
  y2: {agent: {kind: command, command: [fake, log=../log, sleep=10ms, "say=y two"]}}
forks: {two: {forkStrategy: serial, forkPaths: [{pathId: x, childNodeId: x1}, {pathId: y, childNodeId: y1}]}}
joins: {one: {forkPathIds: [x, y]}}
graph:
  $START: {new: {role: two, prompt: "{{ prompt }}"}}
  x1: {done: {role: one}}
  y1: {done: {role: y2, prompt: go on}}
  y2: {done: {role: one}}
  one: {joined: {role: $END}}
`

const endFlow = `version: 1
name: end
roles: {z: {agent: {kind: command, command: [fake, log=../log, sleep=10ms, "say=z"]}}}
graph:
  $START: {new: {role: z, prompt: "{{ prompt }}"}}
  z: {done: {role: $END}}
`

func newTeam(t *testing.T) *place {
	p := newPlace(t)
	p.write("team.yaml", teamFlow)
	p.write("part.yaml", partFlow)
	p.write("end.yaml", endFlow)
	return p
}

// committed returns the roles of the steps of all threads of a task.
func (p *place) committed() []string {
	p.t.Helper()
	out, code := p.run("thread", "list", "--parts", "--all", "-n", "0", "--json")
	var v struct {
		Data struct{ Threads []struct{ ID string } }
	}
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != 0 {
		p.t.Fatalf("thread list: exit code %d, %v: %s", code, err, out)
	}
	var all []string
	for _, t := range v.Data.Threads {
		_, roles, _ := p.thread(t.ID)
		all = append(all, roles...)
	}
	return all
}

// TestKillTeam kills plait at random times while paths and called flows run, until
// the flow is through: the outcome is that of a run that nobody disturbed, and
// nothing that was committed in any thread ran again.
func TestKillTeam(t *testing.T) {
	calm := newTeam(t)
	began := time.Now()
	if out, code := calm.run("run", "team.yaml", "-p", "go", "-q", "--id", killID); code != 0 {
		t.Fatalf("undisturbed run: exit code %d: %s", code, out)
	}
	took := time.Since(began)
	want, code := calm.run("thread", "show", killID, "--digest")
	if code != 0 {
		t.Fatalf("digest: exit code %d: %q", code, want)
	}
	if n := len(calm.log()); n != 8 {
		t.Fatalf("%d agents ran, want 8: %v", n, calm.log())
	}
	rounds := soak.Rounds(t, (killRounds+3)/4)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d, an undisturbed run takes %v", seed, took)
	var kills atomic.Int64
	t.Cleanup(func() {
		soak.Figure(t, "%d runs with %d kills, same outcome digest, no committed step twice", rounds, kills.Load())
	})
	for round := range rounds {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			kills.Add(int64(killTeamRound(t, rand.New(rand.NewPCG(seed, uint64(round))), took, want)))
		})
	}
}

// killTeamRound returns how often plait was killed.
func killTeamRound(t *testing.T, random *rand.Rand, took time.Duration, want string) int {
	p := newTeam(t)
	type mark struct {
		committed []string
		logged    int
	}
	var marks []mark
	args := []string{"run", "team.yaml", "-p", "go", "-q", "--id", killID}
	for kills := 0; ; kills++ {
		limit := time.Duration(-1)
		if kills < 5 {
			limit = time.Duration(random.Int64N(int64(took)))
		}
		if err := p.strike(limit, args...); err != nil {
			t.Fatalf("%s after %d kills: %v", args[0], kills, err)
		}
		status, _, found := p.thread(killID)
		if status == "completed" {
			break
		}
		if found {
			args = []string{"resume", killID, "--again", "-q"}
		}
		marks = append(marks, mark{p.committed(), len(p.log())})
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
