package prompt

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/thread"
)

// TestRememberedPrompts checks that a prompt does not depend on what a reader has cached of earlier prompts: of
// another kind, of a step further back, of a fork, or at the same step.
func TestRememberedPrompts(t *testing.T) {
	c := newChain(t)
	compare := func(head dag.Hash, p Draft) {
		t.Helper()
		got, err := c.a.Assemble(t.Context(), head, p)
		if err != nil {
			t.Fatal(err)
		}
		want, err := NewAssembler(thread.NewReader(c.store)).Assemble(t.Context(), head, p)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.Text, got.Text) + cmp.Diff(want.Uses, got.Uses); diff != "" {
			t.Fatalf("after %d steps: -new +remembering\n%s", len(c.steps), diff)
		}
	}
	const most = maxChainSteps + 80
	for n := 1; n <= most; n++ {
		text := fmt.Sprintf("said %d %s", n, strings.Repeat("and ", n%50))
		switch {
		case n == most/2:
			c.add(thread.Draft{Role: thread.RoleCompact, Text: "in short", Compact: true})
		case n%7 == 0:
			c.add(thread.Draft{Role: thread.RoleInput, Text: text, Meta: json.RawMessage(`{"gate":null,"source":"resume"}`)})
			continue // two steps between two prompts
		default:
			c.add(thread.Draft{Role: "worker", Text: text, Meta: json.RawMessage(`{"$status":"done","n":` + itoa(n) + `}`)})
		}
		p := Draft{Task: "the task", Route: "go on", Quota: 400, Steps: n}
		parent := c.steps[max(0, len(c.steps)-2)].Hash
		switch n % 11 {
		case 1:
			p.Quota = 4000
		case 2:
			p.Conversation = true
		case 3:
			p.Questions = map[dag.Hash]string{parent: "what is asked"}
		case 4:
			p.Full, p.Quota = true, 100_000
		case 5:
			p.Since = c.steps[len(c.steps)/2].Hash
		}
		if n > 100 && n < most-60 && n%61 != 0 { // a reader with an empty cache is slow
			if _, err := c.a.Assemble(t.Context(), c.row.Head, p); err != nil {
				t.Fatal(err)
			}
			continue
		}
		compare(c.row.Head, p)
		compare(c.row.Head, Draft{Quota: 400, Steps: n})
		compare(parent, Draft{Quota: 400, Steps: n, Pin: []string{"worker"}})
	}
}

// TestFileNames checks that the name of an artifact's file is one that file systems allow.
func TestFileNames(t *testing.T) {
	long := strings.Repeat("n", 243)
	h := dag.Sum(nil)
	for name, want := range map[string]string{
		"a/b.txt": "a/b.txt", "a b.txt": h.Short() + "-a_b.txt", "../x": h.Short() + "-x",
		long + " x.txt": h.Short() + "-" + (long + "_x.txt")[len(long)+6-maxBase:],
	} {
		if got := FileName(h, name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
