package web

import "github.com/plait-run/plait/internal/record/thread"

// gated asks for approval, then asks a question.
const gated = `
version: 1
name: gated
roles: {plan: {description: plans}, work: {description: works}}
gates:
  go-ahead: {kind: approval, question: "Do {{ what }}?", timeout: 1h, onTimeout: rejected}
  port: {kind: input, question: "Which port?", options: ["80", "8080"]}
graph:
  $START: {new: {role: plan, prompt: "{{ prompt }}"}}
  plan: {ready: {role: go-ahead}}
  go-ahead:
    approved: {role: port}
    rejected: {role: $END, code: 1, prompt: "not {{ what }}: {{ answer }}"}
  port: {answered: {role: work, prompt: "{{ what }} on {{ answer }}"}}
  work: {done: {role: $END, prompt: over}}
`

func gatedAgents() map[string]scripted {
	return map[string]scripted{"plan": say(`{"$status":"ready","what":"the thing"}`),
		"work": say("---\n$status: done\n---\nIt is done."), "assistant": say("I am here."),
		thread.RoleCompact: say("All that was said.")}
}

// asking asks for words immediately.
const asking = `
version: 1
name: asking
roles: {work: {description: works}}
gates: {port: {kind: input, question: "Which port?", options: ["80", "8080"]}}
graph:
  $START: {new: {role: port}}
  port: {answered: {role: work, prompt: "on {{ answer }}"}}
  work: {done: {role: $END, prompt: over}}
`

// chatty works while it says many things.
const chatty = `
version: 1
name: chatty
limits: {maxRounds: 100}
roles: {work: {description: works}}
graph:
  $START: {new: {role: work, prompt: "{{ prompt }}"}}
  work:
    more: {role: work, prompt: again}
    done: {role: $END, prompt: over}
`
