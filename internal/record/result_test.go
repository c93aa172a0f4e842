package record_test

import (
	"encoding/json"
	"testing"

	"github.com/plait-run/plait/internal/flow"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/testing/housetest"
)

const endings = `version: 1
name: endings
roles:
  writer: {description: writes}
  left: {description: goes left}
  right: {description: goes right}
gates:
  check: {kind: input, question: "Is it good?"}
forks:
  split: {forkPaths: [{pathId: a, childNodeId: left}, {pathId: b, childNodeId: right}]}
joins:
  gathered: {forkPathIds: [a, b]}
graph:
  $START: {new: {role: writer, prompt: "{{ prompt }}"}}
  writer:
    says: {role: $END, prompt: "It is about {{ title }}."}
    titled: {role: $END, prompt: "{{ title }}"}
    silent: {role: $END}
    blank: {role: $END, prompt: "{% if title == 'x' %}x{% endif %}"}
    bad: {role: $END, code: 3, prompt: "It is bad."}
    asks: {role: check}
    forks: {role: split, prompt: go}
  check: {answered: {role: $END}}
  left: {done: {role: gathered}}
  right: {done: {role: gathered}}
  gathered: {joined: {role: $END}}
`

// The result of a thread is the text of $END where it has one, else the last role's.
func TestResult(t *testing.T) {
	const body = "Rivers\n\nThere are three."
	wrote := func(c *chain, row store.Thread, status string) store.Thread {
		meta := json.RawMessage(`{"$status":"` + status + `","title":"Rivers"}`)
		return c.append(row, thread.Draft{Role: "writer", Meta: meta, Text: body})
	}
	ended := func(c *chain, row store.Thread, code int, summary string) store.Thread {
		tip, err := c.nodes.Tip(t.Context(), row.Head)
		c.must(err)
		ch, err := thread.End(row, tip, code, summary, c.now())
		c.must(err)
		c.commit(store.Batch{Objects: ch.Objects, Threads: []store.ThreadChange{{Row: ch.Row, From: row.State()}}})
		return ch.Row
	}
	over := func(c *chain, row store.Thread) store.Thread {
		d, ok := c.position(row).Next().(flow.End)
		if !ok {
			t.Fatalf("what follows is %T", c.position(row).Next())
		}
		return ended(c, row, d.Code, d.Summary)
	}
	split := func(c *chain, row store.Thread) (a, b store.Thread) {
		row = wrote(c, row, "forks")
		return c.path(row, "split", "gathered", "a", 1), c.path(row, "split", "gathered", "b", 1)
	}
	for _, tt := range []struct {
		name  string
		write func(c *chain, row store.Thread) store.Thread
		text  string
		own   bool
		end   string
	}{
		{"the text of the end", func(c *chain, row store.Thread) store.Thread {
			return over(c, wrote(c, row, "says"))
		}, "It is about Rivers.", true, "It is about Rivers."},
		{"a text that is the output's first line", func(c *chain, row store.Thread) store.Thread {
			return over(c, wrote(c, row, "titled"))
		}, "Rivers", true, "Rivers"},
		{"an end without a text", func(c *chain, row store.Thread) store.Thread {
			return over(c, wrote(c, row, "silent"))
		}, body, false, "Rivers"},
		{"a text that is blank when rendered", func(c *chain, row store.Thread) store.Thread {
			return over(c, wrote(c, row, "blank"))
		}, body, false, "Rivers"},
		{"a failure", func(c *chain, row store.Thread) store.Thread {
			return over(c, wrote(c, row, "bad"))
		}, "It is bad.", true, "It is bad."},
		{"an answer at the end", func(c *chain, row store.Thread) store.Thread {
			return over(c, c.step(wrote(c, row, "asks"), "check", "answered", "yes"))
		}, body, false, "Rivers"},
		{"a join at the end", func(c *chain, row store.Thread) store.Thread {
			a, b := split(c, row)
			a = c.end(c.step(a, "left", "done", "A."), store.Completed)
			b = c.end(c.step(b, "right", "done", "B."), store.Completed)
			parent, err := c.store.Thread(t.Context(), row.ID)
			c.must(err)
			return over(c, c.join(parent, "gathered", a, b))
		}, "## a\n\nA.\n\n## b\n\nB.\n", false, "## a"},
		{"cancelled where it would have ended", func(c *chain, row store.Thread) store.Thread {
			return ended(c, wrote(c, row, "says"), thread.CodeCancelled, "cancelled")
		}, body, false, "cancelled"},
		{"cancelled before its first step", func(c *chain, row store.Thread) store.Thread {
			return ended(c, row, thread.CodeCancelled, "cancelled")
		}, "", false, "cancelled"},
		{"a fork of a path", func(c *chain, row store.Thread) store.Thread {
			a, _ := split(c, row)
			a = c.step(a, "left", "done", "A.")
			state, err := c.nodes.State(t.Context(), a.Head)
			c.must(err)
			f := thread.Fork(a, "F", thread.Step{Hash: a.Head, State: state}, a.Steps, c.now())
			f.Path = a.Path
			return ended(c, c.add(nil, f), 0, "reached join gathered")
		}, "A.", false, "reached join gathered"},
		{"so far", func(c *chain, row store.Thread) store.Thread {
			return c.input(wrote(c, row, "asks"), "and then?")
		}, body, false, ""},
		{"before the first step", func(_ *chain, row store.Thread) store.Thread { return row }, "", false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newChain(t)
			objects, row, err := thread.Begin(thread.NewTask{
				Row: store.Thread{ID: "T", CreatedAt: c.now()}, Bundle: housetest.Bundle(c, endings), Prompt: "write",
			})
			c.must(err)
			got, err := c.record.Result(t.Context(), tt.write(c, c.add(objects, row)))
			if err != nil || got.Text != tt.text || got.Own != tt.own || got.End != tt.end {
				t.Errorf("the result is %q, own %t, end %q, want %q, %t, %q: %v", got.Text, got.Own, got.End, tt.text, tt.own,
					tt.end, err)
			}
		})
	}
}
