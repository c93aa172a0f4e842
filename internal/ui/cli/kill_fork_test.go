package cli

import (
	"encoding/json"
	"testing"

	"github.com/plait-run/plait/internal/testing/soak"
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
// the flow has finished: the outcome is that of an undisturbed run, and nothing
// that was committed in any thread ran again.
func TestKillTeam(t *testing.T) {
	killing{place: newTeam, flow: "team.yaml", agents: 8, kills: 5, reach: 1, parts: true}.test(t,
		soak.Rounds(t, soak.Tries(62, 6)))
}
