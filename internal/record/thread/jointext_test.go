package thread

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/record/store"
)

// nested grows a thread that calls another one and then forks into a and b. The called thread and b
// fork too, into x, whose conversation goes on, and y. It returns the steps of the call, of the join
// in b and of the outer join, which follows a.
func nested(t *testing.T, pointing bool) (c *chain, g *grown, call, inner, outer Step) {
	c = newChain(t)
	c.pointing = pointing
	g = c.root()
	split := func(g *grown, said string) Step {
		paths := c.fork(g, "x", "y")
		c.step(paths[0], Draft{Role: "ex", Text: said})
		c.step(paths[1], Draft{Role: "why", Text: "Y says this."})
		return c.join(g, paths[0], paths...)
	}
	c.step(g, Draft{Role: "plan", Text: "Planned."})
	child := c.call(g, "sub", 1, 1)
	returns := split(child, "X was called.")
	c.end(child, CodeDone)
	text, err := c.r.Text(t.Context(), returns.State.Content)
	if err != nil {
		t.Fatal(err)
	}
	call = c.step(g, Draft{Role: "sub", Text: text, ChildThread: child.row.Head})
	paths := c.fork(g, "a", "b")
	c.step(paths[0], Draft{Role: "first", Text: "A says this."})
	c.step(paths[1], Draft{Role: "second", Text: "B begins."})
	inner = split(paths[1], "X says this.")
	return c, g, call, inner, c.join(g, paths[0], paths...)
}

// Joins of before schema 9 are shown with the words to which they point, and so are calls that
// returned one.
func TestJoinsSayTheirWords(t *testing.T) {
	for _, pointing := range []bool{false, true} {
		c, _, call, inner, outer := nested(t, pointing)
		for _, tt := range []struct {
			name string
			step Step
			says string
		}{
			{"call", call, "## x\n\nX was called.\n\n## y\n\nY says this.\n"},
			{"inner", inner, "## x\n\nX says this.\n\n## y\n\nY says this.\n"},
			{"outer", outer, "## a\n\nA says this.\n\n## b\n\n## x\n\nX says this.\n\n## y\n\nY says this.\n"},
		} {
			got, err := c.r.Said(t.Context(), tt.step.State)
			if err != nil || got != tt.says {
				t.Errorf("pointing %t: the %s says %q, want %q: %v", pointing, tt.name, got, tt.says, err)
			}
			text, err := c.r.Text(t.Context(), tt.step.State.Content)
			if err != nil || strings.Contains(text, pointer) != pointing {
				t.Errorf("pointing %t: the %s has %q: %v", pointing, tt.name, text, err)
			}
			if points, err := c.r.Points(t.Context(), tt.step.State); err != nil || points != (pointing && tt.name != "call") {
				t.Errorf("pointing %t: the %s points: %t: %v", pointing, tt.name, points, err)
			}
		}
	}
}

