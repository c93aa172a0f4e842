package prompt

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// pointer takes the place of what the main path said in prompts that have it in the step before.
const pointer = "(main path: see the step before)"

// nested grows a thread that calls another one and then forks into a and b. The called thread and b
// fork too, into x, whose conversation goes on, and y. Joins are as before schema 9.
func nested(t *testing.T) *chain {
	c := newChain(t)
	c.pointing = true
	split := func(g *grown, said string) {
		paths := c.fork(g, "x", "y")
		c.step(paths[0], thread.Draft{Role: "ex", Text: said})
		c.step(paths[1], thread.Draft{Role: "why", Text: "Y says this."})
		c.join(g, paths[0], paths...)
	}
	c.add(thread.Draft{Role: "plan", Text: "Planned."})
	child := c.call(c.grown, "sub")
	split(child, "X was called.")
	ch, err := thread.End(child.row, child.tip, thread.CodeDone, "the end", child.made)
	c.keep(child, ch, err)
	c.add(thread.Draft{Role: "sub", Text: child.said, ChildThread: child.row.Head})
	paths := c.fork(c.grown, "a", "b")
	c.step(paths[0], thread.Draft{Role: "first", Text: "A says this."})
	c.step(paths[1], thread.Draft{Role: "second", Text: "B begins."})
	split(paths[1], "X says this.")
	c.join(c.grown, paths[0], paths...)
	return c
}

// A prompt has the words of older joins, unless the step before them already has those words. The prompt of a replay
// has what is recorded.
func TestPromptsHaveTheWordsOfOlderJoins(t *testing.T) {
	for asRecorded, pointers := range map[bool]int{false: 1, true: 3} {
		c := nested(t)
		d := Draft{Quota: 4000, Steps: c.row.Steps, Repeats: Repeats{AsRecorded: asRecorded}}
		a, err := c.a.Assemble(t.Context(), c.row.Head, d)
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
		c.commit([]store.Object{obj}, c.row, c.row.State())
		if got, err := Read(t.Context(), c.nodes, obj.Hash); err != nil || got != a.Text {
			t.Errorf("the prompt reads %q: %v", got, err)
		}
	}
}

// A prompt has what the main path said once: in its step, or where that is not in the prompt, in
// the join.
func TestPromptsHaveTheMainPathOnce(t *testing.T) {
	long := strings.TrimSpace(strings.Repeat("long ", 100))
	for _, tt := range []struct {
		name  string
		main  string // what the main path says
		edit  func(p *Draft, main, fork thread.Step)
		after bool // the main path's step is summarized
		times int
		want  string // the section of the main path in the join
		form  string // of the join; "": in full
	}{
		{name: "in full", main: "A says this.", times: 1, want: pointer},
		{name: "in the session", main: "A says this.",
			edit: func(p *Draft, main, _ thread.Step) { p.Since = main.Hash }, want: pointer},
		{name: "in a session from before the fork", main: "A says this.",
			edit: func(p *Draft, _, fork thread.Step) { p.Since = fork.Hash }, times: 1, want: pointer},
		{name: "its role is left out", main: "A says this.",
			edit: func(p *Draft, _, _ thread.Step) { p.OmitRoles = []string{"first"} }, times: 1, want: "A says this."},
		{name: "the route has its step", main: "A says this.",
			edit: func(p *Draft, main, _ thread.Step) { p.InRoute = main.Hash }, times: 1, want: "A says this."},
		{name: "it was summarised", main: "A says this.", after: true, times: 1, want: "A says this."},
		{name: "its step does not fit, but the join does", main: long,
			edit: func(p *Draft, _, _ thread.Step) { p.Quota = 297 }, times: 1, want: long},
		{name: "it fits nowhere", main: long,
			edit: func(p *Draft, _, _ thread.Step) { p.Quota = 150 }, form: thread.FormBrief},
		{name: "it is pinned", main: long,
			edit: func(p *Draft, _, _ thread.Step) { p.Quota, p.Pin = 150, []string{"first"} }, times: 1, want: pointer},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newChain(t)
			fork := c.add(thread.Draft{Role: "plan", Text: "Planned."})
			paths := c.fork(c.grown, "b", "a")
			c.step(paths[0], thread.Draft{Role: "second", Text: "B says this."})
			main := c.step(paths[1], thread.Draft{Role: "first", Text: tt.main})
			if tt.after {
				c.step(paths[1], thread.Draft{Role: thread.RoleCompact, Text: "In short.", Compact: true})
			}
			c.join(c.grown, paths[1], paths...)
			if tt.form == thread.FormBrief {
				tt.want = tooLong(main.State.Content)
			}
			p := Draft{Route: "go on", Quota: 4000, Steps: c.row.Steps}
			if tt.edit != nil {
				tt.edit(&p, main, fork)
			}
			a, err := c.a.Assemble(t.Context(), c.row.Head, p)
			if err != nil {
				t.Fatal(err)
			}
			uses, err := Uses(t.Context(), c.nodes, nil, a.Uses)
			if err != nil {
				t.Fatal(err)
			}
			text, last := a.Text, uses[len(uses)-1]
			if last.Form != cmp.Or(tt.form, thread.FormFull) || tt.form != "" && last.Bytes > len(text) {
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
	paths := c.fork(c.grown, "a", "b", "c")
	texts := []string{strings.Repeat("a ", 500), strings.Repeat("b ", 500), strings.Repeat("c ", 500)}
	for i, p := range paths {
		c.step(p, thread.Draft{Role: "worker", Text: texts[i]})
	}
	j := c.join(c.grown, paths[1], paths...)
	a, err := c.a.Assemble(t.Context(), j.Hash, Draft{Quota: 4000, Steps: 2})
	if err != nil {
		t.Fatal(err)
	}
	obj, _, err := a.Keep(nil)
	if err != nil {
		t.Fatal(err)
	}
	c.commit([]store.Object{obj}, c.row, c.row.State())
	if got, err := Read(t.Context(), c.nodes, obj.Hash); err != nil || got != a.Text {
		t.Errorf("the prompt reads %q: %v", got, err)
	}
	var node struct{ Payload Node }
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
