package control

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/store"
)

// A merge that something blocks is not retried forever, even by a thread that others wait for.
func TestAMergeThatIsInTheWay(t *testing.T) {
	t.Parallel()
	for _, outer := range []bool{false, true} {
		h := twoWriters(t, nil, edits("b", "two\n"))
		h.agents["one"] = func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result,
			error) {
			if err := os.MkdirAll(filepath.Join(h.dir, "c"), 0o755); err != nil {
				t.Error(err)
			}
			h.file("c/kept.ignored", "the person's")
			h.file(".git/info/exclude", "*.ignored\n")
			return edits("c", "a file")(ctx, req, emit)
		}
		c := h.controller()
		var row store.Thread
		if outer {
			row = h.beginPlanning(c, `version: 1
name: outer
description: d
roles:
  lead: {flow: orchestrate}
  other: {description: reads}
forks:
  look:
    forkPaths: [{pathId: a, childNodeId: lead}, {pathId: b, childNodeId: other}]
joins:
  seen: {forkPathIds: [a, b]}
graph:
  $START: {new: {role: look, prompt: go}}
  lead: {done: {role: seen}}
  other: {done: {role: seen}}
  seen: {joined: {role: $END, prompt: over}}
`)
			h.agents["other"] = say(status("done"))
		} else {
			row = h.orchestrate(c)
		}
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
		row, err := c.Drive(ctx, row.ID, Resume{Wait: true})
		stop()
		if err != nil {
			t.Fatal(err)
		}
		wantStatus(t, row, store.Blocked, map[bool]store.ReasonKind{false: "conflict", true: "child"}[outer])
		if !strings.Contains(row.Reason.Message, `"c"`) || h.read("c/kept.ignored") != "the person's" {
			t.Errorf("blocked: %s", row.Reason.Message)
		}
		if err := os.RemoveAll(filepath.Join(h.dir, "c")); err != nil {
			t.Fatal(err)
		}
		row = h.drive(h.controller(), row.ID, Resume{})
		wantStatus(t, row, store.Completed, "")
		if h.read("c") != "a file" || h.read("b") != "two\n" {
			t.Errorf("c holds %q, b %q", h.read("c"), h.read("b"))
		}
	}
}

// A manual fork of an action is given what the action depends on.
func TestAForkOfAnActionIsGivenItsInputs(t *testing.T) {
	for _, mode := range []string{"spawn", "fork"} {
		var told []string
		h := newHouse(t, map[string]scripted{
			"planner": plans(actions("", act("look", ""), act("then", `, "dependsOn": ["look"], "mode": "`+mode+`"`)),
				finish),
			"look": output("success", "It is green."),
			"then": func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
				told = append(told, req.Prompt)
				return output("success", "fine")(ctx, req, emit)
			},
		})
		c := h.controller()
		row := h.drive(c, h.orchestrate(c).ID, Resume{})
		wantStatus(t, row, store.Completed, "")
		fork, err := c.Fork(t.Context(),
			Fork{Thread: h.below(row)["then"].ID, At: map[string]string{"spawn": "0", "fork": "1"}[mode]})
		if err != nil {
			t.Fatal(err)
		}
		wantStatus(t, h.drive(h.controller(), fork.ID, Resume{}), store.Completed, "")
		if len(told) != 2 {
			t.Fatalf("it ran %d times", len(told))
		}
		for i, prompt := range told {
			if !strings.Contains(prompt, "look, which this depends on, is completed: It is green.") {
				t.Errorf("%s, run %d is told:\n%s", mode, i, prompt)
			}
		}
	}
}
