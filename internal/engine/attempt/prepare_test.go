package attempt

import (
	"testing"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record"
)

// TestRepeatsTask checks when a route says the task itself: not if it has the same words by chance.
func TestRepeatsTask(t *testing.T) {
	for route, want := range map[string]bool{
		"{{ prompt }}": true, "Do this: {{ prompt }}": true, "{{ prompt | upcase }}": false, "go": false, "go on": false,
		"{% if prompt == 'go' %}go{% endif %}": false,
	} {
		def := &flow.Definition{Roles: map[string]flow.Role{"w": {}},
			Graph: map[string]map[string]flow.Route{flow.Start: {"new": {Role: "w", Prompt: route}}}}
		at := &record.Position{Def: def, Prompt: "go"}
		d, ok := at.Next().(flow.Run)
		if want = want || ok && d.Prompt == "go"; !ok || repeatsTask(at, d) != want { // then nothing is lost
			t.Errorf("%s: %v, want %v", route, repeatsTask(at, d), want)
		}
	}
}