// What programs printed is no Markdown, in a join and in a call that returned one either.
func TestJoinsShowPrograms(t *testing.T) {
	for _, pointing := range []bool{false, true} {
		c, _, call, _, outer := nested(t, pointing)
		for _, tt := range []struct {
			name string
			step Step
			says string
		}{
			{"call", call, "## x\n\n```\nX was called.\n```\n\n## y\n\n```\nY says this.\n```\n"},
			{"outer", outer, "## a\n\n```\nA says this.\n```\n\n## b\n\n## x\n\n```\nX says this.\n```\n\n## y\n\n```\nY says this.\n```\n"},
		} {
			got, asIs, err := c.r.Shown(t.Context(), tt.step.State, func(*Detail, json.RawMessage) bool { return true })
			if err != nil || got != tt.says || asIs {
				t.Errorf("pointing %t: the %s is shown as %q (as it is: %t), want %q: %v", pointing, tt.name, got, asIs, tt.says, err)
			}
		}
	}
	for text, want := range map[string]string{"  a\nb\n": "```\n  a\nb\n```", "```\nx\n```": "````\n```\nx\n```\n````"} {
		if got := codeBlock(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

// A prompt has the words of older joins unless the step that has them is before; that of a replay has what
// is recorded.
func TestPromptsHaveTheWordsOfOlderJoins(t *testing.T) {
	for asRecorded, pointers := range map[bool]int{false: 1, true: 3} {
		c, g, _, _, outer := nested(t, true)
		a, err := c.r.Assemble(t.Context(), outer.Hash, Prompt{Quota: 4000, Steps: g.row.Steps, Repeats: Repeats{AsRecorded: asRecorded}})
		if err != nil {
			t.Fatal(err)
		}
		for _, said := range []string{"X was called.", "X says this."} {
			if strings.Contains(a.Text, said) == asRecorded {
				t.Errorf("as recorded %t: %q in\n%s", asRecorded, said, a.Text)
			}
		}
		if n := strings.Count(a.Text, pointer); n != pointers {
			t.Errorf("as recorded %t: %d pointers, want %d:\n%s", asRecorded, n, pointers, a.Text)
		}
		obj, _, err := a.Keep(nil)
		if err != nil {
			t.Fatal(err)
		}
		c.commit([]store.Object{obj}, g.row, g.row.State())
		if got, err := c.r.Prompt(t.Context(), obj.Hash); err != nil || got != a.Text {
			t.Errorf("the prompt reads %q: %v", got, err)
		}
	}
}

// An agent may say the very words of the pointer.
func TestJoinQuotesThePointer(t *testing.T) {
	c := newChain(t)
	g := c.root()
	paths := c.fork(g, "a", "b")
	c.step(paths[0], Draft{Role: "first", Text: "A says this."})
	c.step(paths[1], Draft{Role: "second", Text: "It reads:\n\n## a\n\n" + pointer})
	j := c.join(g, paths[0], paths...)
	want := "## a\n\nA says this.\n\n## b\n\nIt reads:\n\n## a\n\n" + pointer + "\n"
	if got, err := c.r.Said(t.Context(), j.State); err != nil || got != want {
		t.Errorf("the join says %q, want %q: %v", got, want, err)
	}
}

// A prompt has what the main path said once: in its step, or where that is not in the prompt, in
// the join.
func TestPromptsHaveTheMainPathOnce(t *testing.T) {
	long := strings.TrimSpace(strings.Repeat("long ", 100))
	for _, tt := range []struct {
		name  string
		main  string // what the main path says
		edit  func(p *Prompt, main, fork Step)
		after bool // the main path's step is summarised
		times int
		want  string // the section of the main path in the join
		form  string // of the join; "": in full
	}{
		{name: "in full", main: "A says this.", times: 1, want: pointer},
		{name: "in the session", main: "A says this.",
			edit: func(p *Prompt, main, _ Step) { p.Since = main.Hash }, want: pointer},
		{name: "in a session from before the fork", main: "A says this.",
			edit: func(p *Prompt, _, fork Step) { p.Since = fork.Hash }, times: 1, want: pointer},
		{name: "its role is left out", main: "A says this.",
			edit: func(p *Prompt, _, _ Step) { p.OmitRoles = []string{"first"} }, times: 1, want: "A says this."},
		{name: "the route has its step", main: "A says this.",
			edit: func(p *Prompt, main, _ Step) { p.InRoute = main.Hash }, times: 1, want: "A says this."},
		{name: "it was summarised", main: "A says this.", after: true, times: 1, want: "A says this."},
		{name: "its step does not fit, but the join does", main: long,
			edit: func(p *Prompt, _, _ Step) { p.Quota = 297 }, times: 1, want: long},
		{name: "it fits nowhere", main: long,
			edit: func(p *Prompt, _, _ Step) { p.Quota = 150 }, form: FormBrief},
		{name: "it is pinned", main: long,
			edit: func(p *Prompt, _, _ Step) { p.Quota, p.Pin = 150, []string{"first"} }, times: 1, want: pointer},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newChain(t)
			g := c.root()
			fork := c.step(g, Draft{Role: "plan", Text: "Planned."})
			paths := c.fork(g, "b", "a")
			c.step(paths[0], Draft{Role: "second", Text: "B says this."})
			main := c.step(paths[1], Draft{Role: "first", Text: tt.main})
			if tt.after {
				c.step(paths[1], Draft{Role: RoleCompact, Text: "In short.", Compact: true})
			}
			c.join(g, paths[1], paths...)
			if tt.form == FormBrief {
				tt.want = tooLong(main.State.Content)
			}
			c.row = g.row
			p := Prompt{Route: "go on", Quota: 4000, Steps: g.row.Steps}
			if tt.edit != nil {
				tt.edit(&p, main, fork)
			}
			a, err := c.r.Assemble(t.Context(), c.row.Head, p)
			if err != nil {
				t.Fatal(err)
			}
			uses, err := c.r.Uses(t.Context(), nil, a.Uses)
			if err != nil {
				t.Fatal(err)
			}
			text, last := a.Text, uses[len(uses)-1]
			if last.Form != cmp.Or(tt.form, FormFull) || tt.form != "" && last.Bytes > len(text) {
				t.Errorf("a prompt of %d bytes lists the join as %s with %d bytes", len(text), last.Form, last.Bytes)
			}
			if lent := slices.Contains(a.Exports.Chains, Chain{main.Hash, fork.Hash}); lent != (tt.form != "") {
				t.Errorf("the steps of the main path can be read: %t", lent)
			}
			if n := strings.Count(text, tt.main); n != tt.times {
				t.Errorf("the prompt has the main path's text %d times, want %d:\n%s", n, tt.times, text)
			}
			if want := "## b\n\nB says this.\n\n## a\n\n" + tt.want + "\n--- end"; !strings.Contains(text, want) {
				t.Errorf("the join has no %q:\n%s", want, text)
			}
		})
	}
}

// What a prompt has of a join refers to the join's content, before and after what it leaves out.
func TestBriefJoinsAreReferences(t *testing.T) {
	c := newChain(t)
	g := c.root()
	paths := c.fork(g, "a", "b", "c")
	texts := []string{strings.Repeat("a ", 500), strings.Repeat("b ", 500), strings.Repeat("c ", 500)}
	for i, p := range paths {
		c.step(p, Draft{Role: "worker", Text: texts[i]})
	}
	j := c.join(g, paths[1], paths...)
	a, err := c.r.Assemble(t.Context(), j.Hash, Prompt{Quota: 4000, Steps: 2})
	if err != nil {
		t.Fatal(err)
	}
	obj, _, err := a.Keep(nil)
	if err != nil {
		t.Fatal(err)
	}
	c.commit([]store.Object{obj}, g.row, g.row.State())
	if got, err := c.r.Prompt(t.Context(), obj.Hash); err != nil || got != a.Text {
		t.Errorf("the prompt reads %q: %v", got, err)
	}
	var node struct{ Payload PromptNode }
	if err := json.Unmarshal(obj.Data, &node); err != nil {
		t.Fatal(err)
	}
	refs := 0
	for _, part := range node.Payload.Parts {
		if part.Content == j.State.Content {
			refs++
		}
	}
	if refs != 2 || len(obj.Data) > 2000 {
		t.Errorf("%d parts of the join in %d bytes:\n%s", refs, len(obj.Data), obj.Data)
	}
}
