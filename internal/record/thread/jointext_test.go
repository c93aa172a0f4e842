package thread

import (
	"encoding/json"
	"strings"
	"testing"
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
			{"outer", outer, "## a\n\n```\nA says this.\n```\n\n## b\n\n## x\n\n```\nX says this.\n```\n\n## y\n\n```\nY says " +
				"this.\n```\n"},
		} {
			got, asIs, err := c.r.Shown(t.Context(), tt.step.State, func(*Detail, json.RawMessage) bool { return true })
			if err != nil || got != tt.says || asIs {
				t.Errorf("pointing %t: the %s is shown as %q (as it is: %t), want %q: %v", pointing, tt.name, got, asIs, tt.says,
					err)
			}
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
