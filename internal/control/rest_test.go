package control

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/store"
)

// What is in the way of a merge is not tried for ever, also by a thread that others wait for.
func TestAMergeThatIsInTheWay(t *testing.T) {
	for _, outer := range []bool{false, true} {
		h := twoWriters(t, nil, edits("b", "two\n"))
		h.agents["one"] = func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result, error) {
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
		ctx, stop := context.WithTimeout(t.Context(), 60*time.Second)
		row, err := c.Drive(ctx, row.ID, Resume{Wait: true})
		stop()
		if err != nil {
			t.Fatal(err)
		}
		wantStatus(t, row, store.Blocked, map[bool]string{false: "conflict", true: "child"}[outer])
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
