package hosts

import "strings"

// Flows whose roles log that they begin in ../log of a workspace: one file for all hosts.

// six has six steps, one after the other; the fourth leaves an artifact for the bucket, and waits.
func six(wait string) string {
	text := `version: 1
name: six
roles:
  a: ROLE
  b: ROLE
  c: ROLE
  d: ROLE
  e: ROLE
  f: ROLE
graph:
  $START: {new: {role: a, prompt: "{{ prompt }}"}}
  a: {done: {role: b, prompt: go on}}
  b: {done: {role: c, prompt: go on}}
  c: {done: {role: d, prompt: go on}}
  d: {done: {role: e, prompt: go on}}
  e: {done: {role: f, prompt: go on}}
  f: {done: {role: $END, prompt: all six}}
`
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		does := "sleep 0.02"
		if name == "d" {
			does = `head -c 400000 /dev/zero > $PLAIT_ARTIFACTS/big; ` + wait
		}
		text = strings.Replace(text, "ROLE", role(name, does), 1)
	}
	return text
}

// split forks into three paths, one of which calls a flow that forks, and calls another after the join.
var split = map[string]string{
	"team.yaml": `version: 1
name: team
limits: {maxConcurrent: 3}
roles:
  plan: ` + role("plan", "sleep 0.01") + `
  a1: ` + role("a1", "sleep 0.02") + `
  a2: ` + role("a2", "sleep 0.02") + `
  b1: {flow: part}
  c1: ` + role("c1", "sleep 0.03; head -c 300000 /dev/zero > $PLAIT_ARTIFACTS/big") + `
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
`,
	"part.yaml": `version: 1
name: part
roles:
  x1: ` + role("x1", "sleep 0.01") + `
  y1: ` + role("y1", "sleep 0.01") + `
  y2: ` + role("y2", "sleep 0.01") + `
forks: {two: {forkStrategy: serial, forkPaths: [{pathId: x, childNodeId: x1}, {pathId: y, childNodeId: y1}]}}
joins: {one: {forkPathIds: [x, y]}}
graph:
  $START: {new: {role: two, prompt: "{{ prompt }}"}}
  x1: {done: {role: one}}
  y1: {done: {role: y2, prompt: go on}}
  y2: {done: {role: one}}
  one: {joined: {role: $END}}
`,
	"end.yaml": `version: 1
name: end
roles: {z: ` + role("z", "sleep 0.01") + `}
graph:
  $START: {new: {role: z, prompt: "{{ prompt }}"}}
  z: {done: {role: $END}}
`,
}

// splitSteps is how many agents a run of split starts.
const splitSteps = 8
