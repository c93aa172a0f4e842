package verify_test

import (
	"strings"
	"testing"

	"github.com/plait-run/plait/internal/record/dag"
	"github.com/plait-run/plait/internal/record/store"
	"github.com/plait-run/plait/internal/record/thread"
	"github.com/plait-run/plait/internal/record/verify"
	"github.com/plait-run/plait/internal/testing/mem"
)

// A request that was edited, with correct hashes, is named.
func TestEditedCalls(t *testing.T) {
	w := newWorld(t, mem.New(mem.Config{}))
	var b thread.CallRecorder
	first, blobs := b.Request(thread.ModelCall{}, []byte(`{"messages":[1,2]}`))
	second, more := b.Request(thread.ModelCall{}, []byte(`{"messages":[1,2,3]}`))
	w.commit(store.Batch{Objects: append(blobs, more...)})
	for _, test := range []struct {
		name string
		edit func(c *thread.Calls)
		want string
	}{
		{"nothing", func(*thread.Calls) {}, ""},
		{"keep", func(c *thread.Calls) { c.Calls[1].Keep = 1 }, "call 2 of "},
		{"too many", func(c *thread.Calls) { c.Calls[1].Keep = 9 }, "keeps 9 of 2 messages"},
		{"parts", func(c *thread.Calls) { c.Calls[0].Parts = second.Parts }, "call 1 of "},
		{"hash", func(c *thread.Calls) { c.Calls[0].SHA256 = dag.Sum(nil) }, "do not hash to"},
		{"before", func(c *thread.Calls) { c.Prev = w.content("x") }, "is of type content"},
	} {
		a, c := *first, *second
		node := thread.Calls{Calls: []*thread.ModelCall{&a, &c}}
		test.edit(&node)
		r, err := verify.Object(ctx, verify.Config{Store: w.s}, w.put(dag.TypeCalls, node))
		w.must(err)
		switch {
		case test.want == "" && !r.OK():
			t.Errorf("%s: %+v", test.name, r.Problems)
		case test.want != "" && (len(r.Problems) != 1 || !strings.Contains(r.Problems[0].What, test.want)):
			t.Errorf("%s: %+v, want %q", test.name, r.Problems, test.want)
		}
	}
}
