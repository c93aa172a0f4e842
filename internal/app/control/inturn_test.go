package control

import (
	"testing"

	"github.com/plait-run/plait/internal/flow/parse"
)

const bothWrite = `
version: 1
name: both
roles: {one: {description: d, access: write}, two: {description: d, access: write}}
forks: {split: {forkStrategy: parallel, forkPaths: [{pathId: a, childNodeId: one}, {pathId: b, childNodeId: two}]}}
joins: {met: {forkPathIds: [a, b]}}
graph:
  $START: {new: {role: split, prompt: go}}
  one: {done: {role: met}}
  two: {done: {role: met}}
  met: {joined: {role: $END, prompt: over}}
`

// TestInTurn checks when people are told that agents that change files wait for each other: if two
// paths that write could run concurrently, and there is no git.
func TestInTurn(t *testing.T) {
	h := newHouse(t, nil)
	c := h.controller()
	for name, x := range map[string]struct {
		yaml string
		want bool
	}{
		"two write":  {bothWrite, true},
		"one writes": {replaceOnce(bothWrite, "one: {description: d, access: write}", "one: {description: d}"), false},
		"one by one": {replaceOnce(bothWrite, "parallel", "serial"), false},
		"no fork":    {loop, false},
	} {
		if got, err := c.InTurn(t.Context(), mustPack(t, x.yaml).Bundle, h.dir); (got != "") != x.want || err != nil {
			t.Errorf("%s: it says %q, %v", name, got, err)
		}
	}
	def, _ := parse.BuiltIn("orchestrate")
	plans, err := Pack(def)
	if got, _ := c.InTurn(t.Context(), plans.Bundle, h.dir); got == "" || err != nil {
		t.Errorf("of agents that a plan starts it says %q, %v", got, err)
	}
	h.repository()
	if got, err := c.InTurn(t.Context(), mustPack(t, bothWrite).Bundle, h.dir); got != "" || err != nil {
		t.Errorf("with git it says %q, %v", got, err)
	}
}
