package control

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/store"
)

// A link made by an agent leads into the tree, never out of it, for a role and for a
// called flow alike.
func TestLinksLeadNowhereElse(t *testing.T) {
	for _, by := range []string{"role", "call"} {
		for name, tt := range map[string]struct {
			make   func(tree, out string) error
			where  string
			status store.Status
		}{
			"out": {func(tree, out string) error { return os.Symlink(out, filepath.Join(tree, "x")) }, "x",
				store.Blocked},
			"out, deeper": {func(tree, out string) error {
				return os.Symlink(filepath.Dir(out), filepath.Join(tree, "x"))
			}, "x/out", store.Blocked},
			"in": {func(tree, _ string) error {
				return os.Symlink(filepath.Join(tree, "in"), filepath.Join(tree, "x"))
			}, "x", store.Completed},
		} {
			t.Run(by+" "+name, func(t *testing.T) {
				out := filepath.Join(t.TempDir(), "out")
				var worked []string
				agents := map[string]scripted{
					"pick": func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result,
						error) {
						for _, dir := range []string{out, filepath.Join(req.Dir, "in")} {
							if err := os.Mkdir(dir, 0o755); err != nil {
								t.Error(err)
							}
						}
						if err := tt.make(req.Dir, out); err != nil {
							t.Error(err)
						}
						return say(`{"$status":"done","where":"`+tt.where+`"}`)(ctx, req, emit)
					},
					"work": func(ctx context.Context, req agent.Request, emit func(agent.Event) error) (agent.Result,
						error) {
						worked = append(worked, req.Dir)
						return say(status("done"))(ctx, req, emit)
					},
				}
				h := newHouse(t, agents)
				c := h.controller()
				flows := []string{placed}
				if by == "call" {
					flows = []string{replaceOnce(placed, "work: {description: works}", "work: {flow: there}"), `
version: 1
name: there
roles: {work: {description: works}}
graph:
  $START: {new: {role: work, prompt: go}}
  work: {done: {role: $END}}
`}
				}
				row := h.drive(c, h.beginFlows(c, Options{}, flows...).ID, Resume{})
				if row.Status != tt.status || (len(worked) > 0) != (tt.status == store.Completed) {
					t.Errorf("%s %+v, worked in %v", row.Status, row.Reason, worked)
				}
			})
		}
	}
}
