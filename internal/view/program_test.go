package view

import (
	"errors"
	"fmt"
	"testing"

	"github.com/plait-run/plait/internal/record/store"
)

func TestProgram(t *testing.T) {
	other := Program{Name: "plaitd", Verbs: []string{"run", "gate", "resume"}}
	for _, x := range []struct{ text, want string }{
		{"", ""},
		{"run it with: plait run x", "run it with: plaitd run x"},
		{"`plait gate list`, then plait resume k7f2", "`plaitd gate list`, then plaitd resume k7f2"},
		{"plait --home x", "plaitd --home x"},
		{"plait -h", "plaitd -h"},
		{"a branch that plait did not make", "a branch that plait did not make"},
		{"the MCP server plait now", "the MCP server plait now"},
		{"plait demo", "plait demo"}, // it has no such verb
		{"exit plait", "exit plait"},
		{"plaitd run x", "plaitd run x"},
	} {
		if got := other.Says(x.text); got != x.want {
			t.Errorf("it says %q of %q, want %q", got, x.text, x.want)
		}
		for _, p := range []Program{{}, {Name: "plait", Verbs: other.Verbs}} {
			if got := p.Says(x.text); got != x.text {
				t.Errorf("%+v says %q of %q", p, got, x.text)
			}
		}
	}
	err := fmt.Errorf("no task: %w; start one with plait run", store.ErrNotFound)
	if got := other.Named(err); got.Error() != "no task: "+store.ErrNotFound.Error()+"; start one with plaitd run" ||
		!errors.Is(got, store.ErrNotFound) {
		t.Errorf("it says %q", got)
	}
	if other.Named(nil) != nil || (Program{}).Named(err) != err {
		t.Error("what needs no name is changed")
	}
}
