package thread_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plait-run/plait/internal/record/thread"
)

func TestMergeSaysWhatStays(t *testing.T) {
	m := thread.Merge{Sides: []thread.MergedSide{{Path: "a", Merged: true}}, Caches: 1, Kept: []thread.KeptTree{
		{Path: "a", More: 2, Left: []thread.Left{{Path: "sub/", Why: thread.WhySubmodule},
			{Path: "x\n- the files of b are merged", Why: thread.WhyIgnored}}},
		{Path: "b", Left: []thread.Left{{Path: "odd", Why: "later"}}},
	}}
	want := `- the files of a are merged
- the worktree of a stays, since it has what cannot be merged: sub/ (in a submodule), "x\n- the files of b are merged" (ignored by Git) and 2 more
- the worktree of b stays, since it has what cannot be merged: odd (later)
- 1 cache was removed with its worktree`
	if diff := cmp.Diff(want, m.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	// A merge that leaves nothing is spelled as before.
	data, err := json.Marshal(thread.Merge{Sides: []thread.MergedSide{}})
	if diff := cmp.Diff(`{"from":"","to":"","sides":[]}`, string(data)); diff != "" || err != nil {
		t.Errorf("%v -want +got:\n%s", err, diff)
	}
}
