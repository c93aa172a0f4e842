package taskdir

import "testing"

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
}
