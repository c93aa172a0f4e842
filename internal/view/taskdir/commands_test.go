package taskdir

import (
	"testing"

	"github.com/plait-run/plait/internal/view"
)

func TestCommand(t *testing.T) {
	for want, o := range map[string]view.Option{
		"plait approve g-1":                  {Verb: view.Approve, ID: "g-1"},
		"plait deny g-1":                     {Verb: view.Deny, ID: "g-1"},
		"plait answer g-1 -m TEXT":           {Verb: view.Reply, ID: "g-1", Needs: view.NeedsText},
		"plait resume T":                     {Verb: view.Resume, ID: "T"},
		"plait resume T -p TEXT":             {Verb: view.Resume, ID: "T", Needs: view.NeedsText},
		"plait resume T --limit maxTokens=9": {Verb: view.Resume, ID: "T", Needs: view.NeedsLimit, Value: "maxTokens=9"},
	} {
		if got := Command(view.Program{}, o, "TEXT"); got != want {
			t.Errorf("%+v: %q, want %q", o, got, want)
		}
	}
}
