package control

import (
	"testing"

	"github.com/plait-run/plait/internal/record/store"
)

// What the actions of a called flow write in a path's worktree is merged with what the path
// itself writes, before or after.
func TestAPlanInAWritingPath(t *testing.T) {
	for name, routes := range map[string][3]string{
		"before": {"lead", "  lead: {done: {role: dev, prompt: dev}}", "  dev: {done: {role: seen}}"},
		"after":  {"dev", "  dev: {done: {role: lead, prompt: lead}}", "  lead: {done: {role: seen}}"},
	} {
		for _, mode := range []string{"spawn", "fork"} {
			t.Run(mode+" "+name, func(t *testing.T) {
				h := newHouse(t, map[string]scripted{
					"planner": plans(actions("", act("one", `, "access": "write", "mode": "`+mode+`"`)), finish),
					"one":     edits("n", "of one"),
					"dev":     writesFile("m", "of dev"),
					"other":   writesFile("k", "of other"),
				})
				h.repository()
				c := h.controller()
				row := h.drive(c, h.beginPlanning(c, `version: 1
name: outer
description: d
roles:
  dev: {description: develops, access: write}
  lead: {flow: orchestrate}
  other: {description: writes, access: write}
forks:
  look:
    forkPaths: [{pathId: a, childNodeId: `+routes[0]+`}, {pathId: b, childNodeId: other}]
joins:
  seen: {forkPathIds: [a, b]}
graph:
  $START: {new: {role: look, prompt: go}}
`+routes[1]+"\n"+routes[2]+`
  other: {done: {role: seen}}
  seen: {joined: {role: $END, prompt: over}}
`).ID, Resume{})
				wantStatus(t, row, store.Completed, "")
				if h.read("n") != "of one" || h.read("m") != "of dev" || h.read("k") != "of other" {
					t.Errorf("n holds %q, m %q, k %q", h.read("n"), h.read("m"), h.read("k"))
				}
			})
		}
	}
}
