package evidence

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/agent"
)

// TestWhatDidNotEndProvesNothing: a command that was declined or interrupted is kept and marked,
// and no answer may rely on it.
func TestWhatDidNotEndProvesNothing(t *testing.T) {
	s := newScene(t)
	minus := -1
	seen := []agent.Event{
		ran("make", "", 0),
		{Kind: agent.EventCommand, Phase: "declined", Text: "make install"},
		{Kind: agent.EventCommand, Phase: "failed", Text: "sleep 600", Output: "so far\n"},
		{Kind: agent.EventCommand, Phase: "failed", Text: "sleep 700", Exit: &minus}, // from an older record
		{Kind: agent.EventCommand, Phase: "declined", Text: "make test"}, ran("make test", "ok\n", 0),
		ran("make check", "ok\n", 0), {Kind: agent.EventCommand, Phase: "declined", Text: "make check"},
	}
	var unfinished []string
	first := s.answer(`{"$status":"done"}`, seen...)
	for _, ev := range newScene(t).keep(t, first) {
		if ev.Unfinished() {
			unfinished = append(unfinished, ev.ID+": "+ev.Summary)
		}
	}
	if diff := cmp.Diff([]string{"cmd-2: it was declined and not run", "cmd-3: it was interrupted before it ended",
		"cmd-4: exit code -1", "cmd-5: it was declined and not run", "cmd-8: it was declined and not run"},
		unfinished); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	entry := func(command string) string {
		return `{"$status":"done","evidence":[{"id":"a","kind":"command-execution","title":"t","command":"` + command +
			`"}]}`
	}
	cases := []struct{ name, output, want string }{
		{"what ended", `{"$status":"done","x":"evidence:cmd-1"}`, ""},
		{"declined", `{"$status":"done","x":"it was installed, evidence:cmd-2"}`,
			"evidence:cmd-2 proves nothing: it was declined and not run; say so without citing it"},
		{"declined, in the text", "---\n$status: done\n---\nevidence:first.cmd-2",
			"evidence:first.cmd-2 proves nothing"},
		{"interrupted", `{"$status":"done","x":["evidence:cmd-3"]}`, "evidence:cmd-3 proves nothing: it was interrupted " +
			"before it ended"},
		{"interrupted, with an exit code", `{"$status":"done","x":["evidence:cmd-4"]}`, "evidence:cmd-4 proves nothing"},
		{"both in one", `{"$status":"done","x":"evidence:cmd-2 evidence:cmd-1 evidence:cmd-3"}`,
			"evidence:cmd-2 proves nothing: it was declined and not run; say so without citing it; " +
				"evidence:cmd-3 proves"},
		{"pointed out by its line", entry("make install"), `the command "make install" proves nothing: it ` +
			`was declined`},
		{"pointed out by its id", entry("cmd-3"), `the command "cmd-3" proves nothing: it was interrupted`},
		{"declined, and then run", entry("make test"), ""},
		{"run, and then declined", entry("make check"), ""},
	}
	for _, tt := range cases {
		for _, strict := range []bool{true, false} {
			_, err := s.prove(t, strict, tt.output, seen...)
			mustRefuse(t, err, tt.want)
		}
	}
	_, err := s.prove(t, true, `{"$status":"done","x":"evidence:cmd-99"}`, seen...)
	mustRefuse(t, err, "evidence:cmd-99 is cited, but there is no such entry; there is cmd-1, cmd-6, cmd-7")

	// The output of a program, a chat and the inputs of a plan are not refused.
	for name, tt := range map[string]struct {
		output string
		is     func(*Answer)
	}{
		"a program": {"---\n$status: done\n---\nevidence:cmd-2", func(a *Answer) { a.Plain = true }},
		"a chat":    {"---\n$status: done\n---\nevidence:cmd-2 was declined", func(a *Answer) { a.Chat = true }},
		"an input": {`{"$status":"planned","actions":[{"id":"a","inputs":["evidence:first.cmd-3"]}]}`,
			func(a *Answer) { a.Plan, a.Strict = true, true }},
	} {
		a := s.answer(tt.output, seen...)
		tt.is(&a)
		if _, err := s.Record(t.Context(), a); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}

	// The same for another's, from the record.
	s.keep(t, s.answer(`{"$status":"done"}`, seen...))
	for id, want := range map[string]string{"first.cmd-1": "", "first.cmd-6": "",
		"first.cmd-2": "proves nothing: it was declined", "first.cmd-3": "proves nothing: it was interrupted"} {
		p := `{"$status":"done","x":"evidence:` + id + `"}`
		_, err := s.prove(t, true, p)
		mustRefuse(t, err, want)
	}
	// An instance without that name means the only one there is, as readers resolve it.
	other := s.answer("---\n$status: done\n---\nevidence:cmd-2")
	other.Attempt.Instance = "other"
	_, err = s.Record(t.Context(), other)
	mustRefuse(t, err, "evidence:cmd-2 proves nothing")
}
