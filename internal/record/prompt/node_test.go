package prompt

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
)

// prompt assembles the prompt for the next step and stores it, building on the one before.
func (c *chain) prompt(p Draft, before *Kept) (store.Object, *Kept) {
	c.t.Helper()
	p.Steps = c.row.Steps
	a, err := c.a.Assemble(c.t.Context(), c.row.Head, p)
	if err != nil {
		c.t.Fatal(err)
	}
	obj, kept, err := a.Keep(before)
	if err == nil {
		err = c.store.Commit(c.t.Context(), store.Batch{Objects: []store.Object{obj}})
	}
	if err != nil {
		c.t.Fatal(err)
	}
	if kept.Text != a.Text || kept.Hash != obj.Hash {
		c.t.Fatalf("kept %s of %d bytes, assembled %s of %d", kept.Hash, len(kept.Text), obj.Hash, len(a.Text))
	}
	return obj, kept
}

// A prompt takes bytes in proportion to what it adds, and comes back byte for byte.
func TestPromptsBuildOnOneAnother(t *testing.T) {
	for _, tt := range []struct{ quota, steps, most int }{
		{32000, 120, 1600}, // all steps are included in full
		{4000, 200, 1800},  // the newest steps in full, earlier ones by their meta; the rest is left out
	} {
		c := newChain(t)
		var before *Kept
		total, told := 0, 0
		for i := range tt.steps {
			p := Draft{
				Contract: strings.Repeat("contract ", 40), Task: "the task", TaskNode: c.start(),
				Route: fmt.Sprintf("go on with %d", i), Quota: tt.quota,
			}
			obj, kept := c.prompt(p, before)
			total, told = total+len(obj.Data), told+len(kept.Text)
			text, err := Read(t.Context(), thread.NewReader(c.store), obj.Hash)
			if err != nil || text != kept.Text {
				t.Fatalf("prompt %d: %v; it came back with %d bytes of %d", i, err, len(text), len(kept.Text))
			}
			before = kept
			c.add(thread.Draft{
				Role: "worker", Text: strings.Repeat(fmt.Sprintf("%d said a word\n", i), 130),
				Meta: json.RawMessage(`{"$status":"done"}`),
			})
		}
		t.Logf("quota %d: a prompt takes %d bytes, for %d that it tells", tt.quota, total/tt.steps, told/tt.steps)
		if each := total / tt.steps; each > tt.most {
			t.Errorf("quota %d: a prompt takes %d bytes, at most %d are wanted", tt.quota, each, tt.most)
		}
		if before.Links > MaxLinks {
			t.Errorf("the last prompt builds on %d others", before.Links)
		}
	}
}

// A prompt can build on one of another role or thread, but shares only what is the same.
func TestAPromptBuildsOnAnyOther(t *testing.T) {
	c := newChain(t).grow(3)
	_, first := c.prompt(Draft{Role: "You are first.", Task: "the task", Quota: 1000}, nil)
	for _, before := range []*Kept{nil, first, {Hash: dag.Sum([]byte("empty"))},
		{Hash: first.Hash, Text: first.Text, Links: MaxLinks}} {
		obj, _ := c.prompt(Draft{Role: "You are second.", Task: "the task", Quota: 1000}, before)
		text, err := Read(t.Context(), c.nodes, obj.Hash)
		if err != nil || !strings.Contains(text, "You are second.") || !strings.Contains(text, "text 3") {
			t.Errorf("on %v: %v\n%s", before, err, text)
		}
	}
}

func TestPromptsThatAreWrong(t *testing.T) {
	c := newChain(t)
	put := func(payload Node) dag.Hash {
		t.Helper()
		obj, err := thread.NewNode(dag.TypePrompt, payload)
		if err == nil {
			err = c.store.Commit(t.Context(), store.Batch{Objects: []store.Object{obj}})
		}
		if err != nil {
			t.Fatal(err)
		}
		return obj.Hash
	}
	sum := dag.Sum([]byte("the task"))
	whole := []Part{{Content: c.start(), To: 8}}
	deep := put(Node{SHA256: sum, Size: 8, Parts: whole})
	for range MaxLinks + 1 {
		deep = put(Node{SHA256: sum, Size: 8, Parts: []Part{{Content: deep, To: 8}}})
	}
	for name, h := range map[string]dag.Hash{
		"hash":   put(Node{SHA256: dag.Sum(nil), Size: 8, Parts: whole}),
		"short":  put(Node{SHA256: sum, Size: 7, Parts: whole}),
		"long":   put(Node{SHA256: sum, Size: 8, Parts: append(whole, Part{Text: "!"})}),
		"beyond": put(Node{SHA256: sum, Size: 8, Parts: []Part{{Content: c.start(), To: 9}}}),
		"back":   put(Node{SHA256: sum, Size: 8, Parts: []Part{{Content: c.start(), From: 3, To: 2}}}),
		"before": put(Node{SHA256: sum, Size: 8, Parts: []Part{{Content: c.start(), From: -1, To: 2}}}),
		"huge":   put(Node{SHA256: sum, Size: 1 << 40, Parts: whole}),
		"deep":   deep,
		"start":  c.row.Start,
	} {
		if text, err := Read(t.Context(), c.nodes, h); err == nil {
			t.Errorf("%s: read as %q", name, text)
		} else if name != "start" && !errors.Is(err, dag.ErrMalformed) && !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
