package control

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
	"github.com/plait-run/plait/internal/record/store"
)

const placed = `
version: 1
name: test
roles:
  pick: {description: picks}
  work: {description: works}
graph:
  $START: {new: {role: pick, prompt: "{{ prompt }}"}}
  pick: {done: {role: work, prompt: "there", location: "{{ where }}"}}
  work: {done: {role: $END}}
`

func TestLocationStaysInTheTree(t *testing.T) {
	for where, want := range map[string]store.Status{
		"sub/dir": store.Completed, "../out": store.Blocked, "/etc": store.Blocked, "a/../../b": store.Blocked,
	} {
		var dirs []string
		h := newHouse(t, map[string]scripted{
			"pick": say(`{"$status":"done","where":"` + where + `"}`),
			"work": func(_ context.Context, req agent.Request, _ func(agent.Event) error) (agent.Result, error) {
				if dirs = append(dirs, req.Dir); len(dirs) < 3 {
					return agent.Result{Output: []byte(`{"$status":"$SUSPEND","reason":"?"}`)}, nil
				}
				return agent.Result{Output: []byte(status("done"))}, nil
			},
		})
		row := h.run(placed)
		if want == store.Completed {
			// A suspended role runs again in the same place.
			for range 2 {
				wantStatus(t, row, store.Blocked, "input")
				row = h.drive(h.controller(), row.ID, Resume{Prompt: "on"})
			}
			there := filepath.Join(h.dir, "sub", "dir")
			if diff := cmp.Diff([]string{there, there, there}, dirs); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		}
		if row.Status != want || want == store.Blocked && len(dirs) > 0 {
			t.Errorf("location %q: %s %+v, worked in %v", where, row.Status, row.Reason, dirs)
		}
	}
}
