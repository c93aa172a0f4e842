package taskdir

import (
	"errors"
	"fmt"
	"testing"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/view/advice"
)

func TestCommand(t *testing.T) {
	for want, o := range map[string]advice.Option{
		"plait approve g-1":                  {Verb: advice.Approve, ID: "g-1"},
		"plait deny g-1":                     {Verb: advice.Deny, ID: "g-1"},
		"plait answer g-1 -m TEXT":           {Verb: advice.Answer, ID: "g-1", Needs: advice.NeedsText},
		"plait resume T":                     {Verb: advice.Resume, ID: "T"},
		"plait resume T -p TEXT":             {Verb: advice.Resume, ID: "T", Needs: advice.NeedsText},
		"plait resume T --limit maxTokens=9": {Verb: advice.Resume, ID: "T", Needs: advice.NeedsLimit, Value: "maxTokens=9"},
		"plait resume T --on team --again":   {Verb: advice.ResumeTeam, ID: "01", Name: "T"},
		"plait resume T -p MORE":             {Verb: advice.Resume, ID: "T", Needs: advice.NeedsText, Value: "MORE"},
		"plait retry T":                      {Verb: advice.Retry, ID: "T"},
		"plait retry T --from STEP":          {Verb: advice.Retry, ID: "T", Needs: advice.NeedsStep},
		"plait fork T/STEP":                  {Verb: advice.Fork, ID: "T", Needs: advice.NeedsStep},
		"plait rm T":                         {Verb: advice.Remove, ID: "T"},
		"plait show T":                       {Verb: advice.Show, ID: "T"},
		"plait ls --all":                     {Verb: advice.ListAll},
		"plait run":                          {Verb: advice.Start},
		"plait run --record":                 {Verb: advice.Record},
	} {
		if got := (Program{}).Command(o, "TEXT"); got != want {
			t.Errorf("%+v: %q, want %q", o, got, want)
		}
	}
}

func TestNamed(t *testing.T) {
	other := Program{Name: "plaitd", Verbs: []string{"run", "rm"}}
	err := fmt.Errorf("no task: %w; start one with plait run, or: %w", store.ErrNotFound,
		advice.Textf("remove it with %s", advice.Option{Verb: advice.Remove, ID: "T"}))
	got := other.Named(err)
	if want := "no task: " + store.ErrNotFound.Error() + "; start one with plaitd run, or: remove it with plaitd rm T"; got.Error() != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	if !errors.Is(got, store.ErrNotFound) {
		t.Error("it is another error")
	}
	if other.Named(nil) != nil {
		t.Error("there is an error")
	}
}
