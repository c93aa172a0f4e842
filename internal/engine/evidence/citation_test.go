package evidence

import "testing"

func TestStrictCitations(t *testing.T) {
	s := newScene(t)
	s.add(t, "other", "found")
	s.add(t, "first", "cmd-3")
	for _, tt := range []struct{ name, output, want string }{
		{"none", `{"$status":"done"}`, ""},
		{"all kinds", `{"$status":"done","a":{"b":["see evidence:other.found, evidence:cmd-3 and ` +
			`evidence:first.cmd-3."]},"evidence":["evidence:cmd-1","other.found",{"id":"mine","kind":"file-anchor",` +
			`"title":"t","path":"a.txt"}],"c":"evidence:mine, evidence:first.mine"}`, ""},
		{"in the text", "---\n$status: done\n---\nevidence:nothing", "evidence:nothing is cited"},
		{"local of another", `{"$status":"done","x":"evidence:found"}`,
			"evidence:found is cited, but there is no such entry; there is cmd-1, cmd-3, other.found"},
		{"of nobody", `{"$status":"done","evidence":["nobody.cmd-1"]}`, "nobody.cmd-1"},
		{"a key cites nothing", `{"$status":"done","evidence:x":1}`, ""},
		{"not a list", `{"$status":"done","evidence":{"id":"x"}}`, "must be a list"},
		{"an unknown kind", `{"$status":"done","evidence":[{"id":"x","kind":"opinion"}]}`, "evidence[0]: want the id"},
		{"used before", `{"$status":"done","evidence":[{"id":"cmd-3","kind":"file-anchor","title":"t",` +
			`"path":"a.txt"}]}`, "is reserved for commands"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := s.prove(t, true, tt.output, ran("ls", "x", 0))
			mustRefuse(t, err, tt.want)
			if _, err := s.prove(t, false, tt.output, ran("ls", "x", 0)); err != nil &&
				tt.name != "used before" {
				t.Errorf("refused though nobody is strict: %v", err)
			}
		})
	}
	// Another process adds to it meanwhile.
	_, err := s.prove(t, true, `{"$status":"done","x":"evidence:late.cmd-1"}`)
	mustRefuse(t, err, "late.cmd-1")
	s.add(t, "late", "cmd-1")
	s.add(t, "first", "mine")
	_, err = s.prove(t, true, `{"$status":"done","x":"evidence:late.cmd-1"}`)
	mustRefuse(t, err, "")
	_, err = s.prove(t, false, `{"$status":"done","evidence":[{"id":"mine","kind":"file-anchor","title":"t",`+
		`"path":"a.txt"}]}`)
	mustRefuse(t, err, "mine: you have used this id before")
}

// TestCitationsOfAnyAgent checks that an agent that is neither a planner nor does an action must not cite what is not
// there either, if it clearly means an entry.
func TestCitationsOfAnyAgent(t *testing.T) {
	s := newScene(t)
	s.add(t, "other", "found")
	body := func(text string) string { return "---\n$status: done\n---\n" + text }
	for _, tt := range []struct{ output, want string }{
		{body("Proved by evidence:cmd-2."),
			"evidence:cmd-2 is cited, but there is no such entry; there is cmd-1, other.found"},
		{body("See evidence:change-1, evidence:tool-1-2-3"), "evidence:change-1 is cited"},
		{body("See evidence:other.lost"), "evidence:other.lost is cited"},
		{body("See evidence:nobody.cmd-1"), "evidence:nobody.cmd-1 is cited"},
		{body("See evidence:first.gone"), "evidence:first.gone is cited"},
		{`{"$status": "done", "why": ["evidence:cmd-9"]}`, "evidence:cmd-9 is cited"},
		{body("See evidence:cmd-1, evidence:other.found, evidence:found."), ""},
		{body("There is no evidence:none at all, evidence:e.g. this, evidence:cmd, evidence:command-1."), ""},
	} {
		_, err := s.prove(t, false, tt.output, ran("ls", "x", 0))
		mustRefuse(t, err, tt.want)
	}
	_, err := s.prove(t, false, body("Proved by evidence:cmd-1."))
	mustRefuse(t, err, "there is other.found")
	// A replay accepts what was accepted.
	for strict, want := range map[bool]string{false: "", true: "evidence:cmd-7 is cited"} {
		a := s.answer(body("Proved by evidence:cmd-7."))
		a.Strict, a.Accepted = strict, func() (bool, error) { return true, nil }
		_, err = s.Record(t.Context(), a)
		mustRefuse(t, err, want)
	}
}
