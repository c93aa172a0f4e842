package hosts

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// gridRole is a role that logs that it begins, in one file for all hosts and worktrees, and does something.
func gridRole(name, more, does string) string {
	return gridAgent(name, more, does+"; echo from "+name)
}

func gridAgent(name, more, does string) string {
	return fmt.Sprintf(`{description: %s, retry: {interrupted: true}, %sagent: {kind: command, pass: [GRID], command: `+
		`[sh, -ec, `+
		`"echo %s >> $GRID/log; %s"]}}`, name, more, name, does)
}

// gridPlan is a planner that has one agent change a file, and another look on with the conversation so far.
func gridPlan() string {
	plan := `{"$status": "planned", "sessionGoal": "mend it", "then": "end", "actions": [` +
		`{"id": "mend", "access": "write", "agent": "doer", "prompt": "mend"}, ` +
		`{"id": "look", "mode": "fork", "agent": "doer", "prompt": "look"}]}`
	return gridAgent("lead", "plan: true, ", "sleep 0.1; echo '"+strings.ReplaceAll(plan, `"`, `\"`)+"'")
}

// doer configures the agent of the plan's actions, which each worker needs to know.
const doer = `default: doer
agents:
  doer:
    kind: command
    pass: [GRID]
    command:
      - sh
      - -ec
      - |
        echo $PLAIT_ROLE >> $GRID/log
        sleep 0.3
        [ $PLAIT_ROLE = look ] || echo mended > mended.txt
        echo "{\"status\": \"success\", \"summary\": \"from $PLAIT_ROLE\"}"
`

// grid is a flow with a fork of two writers and a call, whose files are merged; a fork where the first path is
// enough and the other would never end; a plan of a writer and a forked reader; and a question.
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
  lead: ` + gridPlan() + `
  last: ` + gridRole("last", "access: write, ", "sleep 0.1; cat left.txt right.txt mended.txt > all.txt") + `
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
  raced: {joined: {role: lead, prompt: plan}}
  lead: {finished: {role: ask}}
  ask: {answered: {role: last, prompt: "it is {{ answer }}"}}
  last: {done: {role: $END, prompt: all}}
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

// gridSteps is how many agent steps the grid has: the one that never ends does not count.
const gridSteps = 10

// newGrid makes a team and a person's host with the grid's flows in a repository.
func newGrid(t *testing.T, record ...string) (*team, *host) {
	m := newTeam(t, record...)
	m.env = append(m.env, "GRID="+m.work)
	h := m.host("person")
	h.knowsDoer()
	for name, text := range grid {
		h.write(name, text)
	}
	repository(h)
	return m, h
}

// knowsDoer configures the agent of the plan.
func (h *host) knowsDoer() {
	h.t.Helper()
	dir := h.path(h.name, "user", "config", "plait")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(doer), 0o644); err != nil {
		h.t.Fatal(err)
	}
}
